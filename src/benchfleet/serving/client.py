"""The load client, a process of its own: ``python -m benchfleet.serving.client JOURNAL``.

It sends requests by a schedule, keeps the bytes that it reads with a timestamp for each piece, and
parses nothing. Each request becomes an entry of the journal when it ends; a thread writes the
entries in groups, five times a second. Another process parses them: work beside the event loop
would delay the timestamps.

Standard input has the specification, a line of JSON, and then words: ``go NS`` begins at that
time of `perf_counter_ns`, ``stop`` sends nothing more and waits for the answers under way. The end
of the input ends the process at once, so it does not outlive its parent.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

from benchfleet.serving.arrivals import arrival_times, part_of
from benchfleet.serving.journal import encode
from benchfleet.serving.prompts import Bodies

FLUSH_S = 0.2  # at most so much is lost if the client is killed
LAG_TIMER_S = 0.01
NO_SERVER_PAUSE_S = 0.1  # of a stream whose connection was refused, or it would spin
_NS = 1_000_000_000
_MAX_REFUSAL_BYTES = 4096  # of the body of an error


class JournalWriter:
    """Appends entries to a file, in groups, from a thread."""

    def __init__(self, file: Path) -> None:
        self._file = open(file, "ab", buffering=0)  # noqa: SIM115 - until `close`
        self._waiting: list[bytes] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write_groups, daemon=True)
        self._thread.start()

    def add(self, entry: bytes) -> None:
        """Write it with the next group."""
        self._waiting.append(entry)

    def close(self) -> None:
        """Write what is left."""
        self._ended.set()
        self._thread.join()
        self._file.close()

    def _write_groups(self) -> None:
        ended = False
        while not ended:
            ended = self._ended.wait(FLUSH_S)
            group, self._waiting = self._waiting, []
            if group:
                self._file.write(b"".join(group))
                os.fsync(self._file.fileno())


class LoadClient:
    """Sends the requests of one client process."""

    def __init__(self, spec: Mapping[str, Any], journal: JournalWriter) -> None:
        self._spec, self._journal = spec, journal
        self._bodies = Bodies.of(spec["bodies"])
        self._part, self._parts = spec.get("part", (0, 1))
        self._most = spec.get("requests")  # of all clients together; None: no limit
        self._first = int(spec.get("first", 0))  # index of the first request
        self._origin = 0
        self._open = 0
        self._delays: list[int] = []  # of requests sent in this second, ns
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[bool]] = set()
        connections = spec.get("connections")
        self._connections = asyncio.Semaphore(connections) if connections else None

    def stop(self) -> None:
        """Send nothing more."""
        self._stopping.set()

    async def run(self, session: aiohttp.ClientSession, origin: int) -> None:
        """Send all requests and wait for their answers; `origin` is the time zero."""
        self._session, self._origin = session, origin
        monitor = asyncio.create_task(self._monitor())
        if duration := self._spec.get("duration_s"):
            asyncio.get_running_loop().call_at(self._loop_time(duration * _NS), self.stop)
        await self._sleep_until(0)
        if "rate" in self._spec:
            await self._open_loop()
        else:
            await self._closed_loop()
        monitor.cancel()

    async def _closed_loop(self) -> None:
        spec = self._spec
        workers = range(self._part, spec["concurrency"], self._parts)
        numbers = count(self._first + self._part, self._parts)
        step = spec.get("ramp_s", 0.0) * _NS / spec["concurrency"]
        await asyncio.gather(*(self._stream(round(step * one), numbers) for one in workers))

    async def _stream(self, begin: int, numbers: Iterator[int]) -> None:
        """One request after the other, until it is time to stop."""
        await self._sleep_until(begin)
        while not self._stopping.is_set():
            number = next(numbers)
            if self._most is not None and number >= self._most:
                return
            has_server = await self._request(number, time.perf_counter_ns() - self._origin)
            if not has_server:
                await asyncio.sleep(NO_SERVER_PAUSE_S)

    async def _open_loop(self) -> None:
        spec = self._spec
        times = arrival_times(spec["rate"], spec["arrivals"], spec["seed"])
        for position, at in part_of(times, self._part, self._parts):
            number = self._first + position
            if self._most is not None and number >= self._most:
                break
            await self._sleep_until(at)
            if self._stopping.is_set():
                break
            task = asyncio.create_task(self._request(number, at))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _request(self, number: int, scheduled: int) -> bool:
        """Send one request; whether there was a server."""
        body = self._bodies.body(number)
        if self._connections is None:
            return await self._send(number, scheduled, body)
        async with self._connections:
            return await self._send(number, scheduled, body)

    async def _send(self, number: int, scheduled: int, body: bytes) -> bool:
        clock = time.perf_counter_ns
        times: list[int] = []
        pieces: list[bytes] = []
        status, error, message = 0, "", ""
        self._open += 1
        sent = clock()
        try:
            async with self._session.post(self._spec["url"], data=body) as reply:
                status = reply.status
                async for piece in reply.content.iter_any():
                    times.append(clock())
                    pieces.append(piece)
        except asyncio.TimeoutError:
            error = "timeout"
        except aiohttp.ClientPayloadError as failure:
            error, message = "cut_body", str(failure)
        except aiohttp.ClientConnectorError as failure:
            error, message = "connect", str(failure)
        except (aiohttp.ClientError, OSError) as failure:
            error = "cut_body" if pieces else "reset"
            message = str(failure) or type(failure).__name__
        ended = clock()
        self._open -= 1
        origin = self._origin
        self._delays.append(sent - origin - scheduled)
        if status != 200:
            pieces, times = [b"".join(pieces)[:_MAX_REFUSAL_BYTES]], times[:1]
        entry: dict[str, Any] = {
            "n": number,
            "scheduled": scheduled,
            "sent": sent - origin,
            "end": ended - origin,
            "status": status,
            "times": [(at - sent) // 1000 for at in times],  # µs after it was sent
        }
        if error:
            entry |= {"error": error, "message": message[:300]}
        self._journal.add(encode(entry, pieces))
        return error != "connect"

    async def _monitor(self) -> None:
        """Each second: how late timers were, the CPU that was used, and open requests."""
        loop, second = asyncio.get_running_loop(), 0
        cpu = _cpu_seconds()
        while True:
            lags: list[float] = []
            end = self._loop_time((second + 1) * _NS)
            while loop.time() < end:
                due = loop.time() + LAG_TIMER_S
                await asyncio.sleep(LAG_TIMER_S)
                lags.append(loop.time() - due)
            before, cpu = cpu, _cpu_seconds()
            lags.sort()
            delays, self._delays = sorted(self._delays), []
            entry = {
                "second": second,
                "cpu": round(cpu - before, 4),
                "lag_p50_ms": round(1000 * lags[len(lags) // 2], 3) if lags else 0.0,
                "lag_max_ms": round(1000 * lags[-1], 3) if lags else 0.0,
                "delay_p99_ms": round(delays[(len(delays) * 99 - 1) // 100] / 1e6, 3)
                if delays
                else 0.0,
                "open": self._open,
                "part": self._part,
            }
            self._journal.add(encode(entry))
            second += 1

    def _loop_time(self, since_origin: float) -> float:
        """The event loop's time at so many ns after the origin."""
        ahead = self._origin + since_origin - time.perf_counter_ns()
        return asyncio.get_running_loop().time() + ahead / _NS

    async def _sleep_until(self, since_origin: int) -> None:
        """Until an absolute time, so that errors do not add up; or until it is time to stop."""
        ahead = (self._origin + since_origin - time.perf_counter_ns()) / _NS
        if ahead <= 0:
            return
        if ahead < 1.0:
            await asyncio.sleep(ahead)
            return
        try:  # a long wait ends when there is nothing more to send
            await asyncio.wait_for(self._stopping.wait(), ahead)
        except asyncio.TimeoutError:
            return


