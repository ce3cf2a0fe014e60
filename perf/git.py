"""Claims through a ledger in git, beside raw pushes of the same batch and a shared branch of claim
files, on a bare repository of this disk.

The raw loop creates refs by compare-and-swap with one commit for each push; the shared branch
commits a claim file, pushes, and on refusal fetches, rebases and pushes again. The ledger's claims
have leases, fencing and a log. All aim at one list of cells; a process each, in turns.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import random
import statistics
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

import measure

from benchfleet.domain.attempt import RunnerId
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.testing import sample_cell

CELLS = 8_000
CANDIDATES = 64  # of a claim
ENV = {
    **os.environ,
    "GIT_TERMINAL_PROMPT": "0",
    **{f"GIT_{who}_{what}": "w@w" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *arguments: str, must: bool = True) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(folder), "-c", "gc.auto=0", *arguments]
    return subprocess.run(command, env=ENV, check=must, capture_output=True, text=True)


def raw(folder: Path, worker: int, workers: int, batch: int, seconds: float) -> tuple[int, int]:
    """Refs with one commit a push; one in ten aims at another worker's cell."""
    mine, chance = folder / f"raw-{worker}", random.Random(worker)
    git(folder, "clone", "-q", str(folder / "lab.git"), str(mine))
    tree = git(mine, "rev-parse", "HEAD^{tree}").stdout.strip()
    end = begin(seconds)
    claims = refused = turn = 0
    while time.perf_counter() < end:
        turn += 1
        ids = [
            (turn * batch + index) * 64
            + (worker if chance.random() < 0.9 else chance.randrange(workers))
            for index in range(batch)
        ]
        text = f"claim by {worker} {chance.random()}"
        commit = git(mine, "commit-tree", tree, "-m", text).stdout.strip()
        leases = [f"--force-with-lease=refs/x/{id}:" for id in ids]
        swaps = [f"{commit}:refs/x/{id}" for id in ids]
        done = git(mine, "push", "-q", "--atomic", *leases, "origin", *swaps, must=False)
        refused += done.returncode != 0
        claims += batch * (done.returncode == 0)
    return claims, refused


def branch(folder: Path, worker: int, workers: int, batch: int, seconds: float) -> tuple[int, int]:
    """A claim file on one shared branch, with fetch and rebase where it is refused."""
    mine = folder / f"branch-{worker}"
    git(folder, "clone", "-q", str(folder / "lab.git"), str(mine))
    (mine / "claims").mkdir()
    end = begin(seconds)
    claims = refused = 0
    while time.perf_counter() < end:
        id = (claims + 1) * 64 + worker
        (mine / "claims" / str(id)).write_text(str(worker))
        git(mine, "add", f"claims/{id}")
        git(mine, "commit", "-q", "-m", f"claim {id}")
        while time.perf_counter() < end + 5:
            if git(mine, "push", "-q", "origin", "HEAD:main", must=False).returncode == 0:
                claims += 1
                break
            refused += 1
            git(mine, "fetch", "-q", "origin", must=False)
            git(mine, "rebase", "-q", "origin/main", must=False)
    return claims, refused


def ledger(folder: Path, worker: int, workers: int, batch: int, seconds: float) -> tuple[int, int]:
    """The ledger's own claims."""
    url, runner = f"git+file://{folder}/lab.git", RunnerId(f"runner-{worker}")
    mirror = folder / f"ledger-{worker}"
    with closing(GitLedger(url, campaign="perf", folder=mirror, create=False)) as results:
        remote = results.store.remote
        push, counts = remote.push, []

        def counted(*arguments: Any, **more: Any) -> bool:
            counts.append(push(*arguments, **more))
            return counts[-1]

        remote.push = counted  # type: ignore[method-assign]
        cells = [record.fingerprint for record in results.cells()]
        first = crc32(runner.encode()) % len(cells)  # each runner begins at cells of its own
        cells = [*cells[first:], *cells[:first]]
        end = begin(seconds)
        results.pull()
        claims = 0
        while time.perf_counter() < end:
            claimed = results.claim(runner, cells[:CANDIDATES], batch)
            if claimed:  # those before the last of them are others'
                del cells[: cells.index(claimed[-1].lease.fingerprint) + 1]
            claims += len(claimed)
    return claims, counts.count(False)


