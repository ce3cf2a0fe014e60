"""Whether the load client was itself the bottleneck, so that latencies are not the server's."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.serving.load_run import Second

MAX_CPU = 0.75  # of a core
MAX_LAG_MS = 5.0  # the median of a second
LEAST_DELAY_MS = 10.0
DELAY_OF_TTFT = 0.05  # of the limit of the time to first token
MAX_SHARE = 0.05  # of the steady seconds


def client_bound(
    seconds: Sequence[Second], *, open_loop: bool, ttft_limit_s: float | None = None
) -> list[str]:
    """The reasons, each as a sentence; empty if the client kept up."""
    if not seconds:
        return []
    delay_ms = LEAST_DELAY_MS
    if ttft_limit_s is not None:
        delay_ms = max(delay_ms, DELAY_OF_TTFT * ttft_limit_s * 1000)
    checks = (
        (f"it used over {MAX_CPU:g} of a core", [one.cpu > MAX_CPU for one in seconds]),
        (
            f"its event loop was over {MAX_LAG_MS:g} ms late",
            [one.lag_p50_ms > MAX_LAG_MS for one in seconds],
        ),
        (
            f"requests were sent over {delay_ms:g} ms late",
            [open_loop and one.delay_p99_ms > delay_ms for one in seconds],
        ),
    )
    return [
        f"{words} in {sum(flags)} of {len(flags)} seconds"
        for words, flags in checks
        if sum(flags) > MAX_SHARE * len(flags)
    ]
