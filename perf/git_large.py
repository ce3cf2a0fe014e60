"""A ledger in git beside which many results are published: what it takes to look at, to begin with,
and to go on with, in seconds.

The repository is made by ``git fast-import`` as ten installations would have left it: a claim and a
finish of each cell in their logs, and the results on their branches.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import measure

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.names import entry_name
from benchfleet.ledger.git.address import Refs
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.ledger.git.log import Fact, message, written
from benchfleet.results.stores.git import summary_path
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any

CAMPAIGN, INSTALLATIONS, WAITING = "perf", 10, 1000
FILES = {"metrics.json": 400, "config.json": 400, "samples.jsonl": 800, "log.txt": 400}  # bytes


def make(folder: Path, results: int, claimed: int) -> str:
    """A repository with so many results, and so many of their claims not compacted; its URL."""
    lab = folder / "lab.git"
    url = f"git+file://{lab}"
    measure.seconds(["git", "init", "-q", "--bare", str(lab)])
    cells = [sample_cell(n, model=f"model-{n % 50}") for n in range(results + WAITING)]
    with closing(GitLedger(url, campaign=CAMPAIGN, folder=folder / "first")) as ledger:
        ledger.enroll(cells)
    stream = folder / "stream"
    with stream.open("wb") as file:
        for part in _history(cells[:results], claimed):
            file.write(part)
    with stream.open("rb") as file:
        importing = ["git", "-C", str(lab), "fast-import", "--quiet", "--active-branches=50"]
        subprocess.run(importing, stdin=file, check=True)
    stream.unlink()
    measure.seconds(["git", "-C", str(lab), "pack-refs", "--all"])
    shutil.rmtree(folder / "first")
    return url


def _history(cells: list[Cell], claimed: int) -> Iterator[bytes]:
    refs, marks, at = Refs(CAMPAIGN), dict[str, int](), 0
    for number, cell in enumerate(cells):
        name = f"{number % INSTALLATIONS:08x}"
        when = 1_700_000_000.0 + number
        lease = {"attempt": 1, "token": 1, "runner": f"runner-{name}"}
        outcome = Outcome(
            state="success", digest=f"{number:064x}", host=f"lab{name}", device="cuda:0",
            metrics={"overall": 0.5, "tasks": {"a": 0.5}}, seconds={"load": 1.5, "run": 600.0},
        )  # fmt: skip
        entry = entry_name(cell.id)
        for turn, kind, data in (
            (1, "claimed", lease),
            (2, "finished", {**lease, "outcome": outcome.to_dict()}),
        ):
            fact = Fact(
                kind=kind, fingerprint=cell.fingerprint, data=data, at=when + turn, turn=turn
            )
            verb = "claim" if turn == 1 else "finish"
            text = message(f"{verb} {entry}", installation=name, facts=written([fact]))
            at += 1
            yield _commit(f"{refs.logs}{name}", at, when, text)
        marks[cell.fingerprint] = at
        at += 1
        yield _commit(f"refs/heads/machine/lab{name}-{name}", at, when, f"finish {entry}\n")
        path = f"results/{CAMPAIGN}/{cell.path(marked=False)}"
        for file, size in FILES.items():
            yield f"M 100644 inline {path}/{file}\n".encode()
            yield _data(f"{number} {file}\n" * (size // 20))
        yield f"M 100644 inline {summary_path(CAMPAIGN, cell.path(marked=False))}\n".encode()
        yield _data(json.dumps({"run": entry}))
    for fingerprint in list(marks)[len(marks) - claimed :]:
        yield f"reset {refs.claims}{fingerprint}\nfrom :{marks[fingerprint]}\n\n".encode()


def _commit(ref: str, mark: int, when: float, text: str) -> bytes:
    head = f"commit {ref}\nmark :{mark}\ncommitter benchfleet <x@benchfleet.invalid> {int(when)}"
    return f"{head} +0000\n".encode() + _data(text)


def _data(text: str) -> bytes:
    content = text.encode()
    return b"data %d\n%s\n" % (len(content), content)


def figures(url: str, folder: Path) -> dict[str, float]:
    """How long a machine waits for it, from the first contact on."""
    measured: dict[str, float] = {}

    def timed(name: str, verb: Callable[[], object]) -> None:
        began = time.perf_counter()
        verb()
        measured[name] = time.perf_counter() - began

    mirror, me = folder / "mirror", RunnerId("me")

    def opened() -> GitLedger:
        return GitLedger(url, campaign=CAMPAIGN, folder=mirror, create=False, max_age=0.0)

    timed("first contact, without a snapshot", lambda: opened().close())
    with closing(opened()) as ledger:
        timed("writing the snapshot", ledger.compact)
    shutil.rmtree(mirror)
    timed("first contact", lambda: opened().close())
    timed("opened again", lambda: opened().close())
    with closing(opened()) as ledger:
        timed("pull", ledger.pull)
        timed("all cells, as status reads them", lambda: sum(1 for _ in ledger.cells()))
        claims = list(claim_any(ledger, me, 2))
        waiting = [record.fingerprint for record in ledger.cells(states=["pending"])][:64]
        timed("claim", lambda: claims.extend(ledger.claim(me, waiting)))
        timed("renew", lambda: ledger.renew([claims[1].lease]))
        outcome = Outcome(state="success", digest="abc")
        ledger.finish(claims[0].lease, outcome)
        timed("finish", lambda: ledger.finish(claims[1].lease, outcome))
        timed("reap", ledger.reap)
    (next(mirror.glob("git-*")) / "boot").write_text("another start of the machine")
    measured["mirror, MB"] = _size(mirror)
    timed("after a reboot", lambda: opened().close())
    return measured


def _size(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def main() -> None:
    arguments = measure.arguments(
        __doc__ or "", repeats=1, numbers={"results": 100_000, "claims": 0}
    )
    rows = {}
    with measure.folder(arguments) as work:
        for results in (100, arguments.results):
            (work / str(results)).mkdir()
            began = time.perf_counter()
            url = make(work / str(results), results, min(arguments.claims, results))
            print(f"{results} results made in {time.perf_counter() - began:.0f} s", file=sys.stderr)
            rows[results] = figures(url, work / str(results))
    print(f"| | {' | '.join(f'{results:,} results' for results in rows)} |\n|---|---|---|")
    for name in rows[100]:
        print(f"| {name} | {' | '.join(f'{row[name]:.2f}' for row in rows.values())} |")


if __name__ == "__main__":
    main()
