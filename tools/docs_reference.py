"""The reference pages of the docs site: from the parsers of the command line and the schema."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from benchfleet.campaign.schema import campaign_schema
from benchfleet.cli.main import VERB_GROUPS, parser_of

_MAX_LISTED = 25  # names in one cell of a table
_FAMILIES = {"models": "an adapter", "attention": "an attention step", "engines": "an engine"}
_SCALARS = {"string": "text", "boolean": "true or false", "integer": "whole number"}
_COMMAND_LINE = """\
# Command line

The output of `benchfleet VERB --help` for each verb. See also the [exit codes](exit-codes.md).
"""
_CAMPAIGN_FILE = """\
# Keys of the campaign file

Every key that a campaign file may have, from `benchfleet schema`. The page
[Campaign file](campaign.md) explains them with examples.
"""


def command_line() -> str:
    """A Markdown page with the help of every verb, by group."""
    lines = [_COMMAND_LINE]
    for group, verbs in VERB_GROUPS.items():
        lines += [f"## {group.capitalize()}", ""]
        for verb in verbs:
            lines += [f"### benchfleet {verb}", ""]
            for parser in _with_own_verbs(_subparsers(parser_of([verb]))[verb]):
                lines += ["```text", parser.format_help().rstrip(), "```", ""]
    return "\n".join(lines)


def _with_own_verbs(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for own in _subparsers(parser).values():
        yield from _with_own_verbs(own)


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def campaign_file() -> str:
    """A Markdown page with every key of a campaign file: a table for each different mapping."""
    return _CAMPAIGN_FILE + "".join(_CampaignTables().render(campaign_schema()))


class _CampaignTables:
    """The tables of the page, each mapping of the schema once."""

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}  # of each mapping, by its schema: where it is described
        self._waiting: list[tuple[str, dict[str, Any]]] = []

    def render(self, schema: dict[str, Any]) -> Iterator[str]:
        """Each table with its heading."""
        self._waiting = [("", schema)]
        while self._waiting:
            path, mapping = self._waiting.pop(0)
            yield f"\n## {path or 'At the top'}\n\n| key | type | meaning |\n|---|---|---|\n"
            for key, value in mapping["properties"].items():
                kind = self._kind(value, f"{path}.{key}".lstrip("."))
                required = "required; " if key in mapping.get("required", ()) else ""
                meaning = required + value.get("description", "")
                yield f"| `{key}` | {_escaped(kind)} | {_escaped(meaning)} |\n"

    def _kind(self, value: dict[str, Any], path: str) -> str:
        """What a value at `path` may be, in words; its mappings wait for a table of their own."""
        if "anyOf" in value:
            kinds = [self._kind(option, path) for option in value["anyOf"]]
            return " or ".join(dict.fromkeys(kind for kind in kinds if kind))
        if "$ref" in value:
            family = value["$ref"].rpartition("/")[2]
            return f"name of {_FAMILIES.get(family, f'one of the {family}')}"
        if "enum" in value or "const" in value:
            return _listed(value.get("enum", [value.get("const")]))
        match value.get("type"):
            case "null":
                return ""
            case "array":
                return f"list of ({self._kind(value.get('items', {}), f'{path}[]')})"
            case "object":
                return self._mapping(value, path)
            case str(kind):
                return _scalar(kind, value)
            case list(kinds):
                return " or ".join(_scalar(kind, value) for kind in kinds if kind != "null")
            case _:
                return "any value"

    def _mapping(self, value: dict[str, Any], path: str) -> str:
        if "properties" not in value:
            others = value.get("additionalProperties")
            if not others or others is True:
                return "mapping"
            return f"mapping of names to ({self._kind(others, f'{path}.NAME')})"
        digest = json.dumps(value, sort_keys=True)
        if digest not in self._paths:
            self._paths[digest] = path
            self._waiting.append((path, value))
        heading = self._paths[digest]
        return f"[{heading}](#{_anchor(heading)})"


def _listed(options: list[Any]) -> str:
    names = [one if isinstance(one, str) else json.dumps(one) for one in options]
    more = ", …" if len(names) > _MAX_LISTED else ""
    return ", ".join(f"`{name}`" for name in names[:_MAX_LISTED]) + more


def _scalar(kind: str, value: dict[str, Any]) -> str:
    text = _SCALARS.get(kind, kind)
    if "minimum" in value:
        text += f" ≥ {value['minimum']}"
    if examples := value.get("examples"):
        text += " such as " + ", ".join(f"`{one}`" for one in examples)
    return text


def _anchor(heading: str) -> str:
    return "".join(c for c in heading.lower() if c.isalnum() or c in "_- ").replace(" ", "-")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;").replace("\n", " ")
