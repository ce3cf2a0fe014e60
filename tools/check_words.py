"""Check that the words in `words_out.txt` appear neither in names nor in prose, SQL included.

``python tools/check_words.py [PATH …]`` prints each finding as ``file:line: word: use …`` and exits
with 1 if there is one. Without paths it checks the whole project. It also refuses long sentences in
Markdown files. ``--stats`` prints the average sentence length of each Markdown file instead.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CODE = ("src", "tests", "perf", "examples", "tools")
NAMES_CHECKED_IN = ("src", "perf", "tools")  # all names; in tests, sentences
GENERATED = ("benchmark_results",)  # folders of runs: their reports are checked where they are made
FIXED = "tests/data"  # ledgers of earlier versions, as they were
EXEMPT = ("tools/check_words.py", "tests/unit/test_check_words.py")  # they must name the words
MAX_SENTENCE_WORDS = 25
SQL_KEYWORDS = frozenset({"left"})  # the only one that is in the list
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Finding(NamedTuple):
    """A word that is out, and where it stands."""

    file: Path
    line: int
    text: str


class Words(NamedTuple):
    """The three parts of `words_out.txt`: each word or pattern with its replacement."""

    names: dict[str, str]
    whole: dict[str, str]
    phrases: list[tuple[re.Pattern[str], str]]


def read_words(file: Path = ROOT / "tools/words_out.txt") -> Words:
    """Read the list; a line that is no entry raises `ValueError`."""
    parts: dict[str, dict[str, str]] = {"NAMES": {}, "WHOLE": {}, "PHRASES": {}}
    part = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("part "):
            part = line.removeprefix("part ").strip()
            continue
        word, separator, instead = line.partition(": ")
        if not separator:
            raise ValueError(f"{file.name}: {line!r} is not 'word: replacement'")
        parts[part][word] = instead
    phrases = [(re.compile(word, re.IGNORECASE), text) for word, text in parts["PHRASES"].items()]
    return Words(parts["NAMES"], parts["WHOLE"], phrases)


def check_names(file: Path, tree: ast.AST, words: Words) -> Iterator[Finding]:
    """Names that the file defines, and the file's own."""
    yield from _check_names(file, {(file.stem, 1), *defined_names(tree)}, words)


def check_test_names(file: Path, tree: ast.AST, words: Words) -> Iterator[Finding]:
    """Names of tests, which are sentences: phrases that are out."""
    for name, line in defined_names(tree):
        if name.startswith("test_"):
            yield from _check_phrases(file, name.replace("_", " "), line, words)


def check_sql(file: Path, text: str, words: Words) -> Iterator[Finding]:
    """Comments and identifiers of an SQL file, and the names of its statements."""
    for number, line in enumerate(text.splitlines(), start=1):
        code, _, comment = line.partition("--")
        named = comment.removeprefix(" name: ") if comment.startswith(" name: ") else ""
        code = re.sub(r"'[^']*'", "", code)
        identifiers = set(re.findall(r"[a-z_]\w*", f"{code} {named}")) - SQL_KEYWORDS
        yield from _check_names(file, {(name, number) for name in identifiers}, words)
    comments = "\n".join(line.partition("--")[2] for line in text.splitlines())
    yield from _check_phrases(file, comments, 1, words)


def _check_names(file: Path, names: Iterable[tuple[str, int]], words: Words) -> Iterator[Finding]:
    for name, line in names:
        components = _CAMEL.sub("_", name).lower().strip("_").split("_")
        for component in components:
            if component in words.names:
                yield Finding(file, line, f"{name}: use {words.names[component]}")
        if (whole := "_".join(components)) in words.whole:
            yield Finding(file, line, f"{name}: use {words.whole[whole]}")


def defined_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Classes, functions, parameters and variables, each with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno


