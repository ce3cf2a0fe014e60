"""Lists of plugins say what each needs, also of one that cannot be imported."""

from __future__ import annotations

from benchfleet.cli.shared.plugin_list import Entry, entry_of
from benchfleet.registry import Plugin, PluginInfo


class Bare(Plugin):
    """Overrides nothing."""


class Full(Plugin):
    """Needs a package."""

    requires = ("torch",)
    example = "- full: {size: 1}"


def test_an_entry_has_what_the_plugin_needs_and_its_example() -> None:
    entry = entry_of(PluginInfo(name="full", plugin=Full))
    assert (entry.needs, entry.example) == (("torch",), "- full: {size: 1}")


def test_a_plugin_without_optional_members_needs_nothing() -> None:
    entry = entry_of(PluginInfo(name="bare", plugin=Bare))
    assert (entry.needs, entry.example, entry.available) == ((), "", True)


def test_a_plugin_that_cannot_be_imported_is_listed_with_its_problem() -> None:
    entry = entry_of(PluginInfo(name="broken", problem="No module named 'x'"))
    assert entry == Entry(name="broken", available=False, problem="No module named 'x'")
