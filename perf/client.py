"""The load client's own limit, beside bare loops of aiohttp and httpx against the same server.

    python perf/client.py [--seconds 3] [--rounds 3] [--errors]

Prints requests per second, µs of CPU for each chunk and added latency. Exits with 1 if a bar is
missed: at least 0.7 of the bare aiohttp loop's requests per second at 1, 32 and 200 streams;
at least 30,000 chunks per second and core at 200; paced at 10,000 chunks per second at most 1.5
times its CPU and first-chunk median. `--errors` prints how far the times of chunks are from those
that the server wrote into them. Its bars: a median under 1 ms at one stream, and at most 1.5 times
that of the aiohttp loop at 32 and 200 streams, of first chunks and of gaps.
All clients are processes of their own; runs take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import resource
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

from benchfleet.serving.calibration import instant_server, instant_spec, run_load
from benchfleet.serving.instant_server import STAMP_DIGITS
from benchfleet.serving.prompts import Bodies
from benchfleet.serving.request import Request

CHUNKS = 50
STREAMS = (1, 32, 200)
LEAST_SHARE, LEAST_CHUNKS, MOST_PACED = 0.7, 30_000, 1.5
PACED_STREAMS, PACED_GAP_MS = 200, 20.0
MOST_ERROR_MS = 1.0  # at one stream
_STAMP = re.compile(rb'"content": "(\d{%d})"' % STAMP_DIGITS)
Chunks = list[tuple[int, int]]  # of one answer: when each was written and read, ns


def own(url: str, streams: int, seconds: float) -> dict[str, float]:
    """Our client, with its journal."""
    requests, run = run_load(
        instant_spec(url, concurrency=streams, duration_s=seconds, ramp_s=0.0), poll_s=0.5
    )
    good = [one for one in requests if one.ok]
    span = max(one.end for one in good) / 1e9
    first = [one.ttft / 1e6 for one in good if one.ttft is not None]
    return {
        **errors([_stamped(one, run.origin) for one in good]),
        "requests": len(good) / span,
        "chunks": sum(sum(one.lines) for one in good) / span,
        "cpu": sum(one.cpu for one in run.seconds) / len(run.seconds),
        "first": statistics.median(first),
    }


def _stamped(request: Request, origin: int) -> Chunks:
    text, size, at = request.text, STAMP_DIGITS, 0
    chunks = []
    for time_us, count in zip(request.pieces, request.lines, strict=True):
        for _ in range(count):
            if (stamp := text[at : at + size]).isdigit():
                chunks.append((int(stamp), origin + request.sent + time_us * 1000))
            at += size
    return chunks


def errors(answers: list[Chunks]) -> dict[str, float]:
    """The errors of first chunks and of gaps, ms; empty if the server stamped nothing."""
    firsts = [(read - written) / 1e6 for one in answers if one for written, read in one[:1]]
    gaps = [abs((b[1] - a[1]) - (b[0] - a[0])) / 1e6 for one in answers for a, b in pairwise(one)]
    values = {"first": sorted(firsts), "gap": sorted(gaps)}
    return {
        f"{name}_p{percent}": some[(len(some) * percent - 1) // 100]
        for name, some in values.items()
        if some
        for percent in (50, 99)
    }


def bare(kind: str, url: str, streams: int, seconds: float, keeps: bool) -> dict[str, float]:
    """A bare loop of a library, in a process of its own."""
    command = [sys.executable, __file__, *["--errors"] * keeps]
    command += ["--bare", kind, url, str(streams), str(seconds)]
    result: dict[str, float] = json.loads(subprocess.check_output(command))
    return result


async def _bare(kind: str, url: str, streams: int, seconds: float, keeps: bool) -> dict[str, float]:
    body = Bodies.of(instant_spec(url)["bodies"]).body(0)
    path = f"{url}/v1/chat/completions"
    end = time.perf_counter() + seconds
    counts, firsts = [0, 0], list[float]()
    answers = list[list[tuple[bytes, int]]]()

    async def stream(post: Any) -> None:
        while time.perf_counter() < end:
            begin = time.perf_counter()
            times: list[int] = []
            pieces: list[bytes] = []
            async for piece in post():
                times.append(time.perf_counter_ns())
                counts[1] += piece.count(b"data:")
                if keeps:
                    pieces.append(piece)
            counts[0] += 1
            firsts.append(times[0] / 1e9 - begin)
            answers.append([*zip(pieces, times, strict=False)])

    if kind == "aiohttp":
        import aiohttp

        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:

            async def pieces() -> Any:
                async with session.post(path, data=body) as reply:
                    async for piece in reply.content.iter_any():
                        yield piece

            await asyncio.gather(*(stream(pieces) for _ in range(streams)))
    else:
        module = __import__(kind)
        limits = module.Limits(max_connections=None)
        async with module.AsyncClient(limits=limits, timeout=None) as client:

            async def raw() -> Any:
                async with client.stream("POST", path, content=body) as reply:
                    async for piece in reply.aiter_raw():
                        yield piece

            await asyncio.gather(*(stream(raw) for _ in range(streams)))
    used = resource.getrusage(resource.RUSAGE_SELF)
    read = [
        [(int(stamp), at) for piece, at in pieces for stamp in _STAMP.findall(piece)]
        for pieces in answers
    ]
    return {
        **errors(read),
        "requests": counts[0] / seconds,
        "chunks": counts[1] / seconds,
        "cpu": (used.ru_utime + used.ru_stime) / seconds,
        "first": statistics.median(firsts) * 1000,
    }


def median_of(rows: list[dict[str, float]]) -> dict[str, float]:
    """The median of each number."""
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def compare(
    streams: int, gap_ms: float, seconds: float, rounds: int, *, stamps: bool = False
) -> dict[str, dict[str, float]]:
    """The numbers of each client, runs in turn."""
    others = () if stamps else ("httpx", "httpx2")
    kinds = ["aiohttp", *(name for name in others if find_spec(name))]
    rows: dict[str, list[dict[str, float]]] = {"benchfleet": [], **{name: [] for name in kinds}}
    with instant_server(chunks=CHUNKS, gap_ms=gap_ms, stamps=stamps) as url:
        for _ in range(rounds):
            rows["benchfleet"].append(own(url, streams, seconds))
            for name in kinds:
                rows[name].append(bare(name, url, streams, seconds, stamps))
    return {name: median_of(some) for name, some in rows.items()}


def compare_errors(seconds: float, rounds: int) -> int:
    """Print the errors of times at each number of streams; 1 if a bar is missed."""
    names = ("first_p50", "first_p99", "gap_p50", "gap_p99")
    missed = []
    print(f"{'errors in ms':18}{'client':12}" + "".join(f"{name:>12}" for name in names))
    for streams in STREAMS:
        rows = compare(streams, PACED_GAP_MS, seconds, rounds, stamps=True)
        for client, row in rows.items():
            numbers = "".join(f"{row[name]:12.3f}" for name in names)
            print(f"{f'{streams} streams':18}{client:12}{numbers}")
        for name in ("first_p50", "gap_p50"):
            ours, theirs = rows["benchfleet"][name], rows["aiohttp"][name]
            most = MOST_ERROR_MS if streams == 1 else MOST_PACED * theirs
            missed += [f"{streams} streams: {name} {ours:.3f} ms, bar {most:.3f}"] * (ours > most)
    for line in missed:
        print(f"missed: {line}")
    return bool(missed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--errors", action="store_true", help="the errors of times alone")
    parser.add_argument("--bare", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        kind, url, streams, seconds = options.bare
        print(
            json.dumps(asyncio.run(_bare(kind, url, int(streams), float(seconds), options.errors)))
        )
        return 0
    if options.errors:
        return compare_errors(options.seconds, options.rounds)
    missed = []
    heads = f"{'requests/s':>11}{'chunks/s':>11}{'CPU':>7}{'us/chunk':>10}{'first ms':>10}"
    print(f"{'':18}{'client':12}{heads}")
    for streams, gap_ms in [*((one, 0.0) for one in STREAMS), (PACED_STREAMS, PACED_GAP_MS)]:
        rows = compare(streams, gap_ms, options.seconds, options.rounds)
        label = f"{streams} streams" + (" paced" if gap_ms else "")
        for name, row in rows.items():
            cost = row["cpu"] / row["chunks"] * 1e6
            print(
                f"{label:18}{name:12}{row['requests']:11.0f}{row['chunks']:11.0f}"
                f"{row['cpu']:7.2f}{cost:10.1f}{row['first']:10.2f}"
            )
        ours, theirs = rows["benchfleet"], rows["aiohttp"]
        if gap_ms:
            for name in ("cpu", "first"):
                ratio = ours[name] / theirs[name]
                print(
                    f"{label:18}{name} {ratio:.2f} times that of the aiohttp loop (≤ {MOST_PACED})"
                )
                missed += [f"{label}: {name} {ratio:.2f}"] * (ratio > MOST_PACED)
            continue
        share = ours["requests"] / theirs["requests"]
        print(f"{label:18}{share:.2f} of the aiohttp loop (≥ {LEAST_SHARE})")
        missed += [f"{label}: {share:.2f} of aiohttp"] * (share < LEAST_SHARE)
        if streams == STREAMS[-1]:
            core = ours["chunks"] / max(ours["cpu"], 1e-9)
            print(f"{label:18}{core:,.0f} chunks/s a core (≥ {LEAST_CHUNKS:,})")
            missed += [f"{core:,.0f} chunks/s a core"] * (core < LEAST_CHUNKS)
    for line in missed:
        print(f"missed: {line}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
