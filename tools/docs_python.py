"""The reference of the Python API, from docstrings and signatures, and of the HTTP API."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, cast

import benchfleet
from benchfleet.dashboard.app import plain_application
from benchfleet.dashboard.campaigns import Campaigns
from benchfleet.dashboard.stream import Streams

FAMILIES = {  # the base classes that plugins derive from, by the word of the docs
    "Benchmark": "benchfleet.benchmarks.base",
    "Adapter": "benchfleet.models.base",
    "AttentionConfig": "benchfleet.models.attention.base",
    "PlacementPolicy": "benchfleet.policies.base",
    "Provider": "benchfleet.providers.base",
    "Exporter": "benchfleet.exporters.base",
    "ResultStore": "benchfleet.results.stores.base",
    "Engine": "benchfleet.engines.base",
    "Ledger": "benchfleet.ledger.base",
}
_PYTHON = """\
# Python API

What `import benchfleet` offers, and the modules that plugins build on. Other modules may change
in any release. [Results from Python](frames.md) and [BenchmarkExecutor](executor.md) have examples.
"""
_PLUGINS = """
## Base classes of plugins

Each module holds the whole contract of its family. A plugin imports from it alone.
"""
_HTTP = """\
# HTTP API

What the [dashboard](dashboard.md#the-api) answers below `/api`. The same description, for programs,
is at `/api/openapi.json`. All answers are JSON; an error has the key `detail`.
"""


def python_api() -> str:
    """A Markdown page with every public name, its signature and its docstring."""
    lines = [_PYTHON]
    for name in benchfleet.__all__:
        lines += [f"\n## benchfleet.{name}\n", *_described(name, getattr(benchfleet, name))]
    lines += [_PLUGINS]
    for module_name in FAMILIES.values():
        module = import_module(module_name)
        lines += [f"\n### {module_name}\n", _prose(module)]
        for name, value in _public_classes(module):
            lines += [f"\n#### {name}\n", *_described(name, value)]
    testing = import_module("benchfleet.testing")
    lines += ["\n## benchfleet.testing\n", _prose(testing)]
    for name in testing.__all__:
        lines += [f"\n### benchfleet.testing.{name}\n", *_described(name, getattr(testing, name))]
    return "\n".join(lines) + "\n"


def _public_classes(module: Any) -> Iterator[tuple[str, type]]:
    """The classes that a module defines itself, in their order."""
    for name, value in vars(module).items():
        if inspect.isclass(value) and value.__module__ == module.__name__ and name[0] != "_":
            yield name, value


def _described(name: str, value: Any) -> Iterator[str]:
    yield f"```python\n{_signature(name, value)}\n```\n"
    yield _prose(value)
    if inspect.isclass(value) and not issubclass(value, (enum.Enum, Exception)):
        for member, what in vars(value).items():
            if member[0] == "_":
                continue
            function = what.__func__ if isinstance(what, (classmethod, staticmethod)) else what
            if isinstance(what, property) or hasattr(what, "func"):
                yield f"- `{member}` (property): {_summary(what)}"
            elif inspect.isfunction(function):
                yield f"- `{_signature(member, function, 10_000)}`: {_summary(function)}"


class _Text(str):
    """An annotation that a signature shows as it stands."""

    def __repr__(self) -> str:
        return str(self)


def _signature(name: str, value: Any, width: int = 100) -> str:
    """A call of it with its parameters; over several lines if it is wider than `width`."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    parameters = [
        one.replace(annotation=_Text(one.annotation)) if isinstance(one.annotation, str) else one
        for one in signature.parameters.values()
    ]
    returned = signature.return_annotation
    if isinstance(returned, str):
        returned = _Text(returned)
    if inspect.isclass(value):
        returned = inspect.Signature.empty
    text = str(signature.replace(parameters=parameters, return_annotation=returned))
    if len(name + text) <= width or not parameters:
        return name + text
    inner = str(inspect.Signature(parameters))[1:-1]
    split = re.split(r", (?=\*{0,2}\w+:|\*{0,2}\w+,|\*, |/, )", inner)
    return f"{name}(\n    " + ",\n    ".join(split) + ",\n)" + text.removeprefix(f"({inner})")


