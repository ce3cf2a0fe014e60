"""Lists of what a campaign may name: what each needs, whether it is here, and an example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from benchfleet import registry
from benchfleet.cli.text.output import print_json, say


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a list."""

    name: str
    description: str = ""
    needs: Sequence[str] = ()
    data: Mapping[str, bool] | None = None  # data sets, each with whether it is here
    available: bool = True
    problem: str = ""  # why it cannot be used here, and what to do
    example: str = ""


def entry_of(
    info: registry.PluginInfo, *, example: str = "", data: Mapping[str, bool] | None = None
) -> Entry:
    """A plugin as an entry."""
    plugin = info.plugin
    return Entry(
        name=info.name,
        description=info.summary if plugin else "",
        needs=plugin.requires if plugin else (),
        data=data,
        available=not info.problem,
        problem=info.problem,
        example=example or (plugin.example if plugin else ""),
    )


def print_entries(entries: Sequence[Entry], *, as_json: bool) -> int:
    """Print the list. The exit code."""
    if as_json:
        print_json([asdict(entry) for entry in entries])
        return 0
    width = max((len(entry.name) for entry in entries), default=0)
    for entry in entries:
        say(
            f"{entry.name:<{width}}  {'here   ' if entry.available else 'missing'}  {_about(entry)}"
        )
        for label, text in (("needs", _needs(entry)), ("example", entry.example)):
            if text:
                say(f"{'':{width}}    {label}: {text}")
        if entry.problem:
            say(f"{'':{width}}    {entry.problem}")
    return 0


def _about(entry: Entry) -> str:
    return entry.description.rstrip(".")


def _needs(entry: Entry) -> str:
    data = [
        f"{source} ({'here' if is_here else 'not on this host'})"
        for source, is_here in (entry.data or {}).items()
    ]
    return ", ".join([*entry.needs, *data])
