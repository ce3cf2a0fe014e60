"""``python -m benchfleet.machines.probe.compute cpu|gpu SECONDS``: how fast this machine computes.

Prints one line of JSON. A process of its own, so that the caller loads nothing heavy and can
end it if it hangs.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

_COPY_BYTES = 64 * 2**20  # bytes, larger than caches are
_CPU_MATRIX_SIDE = 1024  # of a matrix on the CPU
_GPU_MATRIX_SIDE = 8192


def main(words: list[str]) -> None:
    """Measure what the first word says, for about as many seconds as the second."""
    seconds = float(words[1])
    print(json.dumps(gpu(seconds) if words[0] == "gpu" else cpu(seconds)))


def cpu(seconds: float) -> dict[str, Any]:
    """Bytes copied and operations of a matrix product, each in a second."""
    source, target = bytearray(_COPY_BYTES), bytearray(_COPY_BYTES)

    def copy() -> None:
        target[:] = source

    rates: dict[str, Any] = {"memory_bandwidth": round(_COPY_BYTES * rate(copy, seconds))}
    try:
        import numpy
    except ImportError:
        return {**rates, **_plain(seconds)}
    matrix = numpy.ones((_CPU_MATRIX_SIDE, _CPU_MATRIX_SIDE), dtype="float32")
    product = rate(lambda: matrix @ matrix, seconds)
    return {**rates, "gflops": round(2 * _CPU_MATRIX_SIDE**3 * product / 1e9, 2), "by": "numpy"}


def _plain(seconds: float) -> dict[str, Any]:
    """With nothing but the interpreter."""
    side = 48
    row = [1.0] * side

    def product() -> None:
        for _ in range(side * side):
            sum(map(float.__mul__, row, row))

    gflops = 2 * side**3 * rate(product, seconds) / 1e9
    note = "numpy is not installed: the matrix product is one of plain Python, far below the CPU's"
    return {"gflops": round(gflops, 4), "by": "python", "notes": [note]}


def gpu(seconds: float) -> dict[str, Any]:
    """The same on the first GPU, in 16 bits."""
    try:
        import torch
    except ImportError:
        return {"notes": ["torch is not installed: no GPU was measured"]}
    if not torch.cuda.is_available():
        return {"notes": ["torch sees no GPU: none was measured"]}
    side = _GPU_MATRIX_SIDE
    while side > 512 and 8 * side**2 > torch.cuda.mem_get_info()[0]:
        side //= 2
    matrix = torch.ones((side, side), dtype=torch.float16, device="cuda")

    def waited(work: Callable[[], Any]) -> Callable[[], None]:
        def measured() -> None:
            work()
            torch.cuda.synchronize()

        return measured

    product = rate(waited(lambda: matrix @ matrix), seconds)
    copied = rate(waited(matrix.clone), seconds)
    return {
        "gflops": round(2 * side**3 * product / 1e9, 1),
        "bandwidth": round(2 * matrix.nbytes * copied),
    }


def rate(work: Callable[[], Any], seconds: float) -> float:
    """How often a second `work` can be done, once it is warm."""
    work()
    begun, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - begun) < seconds or not count:
        work()
        count += 1
    return count / max(passed, 1e-9)


if __name__ == "__main__":
    main(sys.argv[1:])