def _prose(value: Any) -> str:
    """Its own docstring; that of a base class says nothing about it."""
    own = vars(value).get("__doc__") or getattr(value, "__doc__", None) if value else None
    text = inspect.cleandoc(own or "").replace("``", "`")
    return _fenced(text) + "\n"


def _summary(value: Any) -> str:
    return " ".join(inspect.cleandoc(value.__doc__ or "").partition("\n\n")[0].split())


def _fenced(text: str) -> str:
    """A docstring as Markdown: what follows ``::`` is a block of code."""
    lines, code = [], False
    for line in text.splitlines():
        if code and line and not line.startswith(" "):
            lines.append("```\n")
            code = False
        if line.endswith("::") and not code:
            lines += [line[:-1].rstrip(":").rstrip() + ("" if line == "::" else ":"), "", "```text"]
            code = True
        else:
            lines.append(line)
    return "\n".join([*lines, "```"] if code else lines)


def http_api() -> str:
    """A Markdown page with every address of the dashboard's API."""
    # The description needs the routes alone, which read neither campaigns nor streams.
    application = plain_application(cast(Campaigns, None), cast(Streams, None))
    schema = application.openapi()
    lines = [_HTTP]
    for path, methods in schema["paths"].items():
        for method, what in methods.items():
            lines += [f"\n## {method.upper()} {path}\n", f"{what.get('description', '')}\n"]
            lines += _parameters(what.get("parameters", []))
            if body := what.get("requestBody"):
                lines += [f"Body: {_kind(_json_of(body))}\n"]
            lines += ["| status | answer |", "|---|---|"]
            for status, answer in what["responses"].items():
                kind = f": {_kind(schema_of)}" if (schema_of := _json_of(answer)) else ""
                lines += [f"| {status} | {answer['description']}{kind} |"]
    lines += ["\n## Objects\n"]
    for name, model in schema["components"]["schemas"].items():
        lines += [f"\n### {name}\n", f"{model.get('description', '')}\n"]
        lines += ["| key | type | meaning |", "|---|---|---|"]
        for key, value in model.get("properties", {}).items():
            must = "" if key in model.get("required", ()) else "optional; "
            lines += [f"| `{key}` | {_kind(value)} | {must}{value.get('description', '')} |"]
    return "\n".join(lines) + "\n"


def _parameters(parameters: list[dict[str, Any]]) -> Iterator[str]:
    if not parameters:
        return
    yield "| parameter | in | type | meaning |\n|---|---|---|---|"
    for one in parameters:
        schema = one["schema"]
        meaning = one.get("description") or schema.get("description", "")
        bounds = [
            f"{word} {schema[key]}"
            for key, word in _BOUNDS.items()
            if schema.get(key) not in (None, "")
        ]
        text = "; ".join(filter(None, [meaning, ", ".join(bounds)]))
        yield f"| `{one['name']}` | {one['in']} | {_kind(schema)} | {text} |"
    yield ""


_BOUNDS = {
    "default": "default",
    "minimum": "at least",
    "maximum": "at most",
    "maxLength": "length at most",
}


def _json_of(part: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = part.get("content", {}).get("application/json", {}).get("schema", {})
    return result


def _kind(schema: dict[str, Any]) -> str:
    """A type in words, with links to the objects."""
    if name := schema.get("$ref", "").rpartition("/")[2]:
        return f"[{name}](#{name.lower()})"
    if options := schema.get("anyOf"):
        return " or ".join(_kind(one) for one in options)
    if "enum" in schema or "const" in schema:
        return ", ".join(
            f"`{one}`" for one in schema.get("enum", [schema.get("const")]) if one != ""
        )
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of ({_kind(schema.get('items', {}))})"
    if isinstance(others := schema.get("additionalProperties"), dict):
        return f"mapping to {_kind(others)}"
    return str(kind)
