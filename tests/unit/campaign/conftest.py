"""Campaign text as the entries that the readers are given."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest

from benchfleet.campaign.defaults import Defaults, read_defaults
from benchfleet.campaign.entry import Entry, Mistakes
from benchfleet.campaign.yaml_reader import read_yaml

Read = Callable[[str], Entry]
Said = Callable[[Entry], dict[str, str]]


def _read(text: str) -> Entry:
    source = read_yaml(dedent(text))
    return Entry(source.data, (), Mistakes(source))


def _said(entry: Entry) -> dict[str, str]:
    mistakes = entry.mistakes.listed()
    found = {mistake.key: mistake.message for mistake in mistakes}
    assert len(found) == len(mistakes), mistakes
    return found


@pytest.fixture
def read() -> Read:
    """From YAML to the entry at its top."""
    return _read


@pytest.fixture
def said() -> Said:
    """The mistakes noted so far, as message by key."""
    return _said


@pytest.fixture
def mock_defaults() -> Defaults:
    return read_defaults(_read("adapter: mock"))