def check_code_prose(file: Path, source: str, words: Words) -> Iterator[Finding]:
    """Comments and string literals (docstrings and messages) of a Python file."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if (
            token.type in {tokenize.COMMENT, tokenize.STRING}
            or "FSTRING" in (tokenize.tok_name[token.type])
        ):
            yield from _check_phrases(file, token.string, token.start[0], words)


def _check_phrases(file: Path, text: str, first: int, words: Words) -> Iterator[Finding]:
    joined = re.sub(r"\s+", " ", text)  # a phrase may continue on the next line
    for pattern, instead in words.phrases:
        for match in pattern.finditer(joined):
            phrase = match.group(0)
            near = re.search(re.escape(phrase).replace(r"\ ", r"\s+"), text)
            line = first + text.count("\n", 0, near.start() if near else 0)
            yield Finding(file, line, f"“{phrase}”: write {instead}")


def sentences(markdown: str) -> Iterator[tuple[int, str]]:
    """The sentences of the prose in a Markdown text, each with its line. Code blocks, tables and
    headings are left out; a code span and a link count as one word."""
    fenced, block, began = False, "", 0
    for number, line in enumerate([*markdown.splitlines(), ""], start=1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced, line = not fenced, ""
        elif fenced or (line.startswith(("#", "|", "<", "    ")) and not block):
            line = ""
        starts = re.match(r"\s*([-*]|\d+\.)\s+", line)
        if block and (not line.strip() or starts):
            yield from ((began, sentence) for sentence in _split(block))
            block = ""
        if line.strip():
            began = began if block else number
            block += " " + (line[starts.end() :] if starts else line)


def _split(block: str) -> Iterator[str]:
    text = re.sub(r"`[^`]*`", "code", block)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", "link", text)
    yield from (
        part for part in re.split(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)\s+", text.strip()) if part
    )


def word_count(sentence: str) -> int:
    """Words with at least one letter or digit."""
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def check_file(file: Path, words: Words) -> list[Finding]:
    """All findings of one file, by line."""
    text = file.read_text(encoding="utf-8")
    found: list[Finding] = []
    if file.suffix == ".py":
        if file.relative_to(ROOT).parts[0] in NAMES_CHECKED_IN:
            found += check_names(file, ast.parse(text), words)
        else:
            found += check_test_names(file, ast.parse(text), words)
        found += check_code_prose(file, text, words)
    elif file.suffix == ".sql":
        found += check_sql(file, text, words)
    else:
        for line, sentence in sentences(text):
            found += _check_phrases(file, sentence, line, words)
            if (count := word_count(sentence)) > MAX_SENTENCE_WORDS:
                message = f"{count} words in a sentence, {MAX_SENTENCE_WORDS} at most"
                found.append(Finding(file, line, f"{message}: {sentence[:60]}…"))
    return sorted(set(found))


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """The Python, SQL and Markdown files at these paths, except those that must name the words."""
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in inside:
            name = file.relative_to(ROOT)
            checked = file.suffix in {".py", ".sql", ".md"} and str(name) not in EXEMPT
            checked &= not str(name).startswith(FIXED)
            if checked and not set(GENERATED) & set(name.parts):
                yield file


def main() -> int:
    """Print the findings; 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--stats", action="store_true", help="average sentence lengths instead")
    arguments = parser.parse_args()
    default = [ROOT / part for part in (*CODE, "docs", "README.md", "CHANGELOG.md")]
    chosen = list(files(path.resolve() for path in arguments.paths or default))
    if arguments.stats:
        for file in (file for file in chosen if file.suffix == ".md"):
            counts = [word_count(text) for _, text in sentences(file.read_text(encoding="utf-8"))]
            average = sum(counts) / max(len(counts), 1)
            print(f"{average:5.1f} words, {max(counts, default=0):3} at most  {file.name}")
        return 0
    words = read_words()
    with Pool() as processes:
        found = processes.imap(partial(check_file, words=words), chosen, chunksize=20)
        findings = list(chain.from_iterable(found))
    for finding in findings:
        print(f"{finding.file.relative_to(ROOT)}:{finding.line}: {finding.text}")
    print(f"{len(findings)} findings in {len(chosen)} files", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
