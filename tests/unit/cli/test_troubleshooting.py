"""Troubleshooting: every failure kind and every message of the source, each with what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchfleet import errors
from benchfleet.domain.failure import KINDS
from docs_troubleshooting import AREAS, FIXES, fix_of, troubleshooting
from error_messages import ErrorMessage, error_messages

EXAMPLE = '''
class Odd(BenchfleetError): ...
class Odder(Odd): ...

def check(port, day):
    """Raises Odder."""
    if not port:
        raise Odder(f"invalid port {port!r}: use 0 to 65535")
    message = "too early" if day else f"no day {day}; write one"
    raise wrong_option("--day", message)

def other(key):
    raise CampaignError("file", [Mistake(key=key, message=_reason(key))])

def _reason(key):
    return "is unknown" + "; remove it"

def internal():
    raise RuntimeError("a fault of our own")
    raise Odd(str(key))
'''


@pytest.fixture(scope="module")
def messages() -> list[ErrorMessage]:
    return list(error_messages())


def test_messages_are_found_where_they_are_made(tmp_path: Path) -> None:
    (tmp_path / "errors.py").write_text("class BenchfleetError(Exception): ...")
    (tmp_path / "example.py").write_text(EXAMPLE)
    assert {(one.error, one.text) for one in error_messages(tmp_path)} == {
        ("Odder", "invalid port …: use 0 to 65535"),
        ("wrong_option", "too early"),
        ("wrong_option", "no day …; write one"),
        ("Mistake", "is unknown; remove it"),
    }


@pytest.mark.parametrize(
    ("text", "error", "fix"),
    [
        ("invalid port …: use 0 to 65535", "ValueError", "Use 0 to 65535."),
        ("no metric …; …", "ValueError", "Use one of the names that the message lists."),
        ("it needs x; pip install 'benchfleet[x]'", "MissingExtra", "Pip install 'benchfleet[x]'."),
        ("… is broken", "LedgerDamaged", FIXES["classes"]["LedgerDamaged"]),
        ("something happened", "ValueError", ""),
    ],
)
def test_the_fix_is_in_the_message_or_else_of_its_error(text: str, error: str, fix: str) -> None:
    assert fix_of(ErrorMessage(text, error, "module.py")) == fix


@pytest.mark.slow
def test_every_message_says_what_to_do(messages: list[ErrorMessage]) -> None:
    without = [one for one in messages if not fix_of(one)]
    assert not without, "add what to do to the message, or to tools/message_fixes.yaml"


@pytest.mark.slow
def test_no_fix_is_of_a_message_that_is_gone(messages: list[ErrorMessage]) -> None:
    texts = {one.text for one in messages}
    assert not set(FIXES["messages"]) - texts
    assert not set(FIXES["classes"]) - {one.error for one in messages} - set(vars(errors))
    unused = [p for p in FIXES["patterns"] if not any(re.search(p, text) for text in texts)]
    assert not unused


@pytest.mark.slow
def test_the_page_has_every_kind_error_and_message(messages: list[ErrorMessage]) -> None:
    page = troubleshooting()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    for kind in KINDS:
        (row,) = [line for line in rows if line.startswith(f"| `{kind}` |")]
        assert all(cell.strip() for cell in row.strip("|").split(" | "))
        assert row.count(" | ") == 3
    own = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert len({line for line in rows for name in own if line.startswith(f"| `{name}` |")}) > 20
    assert len(messages) > 600
    for one in messages:
        assert one.text.replace("|", "\\|") in page


@pytest.mark.slow
def test_each_part_of_the_package_has_its_heading(messages: list[ErrorMessage]) -> None:
    parts = {one.module.partition("/")[0] for one in messages if "/" in one.module}
    assert parts <= set(AREAS)
