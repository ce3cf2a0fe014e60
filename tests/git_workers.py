"""Workers that share cells through a ledger in git, as processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from repositories import git

WORKER = """
import os, sys, threading, time, uuid, zlib
from pathlib import Path
from benchfleet.domain.attempt import Outcome
from benchfleet.domain.event import Event
from benchfleet.errors import ClaimLost, LedgerAway
from benchfleet.ledger.git.batched import BatchedLedger
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.runner.execution.retrying_ledger import RetryingLedger

url, folder, batch, lease, hours, slow, interval = sys.argv[1:]
outage = 6 * float(os.environ.get("GIT_FAULT_SECONDS", "1"))  # of all faults together
runner = str(uuid.uuid4())

def files(objects, lease, outcome):
    content = objects.blob(outcome.digest.encode())
    return {f"results/{lease.fingerprint}": (content, False)}

ledger = GitLedger(
    url, campaign="study", folder=Path(folder), lease=float(lease), files=files,
    timeout=120 + outage, wall=lambda: time.time() + 3600 * float(hours), max_age=0.3,
)
if float(interval):  # as a run has a hosted repository
    ledger = RetryingLedger(
        BatchedLedger(ledger, interval=float(interval)),
        post=lambda event: None, ending=threading.Event(), pause=0.2,
    )

def finished(claims):
    success = Outcome(state="success", digest=runner)
    if float(interval):
        return ledger.finish_all([(claim.lease, success) for claim in claims])
    (claim,) = claims
    try:
        ledger.finish(claim.lease, success)
    except ClaimLost as error:
        return [error]
    return [None]

def look():
    pending = [record.fingerprint for record in ledger.cells(states=["pending"])]
    first = zlib.crc32(runner.encode()) % max(1, len(pending))  # each begins at cells of its own
    claims = ledger.claim(runner, [*pending[first:], *pending[:first]], int(batch))
    for some in [claims] if float(interval) and claims else [[claim] for claim in claims]:
        time.sleep(float(slow))
        for claim, error in zip(some, finished(some)):
            print("lost" if error else claim.lease.fingerprint, flush=True)
    if not claims:
        ledger.reap()
        if not any(ledger.cells(states=["pending", "running"])):
            return False
        time.sleep(0.3)
    return True

print("begun", flush=True)
goes_on = True
while goes_on:
    try:
        goes_on = look()
    except LedgerAway:
        if not float(interval):
            raise
        time.sleep(0.2)
print("nothing left", flush=True)
ledger.close()
"""


@contextmanager
def workers(url: str, folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts workers by name, each with a folder of that name, and ends what is left of them."""
    started: list[subprocess.Popen[str]] = []

    def start(name: str, **how: float) -> subprocess.Popen[str]:
        given = {"batch": 3, "lease": 6, "hours": 0, "slow": 0, "interval": 0, **how}
        words = [sys.executable, "-c", WORKER, url, str(folder / name), *map(str, given.values())]
        started.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        return started[-1]

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.communicate()


def lines(process: subprocess.Popen[str], number: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(number)]


def rest(process: subprocess.Popen[str]) -> list[str]:
    """What it says to its end; a line that a kill cut in two is no promise."""
    assert process.stdout is not None
    output = process.stdout.read().splitlines(keepends=True)
    process.wait()
    return [line.strip() for line in output if line.endswith("\n")]


def published(bare: Path) -> dict[str, list[str]]:
    """Of each cell, what lies on the branches of the machines."""
    found: dict[str, list[str]] = {}
    for branch in git(bare, "for-each-ref", "--format=%(refname)", "refs/heads/machine").split():
        for line in git(bare, "ls-tree", "-r", branch).splitlines():
            blob, name = line.split()[2], line.rpartition("/")[2]
            found.setdefault(name, []).append(git(bare, "cat-file", "blob", blob))
    return found
