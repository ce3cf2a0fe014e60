"""A server that answers at once, with the same chunks each time: what a load client can take.

``python -m benchfleet.serving.instant_server`` serves on a free loopback port, prints the port, and
ends with its standard input. It parses nothing but the end of a request's head and its length.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time

DEFAULT_CHUNKS = 50
STAMP_DIGITS = 20  # of a chunk's `perf_counter_ns`, where the server stamps its chunks
_UNSTAMPED = b"0" * STAMP_DIGITS


def events(chunks: int, *, stamps: bool = False) -> list[bytes]:
    """The pieces of a streamed answer."""
    content = _UNSTAMPED.decode() if stamps else " word"
    lines = [
        json.dumps({"choices": [{"index": 0, "delta": {"content": content}}]})
        for _ in range(chunks)
    ]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": chunks}}
    lines += [json.dumps(end), json.dumps(usage), "[DONE]"]
    return [f"data: {line}\n\n".encode() for line in lines]


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class InstantServer:
    """Serves one answer to all requests; `gap_s` is the time between two chunks. With `stamps` the
    text of a chunk is the time when it was written, in `STAMP_DIGITS` digits."""

    def __init__(
        self, *, chunks: int = DEFAULT_CHUNKS, gap_s: float = 0.0, stamps: bool = False
    ) -> None:
        sent = events(chunks, stamps=stamps)
        self._pieces = [b"%x\r\n%s\r\n" % (len(event), event) for event in sent]  # HTTP's chunks
        self._gap_s = gap_s
        self._whole = _HEAD + b"".join(self._pieces) + b"0\r\n\r\n"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(_length(head))
                await self._answer(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        if not self._gap_s:
            writer.write(self._whole)
            await writer.drain()
            return
        writer.write(_HEAD)
        loop = asyncio.get_running_loop()
        due = loop.time()
        for piece in self._pieces:
            due += self._gap_s
            await asyncio.sleep(due - loop.time())
            writer.write(piece.replace(_UNSTAMPED, b"%020d" % time.perf_counter_ns()))
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def _length(head: bytes) -> int:
    at = head.lower().find(b"content-length:")
    return int(head[at + 15 : head.index(b"\r\n", at)]) if at >= 0 else 0


async def _serve(chunks: int, gap_s: float, stamps: bool) -> None:
    handler = InstantServer(chunks=chunks, gap_s=gap_s, stamps=stamps).handle
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=DEFAULT_CHUNKS)
    parser.add_argument("--gap-ms", type=float, default=0.0)
    parser.add_argument("--stamps", action="store_true")
    options = parser.parse_args()
    asyncio.run(_serve(options.chunks, options.gap_ms / 1000, options.stamps))


if __name__ == "__main__":
    main()
