"""Reading YAML into plain data with lines, by the rules of YAML 1.2 and within bounds.

YAML 1.1, which PyYAML follows by itself, reads ``no`` as false, ``1:30`` as 90, ``010`` as 8 and
``1e-3`` as text. Here ``true`` and ``false`` are the only truths, numbers are what JSON calls
numbers, and everything else is the text that stands there. Keys are always text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from .source import MAX_DEPTH, TOO_DEEP, Bounds, Flaw, KeyPath, Source, TooMuch

_TAG = "tag:yaml.org,2002:"
_SCALARS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", [*"-+0123456789"]),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        [*"-+.0123456789"],
    ),
    ("merge", r"<<", ["<"]),
)


def read_yaml(text: str) -> Source:
    """The first and only document in `text`; what is wrong with it is in the source's flaws."""
    import yaml

    try:
        depth = 0
        for event in yaml.parse(text, Loader=_loader()):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:  # composing recurses in C, where too deep is a crash
                mark = event.start_mark
                return Source(flaws=(Flaw(message=TOO_DEEP, line=mark.line + 1 if mark else 1),))
        root = yaml.compose(text, Loader=_loader())
    except yaml.YAMLError as error:
        return Source(flaws=(_flaw(error, text),))
    if root is None:
        return Source()
    reading = _Reading()
    try:
        data = reading.value(root, (), 0)
    except TooMuch as error:
        return Source(flaws=(Flaw(message=str(error)),))
    return Source(data=data, lines=reading.lines, flaws=tuple(reading.flaws))


_KINDS = ("null", "bool", "int", "float", "str")
_UNCLOSED = re.compile(r"flow (?:mapping|sequence).*expected ',' or '([]}])'")
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


@cache
def _loader() -> Any:
    """PyYAML's safe loader, in C where it was built, with the scalars of YAML 1.2."""
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("CampaignLoader", (base,), {"yaml_implicit_resolvers": {}})
    for name, pattern, first in _SCALARS:
        loader.add_implicit_resolver(_TAG + name, re.compile(rf"(?:{pattern})\Z"), first)
    return loader


def _flaw(error: Exception, text: str) -> Flaw:
    """PyYAML's error in words that say what to do, where it is one that people often meet."""
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    if "cannot start any token" in problem and mark:
        line = _LINE_END.split(text)[mark.line]
        letter = line[mark.column : mark.column + 1]
        tab = "a tab stands where YAML wants spaces"
        problem = tab if letter == "\t" else f"text may not begin with {letter!r}; quote it"
    elif problem.startswith("but found another document"):
        problem = "a second document begins; a campaign file holds one"
    elif "mapping values are not allowed" in problem:
        problem = "a ':' stands where none can; check the indentation, or quote the text"
    elif unclosed := _UNCLOSED.search(f"{getattr(error, 'context', '')} {problem}"):
        closing, mark = unclosed[1], getattr(error, "context_mark", None) or mark
        opening = {"}": "{", "]": "["}[closing]
        problem = f"the '{opening}' here is not closed; add '{closing}' or a missing ','"
    return Flaw(message=f"is not YAML: {problem}", line=mark.line + 1 if mark else None)


class _Reading:
    """One walk over the nodes of a document."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.flaws: list[Flaw] = []
        self.bounds = Bounds()

    def value(self, node: Any, path: KeyPath, depth: int) -> Any:
        self.bounds.count(depth)
        self.lines.setdefault(path, node.start_mark.line + 1)
        kind = node.tag.removeprefix(_TAG)
        if node.id == "mapping" and kind == "map":
            return self._mapping(node, path, depth)
        if node.id == "sequence" and kind == "seq":
            return [
                self.value(item, (*path, index), depth + 1) for index, item in enumerate(node.value)
            ]
        message = f"{kind!r} is a tag of YAML, and none is wanted; quote it where text is meant"
        if node.id == "scalar" and kind in _KINDS:
            try:
                return _scalar(node.value, kind)
            except ValueError:
                message = f"{node.value[:40]!r} is not a value that results can store"
        self.flaws.append(Flaw(message=message, path=path))
        return None

    def _mapping(self, node: Any, path: KeyPath, depth: int) -> dict[str, Any]:
        """The node's own keys over those it merges in (``<<``), where earlier sources win."""
        result: dict[str, Any] = {}
        for source in self._with_merged(node, path, depth):
            before = set(result)
            for key, item in source.value:
                line = key.start_mark.line + 1
                try:
                    name = _scalar(key.value, "str" if key.id == "scalar" else key.tag)
                except ValueError:
                    self.flaws.append(Flaw(message="a key must be text", path=path, line=line))
                    continue
                at = (*path, name)
                if key.tag == _TAG + "merge" or name in before:
                    continue
                if name in result:
                    message = f"stands twice, first on line {self.lines[at]}; remove one"
                    self.flaws.append(Flaw(message=message, path=at, line=line))
                    continue
                self.lines[at] = line
                result[name] = self.value(item, at, depth + 1)
        return result

    def _with_merged(self, node: Any, path: KeyPath, depth: int) -> Iterator[Any]:
        """The mapping node, and after it those that it merges in."""
        self.bounds.count(depth)
        yield node
        for key, item in node.value:
            if key.tag == _TAG + "merge":
                for source in item.value if item.id == "sequence" else [item]:
                    if source.id == "mapping":
                        yield from self._with_merged(source, path, depth + 1)
                    else:
                        line = key.start_mark.line + 1
                        message = "'<<' takes a mapping (*name), or a list of them"
                        self.flaws.append(Flaw(message=message, path=path, line=line))


def _scalar(text: str, kind: str) -> Any:
    """The scalar as a value. Raises ValueError for what no result file could keep."""
    if kind == "null":
        return None
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind == "int" and len(text) <= 30:
        return int(text)
    if kind == "float" and math.isfinite(number := float(text)):
        return number
    if kind == "str" and "\0" not in text:
        text.encode()  # raises for half of a surrogate pair
        return text
    raise ValueError(text)
