"""``benchfleet archive``: pack old attempts, logs and raw files, or move them; never a result."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchfleet.bench import Bench
from benchfleet.cli import options
from benchfleet.cli.output import print_json, say
from benchfleet.domain import units
from benchfleet.domain.names import path_part
from benchfleet.domain.words import counted
from benchfleet.errors import BenchfleetError, ResultsError
from benchfleet.ledger.base import Ledger
from benchfleet.presence.record import runs_of
from benchfleet.results.archive import WHAT, Attic, Item

_OLD = "30d"
_SHOWN = 10  # things by name
_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
Act = Callable[[Attic, Item], int]  # what it takes afterwards, in bytes


@dataclass
class Done:
    """What became of the things that were chosen."""

    items: list[Item] = field(default_factory=list)
    before: int = 0  # bytes
    after: int = 0
    left: list[tuple[Item, str]] = field(default_factory=list)  # with the reason


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    example = "benchfleet archive study.yaml --older-than 30d --to /mnt/cold --yes"
    choose(parser, example=example, usual="attempts,raw,logs")
    parser.add_argument(
        "--to", metavar="DIR", type=Path, help="keep it here instead of in the results folder"
    )


def choose(parser: argparse.ArgumentParser, *, example: str, usual: str) -> None:
    """What is meant, by kind, age and size."""
    options.told_campaign(parser, example=example)
    parser.add_argument(
        "--what",
        metavar="KIND,…",
        type=_kinds,
        default=usual.split(","),
        help=f"of {', '.join(WHAT)}; {usual} unless said",
    )
    parser.add_argument(
        "--older-than",
        metavar="TIME",
        type=_age,
        default=_age(_OLD),
        help=f"only what nobody wrote to for so long, such as 12h or 30d; {_OLD} unless said",
    )
    parser.add_argument(
        "--larger-than", metavar="SIZE", type=_size, default=0, help="only what takes more: 100MB"
    )
    parser.add_argument("--yes", action="store_true", help="do it; without it, it is only shown")


def main(arguments: argparse.Namespace) -> int:
    """Show what would be packed, or pack it; 1 where something could not be."""
    if "archives" in arguments.what:
        raise BenchfleetError("archives are packed already; `benchfleet gc` deletes them")
    bench, _ = options.opened(arguments)
    to = arguments.to
    if to is not None:
        to = to.absolute() / path_part(bench.campaign.name)
        if to.resolve().is_relative_to(bench.layout.root.resolve()):
            raise BenchfleetError(f"{to} lies among the results; leave --to out, or name another")
    return tidy(arguments, bench, "pack", lambda attic, item: attic.pack(item, to))


def tidy(arguments: argparse.Namespace, bench: Bench, verb: str, act: Act) -> int:
    """Find what is meant, show it, and do it where --yes was said."""
    ledger = bench.existing_ledger()
    if ledger is None:
        raise ResultsError(f"nothing of {bench.campaign.name} was run yet, so nothing is old")
    with closing(ledger):
        began = [run.began_at for run in runs_of(bench.layout) if not run.end and _may_go_on(run)]
        attic = Attic(bench.layout, now=time.time(), busy_since=min(began, default=None))
        found = [
            item
            for item in attic.items(list(ledger.cells()), arguments.what)
            if item.age >= arguments.older_than and item.bytes >= arguments.larger_than
        ]
        done = None
        if arguments.yes:
            with attic.alone():
                done = _done(attic, ledger, found, act)
    if arguments.json:
        print_json(_as_json(bench, verb, attic, found, done))
    else:
        say(*_lines(arguments, bench, verb, attic, found, done))
    return 1 if done and done.left else 0


def _may_go_on(run: Any) -> bool:
    return run.process.lives() is not False


def _done(attic: Attic, ledger: Ledger, found: Sequence[Item], act: Act) -> Done:
    done = Done()
    for item in found:
        if item.record is not None:
            now = next(iter(ledger.cells(among={str(item.record.fingerprint)})), None)
            if now is None or (now.state, now.token) != (item.record.state, item.record.token):
                done.left.append((item, "its cell goes on"))
                continue
        try:
            after = act(attic, item)
        except FileNotFoundError:
            continue  # another was quicker
        except (OSError, ResultsError) as error:
            done.left.append((item, getattr(error, "strerror", None) or str(error)))
            continue
        done.items.append(item)
        done.before += item.bytes
        done.after += after
    return done


def _lines(
    arguments: argparse.Namespace,
    bench: Bench,
    verb: str,
    attic: Attic,
    found: Sequence[Item],
    done: Done | None,
) -> Iterator[str]:
    name = bench.campaign.name
    if not found:
        yield f"{name}: nothing to {verb}"
    elif done is None:
        size = shown_size(sum(one.bytes for one in found))
        yield f"{name}: {counted(len(found), 'thing')} to {verb}, {size}"
    else:
        freed = shown_size(max(0, done.before - done.after))
        past = {"pack": "packed", "delete": "deleted"}[verb]
        yield f"{name}: {past} {counted(len(done.items), 'thing')}, {freed} freed"
    for kind in dict.fromkeys(one.what for one in found):
        ours = sorted((one for one in found if one.what == kind), key=lambda one: -one.bytes)
        total, oldest = sum(one.bytes for one in ours), max(one.age for one in ours)
        yield f"  {kind:<9} {len(ours):>6}  {shown_size(total):>9}  oldest {_days(oldest)}"
        for one in ours[:_SHOWN] if done is None else ():
            yield f"    {shown_size(one.bytes):>9}  {_days(one.age):>6}  {one.name}"
        if done is None and len(ours) > _SHOWN:
            yield f"    and {len(ours) - _SHOWN} more"
    for item, why in done.left if done else ():
        yield f"  left  {item.name}: {why}"
    for why, count in sorted(attic.spared.items()):
        yield f"  left alone: {count} {why}"
    if found and done is None:
        yield f"nothing was done; do it with the same command and --yes: {_again(arguments)}"


def _again(arguments: argparse.Namespace) -> str:
    import shlex

    words = [word for word in arguments.words if word != "--yes"]
    return shlex.join(["benchfleet", *words, "--yes"])


def _as_json(
    bench: Bench, verb: str, attic: Attic, found: Sequence[Item], done: Done | None
) -> dict[str, Any]:
    return {
        "campaign": bench.campaign.name,
        "act": verb,
        "done": done is not None,
        "things": [
            {
                "what": one.what,
                "name": one.name,
                "place": str(one.place),
                "bytes": one.bytes,
                "age_seconds": round(one.age),
            }
            for one in (done.items if done else found)
        ],
        "freed": max(0, done.before - done.after) if done else 0,
        "left": [{"name": item.name, "why": why} for item, why in (done.left if done else ())],
        "left_alone": attic.spared,
    }


def shown_size(count: int) -> str:
    """``34.2 MB``"""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def _days(seconds: float) -> str:
    return f"{seconds / 86400:.0f} d" if seconds >= 86400 else f"{seconds / 3600:.0f} h"


def _kinds(text: str) -> list[str]:
    found = [part.strip() for part in text.split(",") if part.strip()]
    if wrong := [part for part in found if part not in WHAT]:
        message = f"{wrong[0]!r} is none of {', '.join(WHAT)}"
        raise argparse.ArgumentTypeError(message)
    if not found:
        raise argparse.ArgumentTypeError(f"name some of {', '.join(WHAT)}")
    return found


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
