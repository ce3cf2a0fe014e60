"""Campaign text as the entries that the readers are given."""

from __future__ import annotations

from textwrap import dedent

from benchfleet.campaign.defaults import Defaults, read_defaults
from benchfleet.campaign.entry import Entry, Mistakes
from benchfleet.campaign.source import Source
from benchfleet.campaign.yaml_reader import read_yaml


def read(text: str) -> Entry:
    """The entry at the top of the YAML."""
    source = read_yaml(dedent(text))
    return Entry(source.data, (), Mistakes(source))


def mistakes_of(entry: Entry) -> dict[str, str]:
    """The mistakes noted so far, as message by key."""
    mistakes = entry.mistakes.listed()
    found = {mistake.key: mistake.message for mistake in mistakes}
    assert len(found) == len(mistakes), mistakes
    return found


def flaws(source: Source) -> list[tuple[str, int | None]]:
    """What a reader of a language found wrong, each with its line."""
    return [(flaw.message, flaw.line or source.line(flaw.path)) for flaw in source.flaws]


def mock_defaults() -> Defaults:
    return read_defaults(read("adapter: mock"))
