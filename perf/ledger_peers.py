"""What other queues on PostgreSQL take for a job that does nothing; run by a Python with them.

`ledger.py` calls it: URL of an empty database, peer, workers, batch, jobs. It prints jobs a second;
with no arguments, the peers that can be imported.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from importlib.util import find_spec

NEEDS = {"pgqueuer": ("pgqueuer", "asyncpg"), "procrastinate": ("procrastinate", "psycopg")}
Drain = Callable[[], Awaitable[object]]
Meet = Callable[[], object]


async def pgqueuer_fills(url: str, jobs: int) -> None:
    import asyncpg
    from pgqueuer.queries import Queries

    connection = await asyncpg.connect(url)
    queries = Queries.from_asyncpg_connection(connection)
    if not await queries.schema_is_installed():
        await queries.install()
    await queries.clear_queue()
    await queries.enqueue(["noop"] * jobs, [None] * jobs, [0] * jobs)
    await connection.execute("vacuum analyze")
    await connection.close()


async def pgqueuer_drains(url: str, batch: int, meet: Meet) -> None:
    import asyncpg
    from pgqueuer import PgQueuer
    from pgqueuer.types import QueueExecutionMode

    connection = await asyncpg.connect(url)
    queue = PgQueuer.from_asyncpg_connection(connection)

    @queue.entrypoint("noop")
    async def noop(job: object) -> None:
        pass

    meet()
    await queue.run(
        batch_size=batch, mode=QueueExecutionMode.drain, dequeue_timeout=timedelta(seconds=1)
    )
    await connection.close()


def procrastinate_app(url: str, most: int):  # type: ignore[no-untyped-def]
    import procrastinate

    app = procrastinate.App(
        connector=procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=most)
    )

    @app.task(name="noop")
    async def noop(number: int) -> None:
        pass

    return app, noop


async def procrastinate_fills(url: str, jobs: int) -> None:
    import psycopg

    app, noop = procrastinate_app(url, 4)
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("select to_regclass('procrastinate_jobs')").fetchone()
    async with app.open_async():
        if found is None or found[0] is None:
            await app.schema_manager.apply_schema_async()
        await noop.batch_defer_async(*[{"number": number} for number in range(jobs)])
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")


async def procrastinate_drains(url: str, batch: int, meet: Meet) -> None:
    app, _ = procrastinate_app(url, max(4, min(batch, 16)))
    async with app.open_async():
        meet()
        await app.run_worker_async(
            wait=False, concurrency=batch, listen_notify=False, install_signal_handlers=False
        )


FILLS = {"pgqueuer": pgqueuer_fills, "procrastinate": procrastinate_fills}
DRAINS = {"pgqueuer": pgqueuer_drains, "procrastinate": procrastinate_drains}


def main(url: str, peer: str, workers: int, batch: int, jobs: int) -> None:
    asyncio.run(FILLS[peer](url, jobs))
    fork = multiprocessing.get_context("fork")
    meeting = fork.Barrier(workers + 1)

    def work() -> None:
        asyncio.run(DRAINS[peer](url, batch, meeting.wait))

    processes = [fork.Process(target=work) for _ in range(workers)]
    for process in processes:
        process.start()
    meeting.wait(60)
    begun = time.perf_counter()
    for process in processes:
        process.join()
    took = time.perf_counter() - begun
    if any(process.exitcode for process in processes):
        raise SystemExit(f"a worker of {peer} failed")
    print(jobs / took)


if __name__ == "__main__":
    os.environ.pop("PGOPTIONS", None)
    if len(sys.argv) == 1:
        print(*(name for name, needs in NEEDS.items() if all(map(find_spec, needs))))
    else:
        main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