def open_session(spec: Mapping[str, Any]) -> aiohttp.ClientSession:
    """The connections of one client: as many as are asked for, nothing compressed."""
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    if key := spec.get("key"):
        headers["Authorization"] = f"Bearer {key}"
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        auto_decompress=False,
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=spec.get("timeout_s")),
        trust_env=not spec.get("is_local", True),
    )


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _run(spec: Mapping[str, Any], journal: JournalWriter) -> None:
    client = LoadClient(spec, journal)
    loop = asyncio.get_running_loop()
    origin: asyncio.Future[int] = loop.create_future()

    def listen() -> None:
        for line in sys.stdin:
            word, _, value = line.strip().partition(" ")
            if word == "go":
                loop.call_soon_threadsafe(origin.set_result, int(value))
            elif word == "stop":
                loop.call_soon_threadsafe(client.stop)
        os._exit(1)  # its parent is gone

    async with open_session(spec) as session:
        threading.Thread(target=listen, daemon=True).start()
        print("ready", flush=True)
        gc.freeze()
        await client.run(session, await origin)


def main() -> None:
    """Run by the specification on standard input; the journal's path is the argument."""
    journal = JournalWriter(Path(sys.argv[1]))
    asyncio.run(_run(json.loads(sys.stdin.readline()), journal))
    journal.add(encode({"ended": True}))
    journal.close()


if __name__ == "__main__":
    main()
