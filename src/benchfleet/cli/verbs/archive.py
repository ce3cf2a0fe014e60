"""``benchfleet archive``: compress or move old attempts, logs and raw files; never a result."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from benchfleet.cli.shared import options
from benchfleet.cli.text.output import print_json, say
from benchfleet.domain import units
from benchfleet.domain.humanize import counted, sized
from benchfleet.domain.names import path_part
from benchfleet.errors import BenchfleetError, ResultsError
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.parts import joined_parts
from benchfleet.results.archive import KINDS, Archive, Item
from benchfleet.runs.registry import runs_of
from benchfleet.study import Study

_OLDER_THAN = "30d"
_MAX_LISTED_ITEMS = 10
Act = Callable[[Archive, Item], int]  # the bytes that remain


@dataclass
class _Result:
    """What was found, and what became of it."""

    items: Sequence[Item]
    done: list[Item] = field(default_factory=list)
    freed: int = 0  # bytes
    failures: list[tuple[Item, str]] = field(default_factory=list)  # with the reason


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    example = "benchfleet archive study.yaml --older-than 30d --to /mnt/cold --yes"
    add_choice(parser, example=example, kinds="attempts,raw,logs")
    parser.add_argument(
        "--to", metavar="DIR", type=Path, help="keep it here instead of in the results folder"
    )


def add_choice(parser: argparse.ArgumentParser, *, example: str, kinds: str) -> None:
    """Arguments for kind, age and size."""
    options.optional_campaign(parser, example=example)
    parser.add_argument(
        "--what",
        metavar="KIND,…",
        type=_kinds,
        default=kinds.split(","),
        help=f"of {', '.join(KINDS)} (default: {kinds})",
    )
    parser.add_argument(
        "--older-than",
        metavar="TIME",
        type=_age,
        default=_age(_OLDER_THAN),
        help=f"since the last write, such as 12h or 30d (default: {_OLDER_THAN})",
    )
    parser.add_argument(
        "--larger-than", metavar="SIZE", type=_size, default=0, help="only what takes more: 100MB"
    )
    parser.add_argument("--yes", action="store_true", help="do it; without it, it is only shown")


def main(arguments: argparse.Namespace) -> int:
    """Show what would be compressed, or compress it; 1 if something could not be."""
    study, _ = options.opened(arguments)
    to = arguments.to
    if to is not None:
        to = to.absolute() / path_part(study.campaign.name)
        if to.resolve().is_relative_to(study.layout.root.resolve()):
            raise BenchfleetError(f"{to} lies among the results; leave --to out, or name another")
    return clean(arguments, study, "archive", lambda archive, item: archive.compress(item, to))


def clean(arguments: argparse.Namespace, study: Study, verb: str, act: Act) -> int:
    """Find what is chosen, show it, and do it with --yes."""
    ledger = study.open_existing_ledger()
    if ledger is None:
        raise ResultsError(f"{study.campaign.name} has not run yet, so nothing is old")
    with closing(ledger):
        live = [run for run in runs_of(study.layout) if not run.end]
        began = [run.began_at for run in live if run.process.lives() is not False]
        archive = Archive(study.layout, now=time.time(), busy_since=min(began, default=None))
        records = list(ledger.cells(parts=True))
        joined = joined_parts(ledger, records)
        result = _Result(
            [
                item
                for item in archive.items(records, arguments.what, joined=joined)
                if item.age >= arguments.older_than and item.bytes >= arguments.larger_than
            ]
        )
        if arguments.yes:
            with archive.lock():
                for item in result.items:
                    _do(archive, ledger, item, act, result)
    if arguments.json:
        print_json(_as_json(arguments, study, verb, archive, result))
    else:
        say(*_lines(arguments, study, verb, archive, result))
    return 1 if result.failures else 0


def _do(archive: Archive, ledger: Ledger, item: Item, act: Act, result: _Result) -> None:
    if (record := item.record) is not None:
        now = next(iter(ledger.cells(fingerprints={str(record.fingerprint)})), None)
        if now is None or (now.state, now.token) != (record.state, record.token):
            result.failures.append((item, "its cell runs again"))
            return
    try:
        result.freed += max(0, item.bytes - act(archive, item))
        result.done.append(item)
    except FileNotFoundError:
        pass  # another was quicker
    except (OSError, ResultsError) as error:
        result.failures.append((item, getattr(error, "strerror", None) or str(error)))


def _lines(
    arguments: argparse.Namespace, study: Study, verb: str, archive: Archive, result: _Result
) -> Iterator[str]:
    name, items = study.campaign.name, result.items
    if not items:
        yield f"{name}: nothing to {verb}"
    elif arguments.yes:
        yield f"{name}: {verb}d {counted(len(result.done), 'thing')}, {sized(result.freed)} freed"
    else:
        size = sized(sum(item.bytes for item in items))
        yield f"{name}: {counted(len(items), 'thing')} to {verb}, {size}"
        largest = sorted(items, key=lambda item: -item.bytes)
        for item in largest[:_MAX_LISTED_ITEMS]:
            days = item.age / 86400
            yield f"  {item.kind:<9} {sized(item.bytes):>9} {days:>5.0f} d  {item.name}"
        if len(items) > _MAX_LISTED_ITEMS:
            yield f"  and {len(items) - _MAX_LISTED_ITEMS} more"
    for item, why in result.failures:
        yield f"  left  {item.name}: {why}"
    for (noun, why), count in sorted(archive.retained.items()):
        if count:
            yield f"  left alone: {counted(count, noun)} {why}"
    if items and not arguments.yes:
        yield "nothing was done; do it with the same command and --yes"


def _as_json(
    arguments: argparse.Namespace, study: Study, verb: str, archive: Archive, result: _Result
) -> dict[str, object]:
    return {
        "campaign": study.campaign.name,
        "act": verb,
        "done": arguments.yes,
        "things": [
            {
                "what": item.kind,
                "name": item.name,
                "place": str(item.path),
                "bytes": item.bytes,
                "age_seconds": round(item.age),
            }
            for item in (result.done if arguments.yes else result.items)
        ],
        "freed": result.freed,
        "left": [{"name": item.name, "why": why} for item, why in result.failures],
        "left_alone": {
            f"{noun}s {why}": count for (noun, why), count in archive.retained.items() if count
        },
    }


def _kinds(text: str) -> list[str]:
    kinds = [part.strip() for part in text.split(",") if part.strip()]
    wrong = [part for part in kinds if part not in KINDS]
    if wrong or not kinds:
        message = f"invalid kind {', '.join(wrong)!r}: use some of {', '.join(KINDS)}"
        raise argparse.ArgumentTypeError(message)
    return kinds


def _age(text: str) -> float:
    if text in ("0", "0s", "0d"):
        return 0.0
    try:
        return units.duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}, or 30d") from None


def _size(text: str) -> int:
    try:
        return units.size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
