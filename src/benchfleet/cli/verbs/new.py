"""``benchfleet new``: write your own plugin: a file, its test and its entry point."""

from __future__ import annotations

import argparse
import keyword
import re
import shlex
from importlib.resources import files
from pathlib import Path
from typing import cast

from benchfleet import registry
from benchfleet.cli.text.output import print_json, say
from benchfleet.errors import wrong_option

_FAMILIES = {
    "benchmark": "benchmarks",
    "adapter": "models",
    "attention": "attention",
    "policy": "policies",
    "store": "stores",
    "provider": "providers",
    "exporter": "exporters",
}
_USES = {
    "benchmark": "benchmarks: [{name}]",
    "adapter": "models: [{{adapter: {name}, model: my-model}}]",
    "attention": "configs: {{sparse: {{attention: {{{name}: 8}}}}}}",
    "policy": "placement: {name}",
    "store": "results: {name}:///srv/results",
    "provider": "providers: {{{name}: {{key: env:{key}}}}}",
    "exporter": "benchfleet export study.yaml --to {name}",
}
_USED_IN = {"provider": ", in an inventory", "exporter": ""}
_NAME = re.compile("[a-z][a-z0-9]*([_-][a-z0-9]+)*")


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = "example: benchfleet new benchmark capitals && pip install -e capitals"
    parser.add_argument(
        "kind", metavar="KIND", choices=tuple(_FAMILIES), help=" or ".join(_FAMILIES)
    )
    parser.add_argument("name", metavar="NAME", help="its name in campaign files and options")
    parser.add_argument("--into", type=Path, metavar="DIR", help="the folder to write (NAME)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """Write the package, and say how to install and use it."""
    kind, name = arguments.kind, arguments.name
    _check(kind, name)
    module = name.replace("-", "_")
    words = {
        "name": name,
        "module": module,
        "family": _FAMILIES[kind],
        "KEY": f"{module.upper()}_KEY",
        "Class": "".join(map(str.capitalize, module.split("_"))),
    }
    folder: Path = arguments.into or Path(name)
    written = {
        folder / "pyproject.toml": "pyproject.toml.txt",
        folder / f"{module}.py": f"{kind}.py.txt",
        folder / f"test_{module}.py": f"{kind}_test.py.txt",
    }
    for file in written:
        if file.exists():
            raise wrong_option("NAME", f"{file} exists already; choose another name or --into")
    folder.mkdir(parents=True, exist_ok=True)
    templates = files("benchfleet.cli") / "templates"
    for file, template in written.items():
        text = (templates / template).read_text("utf-8")
        file.write_text(re.sub(r"{{(\w+)}}", lambda match: words[match[1]], text), "utf-8")
    use, path = _USES[kind].format(name=name, key=words["KEY"]), shlex.quote(str(folder))
    if arguments.json:
        print_json({"written": [str(file) for file in written], "use": use})
        return 0
    say(*(f"wrote {file}" for file in written))
    say(f"next: pip install pytest -e {path} && python -m pytest {path}")
    say(f"then{_USED_IN.get(kind, ', in a campaign file')}: {use}")
    return 0


def _check(kind: str, name: str) -> None:
    if keyword.iskeyword(name):
        raise wrong_option("NAME", f"{name!r} is a word of Python; choose another name")
    if not _NAME.fullmatch(name):
        raise wrong_option("NAME", f"{name!r} is no name; use lower case letters and digits")
    if kind == "store" and "_" in name:
        raise wrong_option("NAME", f"{name!r} is no scheme of a URL; write - in place of _")
    family = cast(registry.Family, _FAMILIES[kind])
    if name in registry.names(family):
        raise wrong_option("NAME", f"{kind} {name!r} exists already; choose another name")
