"""What a verb prints: lines for people, JSON for programs, and questions."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from benchfleet.cli.text.terminal import printable
from benchfleet.errors import BenchfleetError, wrong_option


def say(*lines: str, to: TextIO | None = None, flush: bool = False) -> None:
    """Print lines, without what could steer a terminal."""
    for line in lines:
        print(printable(line), file=to or sys.stdout, flush=flush)


def print_json(value: Any) -> None:
    """Print a value as JSON, for programs."""
    print(json.dumps(value, indent=2), flush=True)


def print_whole(drawn: Any, to: TextIO | None = None) -> None:
    """Print what rich draws, as wide as the terminal; a pipe or a file gets each table whole."""
    from rich.console import Console

    from benchfleet.reports.terminal import WHOLE_WIDTH

    class Output(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would end the process, with a code of its own

    stream = to or sys.stdout
    width = None if stream.isatty() else WHOLE_WIDTH
    Output(file=stream, width=width, highlight=False).print(drawn)


def flush() -> None:
    """Write all that was printed. Raises OSError where that is not possible, and drops it: Python
    would try again at its end, and change the exit code."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise


@contextmanager
def maybe_unread() -> Iterator[None]:
    """Print what is lost where nobody reads it any more; files and exit code remain."""
    with suppress(OSError):
        try:
            yield
        finally:
            flush()


def output_format(
    file: Path | None, requested: str | None, formats: Mapping[str, str], *, advice: str
) -> str:
    """The format that is requested, or else the one of the file's ending, from `formats` by ending.
    Raises BenchfleetError where the ending is unknown (`advice` says how to request a format), or
    is another format's. A file without an ending and ``.txt`` may hold any."""
    suffix = file.suffix.lower() if file else ""
    ending = formats.get(suffix, requested)
    if ending is None:
        known_suffixes = ", ".join(filter(None, formats))
        message = f"unknown format {suffix!r}: use {known_suffixes}, or {advice}"
        raise wrong_option(f"--output {file}", message)
    if requested and suffix not in {"", ".txt"} and ending != requested:
        message = f"its ending is of the format {ending}, not {requested}; change one of them"
        raise wrong_option(f"--output {file}", message)
    return requested or ending


def write_output(file: Path, content: bytes) -> None:
    """Write what ``--output`` names. Raises BenchfleetError if that fails."""
    try:
        file.write_bytes(content)
    except OSError as error:
        raise BenchfleetError(
            f"{file} cannot be written ({error.strerror}); name another with --output"
        ) from None


def confirm(question: str, *, otherwise: str, ask: bool = True) -> bool:
    """Whether a person says yes. Raises BenchfleetError with `otherwise` where nobody can be
    asked, or is to be."""
    if not (ask and sys.stdin.isatty()):
        raise BenchfleetError(otherwise)
    text = "\n".join(map(printable, question.splitlines()))
    print(f"{text} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
