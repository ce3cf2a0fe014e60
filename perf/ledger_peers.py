"""What pgqueuer takes for jobs that do nothing, one at a time; `ledger.py` calls it.

ledger_peers.py URL WORKERS JOBS    prints jobs a second
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import time
from collections.abc import Callable
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode


async def fill(url: str, jobs: int) -> None:
    connection = await asyncpg.connect(url)
    queries = Queries.from_asyncpg_connection(connection)
    if not await queries.schema_is_installed():
        await queries.install()
    await queries.clear_queue()
    await queries.enqueue(["noop"] * jobs, [None] * jobs, [0] * jobs)
    await connection.execute("vacuum analyze")
    await connection.close()


async def drain(url: str, meet: Callable[[], object]) -> None:
    connection = await asyncpg.connect(url)
    queue = PgQueuer.from_asyncpg_connection(connection)

    @queue.entrypoint("noop")
    async def noop(job: object) -> None:
        pass

    meet()
    await queue.run(
        batch_size=1, mode=QueueExecutionMode.drain, dequeue_timeout=timedelta(seconds=1)
    )
    await connection.close()


def main(url: str, workers: int, jobs: int) -> None:
    asyncio.run(fill(url, jobs))
    fork = multiprocessing.get_context("fork")
    meeting = fork.Barrier(workers + 1)

    def work() -> None:
        asyncio.run(drain(url, meeting.wait))

    processes = [fork.Process(target=work) for _ in range(workers)]
    for process in processes:
        process.start()
    meeting.wait(60)
    begun = time.perf_counter()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit("a worker failed")
    print(jobs / (time.perf_counter() - begun))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
