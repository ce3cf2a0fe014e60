"""What README and docs tell a person to type is understood, and their links lead somewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchfleet.cli.main import VERBS, parser_of

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(p for f in ("docs", "examples", "src") for p in (ROOT / f).rglob("*.md")),
    ]
)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def commands(text: str) -> Iterator[list[str]]:
    """The words of each benchfleet command in the shell blocks of a page, which ends where another
    command or a comment begins."""
    for _, language, block in FENCE.findall(text):
        if language in ("console", "sh", "bash"):
            for line in block.replace("\\\n", "").splitlines():
                for part in re.split("&&|[|>;]", line.partition(" # ")[0]):
                    command = part.strip().removeprefix("$ ")
                    if command.startswith("benchfleet "):
                        yield shlex.split(command)[1:]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_command_of_a_page_is_understood(page: Path) -> None:
    for words in commands(page.read_text("utf-8")):
        arguments = parser_of(words).parse_args(words)
        assert arguments.verb == words[0]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_command_in_a_sentence_has_a_verb_and_options_that_there_are(page: Path) -> None:
    prose = FENCE.sub("", page.read_text("utf-8"))
    for output in re.findall(r"`benchfleet ([^`]+)`", prose):
        words = output.split()
        assert words[0] in VERBS or words[0].startswith("--"), output
        known = every_option(words)
        for option in (word for word in words if re.match("--[a-z]", word)):
            assert option in known, output


def every_option(words: list[str]) -> set[str]:
    """The options of the verb that these words begin with, and of its own verbs."""
    waiting, found = [parser_of(words)], set[str]()
    while waiting:
        for action in waiting.pop()._actions:
            found.update(action.option_strings)
            waiting += (action.choices or {}).values() if isinstance(action.choices, dict) else ()
    return found


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", page.read_text("utf-8"))):
        if re.match("[a-z]+:", link):
            continue
        place, _, heading = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), link
        if heading:
            heads = re.findall(r"^#+ (.+)$", FENCE.sub("", target.read_text("utf-8")), re.M)
            assert heading in map(anchor, heads), link


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_file_that_a_sentence_names_by_its_folder_is_there(page: Path) -> None:
    bases = (ROOT, ROOT / "src" / "benchfleet", ROOT / "docs")
    for output in re.findall(r"`([^`\n]+)`", FENCE.sub("", page.read_text("utf-8"))):
        for name in re.findall(
            r"^(?:python )?([\w.-]+(?:/[\w.-]+)+\.(?:py|md|sql|css|js))\b", output
        ):
            assert any((base / name).exists() for base in bases), output


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_script_that_is_to_be_run_is_there(page: Path) -> None:
    for _, _, block in FENCE.findall(page.read_text("utf-8")):
        for script in re.findall(r"^\s*\$ python ((?:perf|examples|tests)/\S+\.py)", block, re.M):
            assert (ROOT / script).exists(), script


def anchor(heading: str) -> str:
    """As those who show pages make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_first_page_names_every_other() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in readme
