"""Requests of a load test as tests make them; times are in ns."""

from __future__ import annotations

from benchfleet.serving.request import Request

S, MS = 1_000_000_000, 1_000_000


def request(
    n: int, sent: int, *, ttft: int = 100 * MS, tokens: int = 11, gap: int = 10 * MS
) -> Request:
    pieces = tuple((ttft + k * gap) // 1000 for k in range(tokens))
    return Request(
        n=n,
        scheduled=sent,
        sent=sent,
        first=sent + ttft,
        last=sent + ttft + (tokens - 1) * gap,
        end=sent + ttft + (tokens - 1) * gap + MS,
        tokens=tokens,
        prompt_tokens=20,
        token_source="usage",  # noqa: S106
        pieces=pieces,
        lines=(1,) * tokens,
    )
