"""The page on troubleshooting: every failure kind, every error, every message with its fix."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from benchfleet import errors
from benchfleet.domain.error_signatures import ERROR_SIGNATURES
from benchfleet.domain.failure import KINDS
from error_messages import GAP, ErrorMessage, error_messages

ROOT = Path(__file__).resolve().parent.parent
FIXES: dict[str, Any] = yaml.safe_load(
    (Path(__file__).with_name("message_fixes.yaml")).read_text("utf-8")
)
_VERBS = frozenset(FIXES["verbs"])  # with which a clause says what to do
AREAS = {  # of a message, by the first part of its module
    "benchmarks": "Benchmarks",
    "campaign": "Campaign files",
    "cli": "Command line",
    "compat": "BenchmarkExecutor and imports",
    "dashboard": "Dashboard",
    "domain": "Campaign files",
    "engines": "Hosts and slots",
    "exporters": "Exports",
    "git": "Git",
    "ledger": "Ledgers",
    "machines": "Hosts and slots",
    "maintenance": "Results",
    "metrics": "Runs",
    "models": "Models",
    "notifications": "Campaign files",
    "planner": "Plans",
    "policies": "Plans",
    "providers": "Rented machines",
    "rentals": "Rented machines",
    "reports": "Reports",
    "results": "Results",
    "runner": "Runs",
    "runs": "Runs",
    "serving": "Models",
    "slurm": "Slurm",
}
_INTRODUCTION = """\
# Troubleshooting

Search this page for the words of a message. … stands for what a message fills in.
An error that ends a command begins with `benchfleet:` or with the name of the campaign file.
`--debug` adds the traceback. `benchfleet failures` shows why cells failed, with the next command.

## Failure kinds

| kind | cause | what benchfleet does | what you do |
|---|---|---|---|
"""
_SIGNATURES = """
These words in a log or exception decide the kind:

| words | kind |
|---|---|
"""
_CLASSES = """
## Errors

Each error of benchfleet has a class in `benchfleet.errors`, for programs that catch it. A command
that it ends has the exit code of the last column. Where no fix stands here, the message says it.

| error | cause | what to do | exit code |
|---|---|---|---|
"""


def troubleshooting() -> str:
    """The whole page, as Markdown."""
    return "".join(
        [_INTRODUCTION, *_kinds(), _SIGNATURES, *_signatures(), _CLASSES, *_classes(), *_messages()]
    )


def fix_of(message: ErrorMessage) -> str:
    """What to do about a message; empty if nothing says it."""
    patterns: dict[str, str] = FIXES["patterns"]
    fits = (fix for words, fix in patterns.items() if re.search(words, message.text))
    return (
        FIXES["messages"].get(message.text)
        or _own_fix(message.text)
        or FIXES["classes"].get(message.error)
        or next(fits, "")
    )


def _own_fix(text: str) -> str:
    """The part of a message that says what to do: a clause that begins with a verb."""
    for clause in re.split(r"; |: |\. |, or ", text)[1:]:
        first = re.split(r"[ ,:]", clause.strip())[0].lower()
        if first in _VERBS or clause.startswith(("benchfleet ", "`benchfleet ")):
            return _sentence(text[text.index(clause) :])
    if text.endswith(f"; {GAP}"):
        return "Use one of the names that the message lists."
    if command := re.search(r"`benchfleet [^`]+`|pip install '[^']+'", text):
        return f"Run {command[0] if command[0].startswith('`') else f'`{command[0]}`'}."
    return ""


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:].rstrip('.')}."


def _kinds() -> Iterator[str]:
    page = (ROOT / "docs" / "failures.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` (\|.*\|)$", page, re.MULTILINE))
    for kind in KINDS:
        cells = re.sub(r"\]\((#[\w-]+)\)", r"](failures.md\1)", rows[kind])
        yield f"| `{kind}` {cells}\n"


def _signatures() -> Iterator[str]:
    words: dict[str, list[str]] = defaultdict(list)
    for signature in ERROR_SIGNATURES:
        words[signature.kind].append(f"`{signature.words.strip()}`")
    for kind, listed in words.items():
        yield f"| {', '.join(dict.fromkeys(listed))} | `{kind}` |\n"


def _classes() -> Iterator[str]:
    for name, error in vars(errors).items():
        if not (inspect.isclass(error) and issubclass(error, errors.BenchfleetError)):
            continue
        if error is not errors.BenchfleetError:
            code = 3 if issubclass(error, errors.LedgerError) else 2
            cause = inspect.cleandoc(error.__doc__ or "")
            yield f"| `{name}` | {cause} | {FIXES['classes'].get(name, '')} | {code} |\n"


def _messages() -> Iterator[str]:
    areas: dict[str, dict[str, str]] = defaultdict(dict)
    for message in error_messages():
        areas[area_of(message)].setdefault(message.text, fix_of(message))
    for area in sorted(areas):
        yield f"\n## Messages: {area}\n\n| message | what to do |\n|---|---|\n"
        for text, fix in sorted(areas[area].items(), key=_by_words):
            yield f"| {_code(text)} | {_escaped(fix)} |\n"


def area_of(message: ErrorMessage) -> str:
    """The heading under which the page lists a message."""
    return AREAS.get(message.module.partition("/")[0], "Runs")


def _by_words(row: tuple[str, Any]) -> str:
    return "".join(c for c in row[0].lower() if c.isalnum() or c == " ").strip()


def _code(text: str) -> str:
    """A text between backticks of its own, in one cell of a table."""
    mark = "``" if "`" in text else "`"
    space = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{mark}{space}{text}{space}{mark}".replace("|", "\\|")


def _escaped(text: str) -> str:
    return re.sub(r"(?<!`)<(?=\w)", "&lt;", text).replace("|", "\\|")
