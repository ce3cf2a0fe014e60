"""Many workers on one server, while it, they and their lines are ended again and again."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing

from benchfleet.ledger.fsck import problems
from benchfleet.testing import sample_cell
from cut_lines import Line
from postgres import Postgres
from states import done, states

from .conftest import finishes

LEASE = 2.0  # seconds

WORKER = """
import random, sys, time, uuid
from benchfleet.domain.attempt import Outcome
from benchfleet.errors import LedgerUnreachable
from benchfleet.ledger.postgres.ledger import PostgresLedger

url, campaign, lease = sys.argv[1:]
ledger = PostgresLedger(url, campaign=campaign, lease=float(lease))
runner = str(uuid.uuid4())
ended = Outcome(state="success", digest=runner)

def remaining():
    while True:
        try:
            return [cell.fingerprint for cell in ledger.cells(states=["pending", "running"])]
        except LedgerUnreachable:  # cells are streamed: a read that broke off begins again
            time.sleep(0.05)

while left := remaining():
    random.shuffle(left)
    for place in range(0, len(left), 10):
        claims = ledger.claim(runner, left[place : place + 10], 2)
        refused = ledger.finish_all([(claim.lease, ended) for claim in claims])
        for claim, lost in zip(claims, refused, strict=True):
            print("lost" if lost else claim.lease.fingerprint, flush=True)
    ledger.reap()
"""


def test_every_cell_is_finished_once_whatever_happens_to_servers_lines_and_workers(
    own_postgres: Postgres, campaign: str
) -> None:
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    cells = [sample_cell(n, model=f"model-{n % 7}", priority=n % 3) for n in range(2000)]
    workers: list[subprocess.Popen[str]] = []
    promised: Counter[str] = Counter()

    def start(url: str) -> None:
        command = [sys.executable, "-c", WORKER, url, campaign, str(LEASE)]
        workers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))

    def read(worker: subprocess.Popen[str]) -> None:
        assert worker.stdout is not None
        output = (line for line in worker.stdout if line.endswith("\n"))
        promised.update(line.strip() for line in output if len(line) == 65)

    with (
        closing(Line(own_postgres.port)) as line,
        closing(PostgresLedger(own_postgres.url(), campaign=campaign, lease=LEASE)) as ledger,
    ):
        assert ledger.enroll(cells) == len(cells)
        try:
            for number in range(16):
                start(own_postgres.url(port=line.port if number % 2 else 0))
            readers = [threading.Thread(target=read, args=(worker,)) for worker in workers]
            for reader in readers:
                reader.start()

            def until(ended: int) -> None:
                while done(ledger) < ended:
                    time.sleep(0.05)

            until(100)
            workers[0].kill()
            workers[1].send_signal(signal.SIGSTOP)
            line.cut()
            until(400)
            own_postgres.stop()
            own_postgres.start()
            workers[2].kill()
            workers[3].send_signal(signal.SIGSTOP)
            until(800)
            line.cut()
            own_postgres.stop(crash=True)
            own_postgres.start()
            workers[4].kill()
            until(1200)
            line.cut()
            time.sleep(1.2 * LEASE)  # what the stopped ones hold runs out, and is taken over
            until(len(cells))
            for worker in (workers[1], workers[3]):
                worker.send_signal(signal.SIGCONT)
            for reader in readers:
                reader.join(120)
            codes = [worker.wait(60) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
                worker.communicate()
        wanted = {cell.fingerprint: 1 for cell in cells}
        assert finishes(ledger) == wanted
        assert set(promised) <= set(wanted)
        assert set(promised.values()) == {1}
        assert states(ledger)["success"] == len(cells)
        assert list(problems(ledger)) == []
        killed = {0, 2, 4}
        assert [code for n, code in enumerate(codes) if n not in killed] == [0] * 13