WAYS = {"raw": raw, "shared branch": branch, "ledger": ledger}


def begin(seconds: float) -> float:
    """Begin together; when to end."""
    GATE.wait()
    return time.perf_counter() + seconds


GATE: Any = None  # where the processes meet


def _work(
    way: str,
    folder: Path,
    worker: int,
    workers: int,
    batch: int,
    seconds: float,
    gate: Any,
    out: Any,
) -> None:
    global GATE
    GATE = gate
    out.put((*WAYS[way](folder, worker, workers, batch, seconds), time.perf_counter()))


def one(way: str, folder: Path, workers: int, batch: int, seconds: float) -> tuple[float, float]:
    """Claims a second, and refused pushes for each claim."""
    folder.mkdir()
    git(folder, "init", "-q", "--bare", "-b", "main", str(folder / "lab.git"))
    seed = folder / "seed"
    git(folder, "clone", "-q", str(folder / "lab.git"), str(seed))
    git(seed, "commit", "-q", "--allow-empty", "-m", "seed")
    git(seed, "push", "-q", "origin", "HEAD:main")
    if way == "ledger":
        url = f"git+file://{folder}/lab.git"
        with closing(GitLedger(url, campaign="perf", folder=folder / "first")) as results:
            results.enroll([sample_cell(n, model=f"model-{n % 50}") for n in range(CELLS)])
    context = mp.get_context("fork")
    out = context.Queue()
    gate = context.Barrier(workers + 1)
    arguments = [(way, folder, w, workers, batch, seconds, gate, out) for w in range(workers)]
    processes = [context.Process(target=_work, args=arguments) for arguments in arguments]
    for process in processes:
        process.start()
    gate.wait()
    began = time.perf_counter()
    reports = [out.get() for _ in processes]
    for process in processes:
        process.join()
    claims = sum(results[0] for results in reports)
    took = max(results[2] for results in reports) - began
    return claims / took, sum(results[1] for results in reports) / max(1, claims)


def main() -> None:
    arguments = measure.arguments(
        __doc__ or "", repeats=3, numbers={"seconds": 10, "workers": 16, "alone": 1}
    )
    shapes = [(1, 1), (1, 10)] if arguments.alone else []
    shapes += [(arguments.workers, 1), (arguments.workers, 10)]
    results: dict[tuple[str, int, int], list[tuple[float, float]]] = {}
    with measure.folder(arguments) as work:
        for repeat in range(arguments.repeats):
            for workers, batch in shapes:
                for way in WAYS:
                    if way == "shared branch" and batch > 1:
                        continue
                    index = work / f"{repeat}-{workers}-{batch}-{way.replace(' ', '-')}"
                    figures = one(way, index, workers, batch, arguments.seconds)
                    results.setdefault((way, workers, batch), []).append(figures)
    medians = {
        key: [statistics.median(one[index] for one in all_) for index in (0, 1)]
        for key, all_ in results.items()
    }
    print("| way | workers | batch | claims/s | x shared branch | refused pushes a claim |")
    print("|---|---|---|---|---|---|")
    for (way, workers, batch), (rate, refused) in medians.items():
        ratio = rate / medians["shared branch", workers, 1][0]
        print(f"| {way} | {workers} | {batch} | {rate:.1f} | {ratio:.1f} | {refused:.2f} |")
    for batch, bound in ((1, 5), (10, 40)):
        rate = medians["ledger", arguments.workers, batch][0]
        quicker = rate / medians["shared branch", arguments.workers, 1][0]
        what = f"git: claims by {arguments.workers} workers, {batch} at a time: x a shared branch"
        measure.aim(what, quicker, bound, least=True)


if __name__ == "__main__":
    main()
