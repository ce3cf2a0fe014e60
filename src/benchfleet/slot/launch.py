"""The first program of a slot: binds it to its devices, then becomes it.

Run by path with a bare interpreter (``python -S -E launch.py``), so that nothing is imported
before the environment is set. Its first frame, ``open``, says devices, threads, log, and which
interpreter becomes the slot. Only the standard library; imports nothing of benchfleet.
"""

import ctypes
import json
import os
import signal
import struct
import sys

_PR_SET_PDEATHSIG = 1
_SLOT = """\
import sys
sys.path[:] = [part for part in sys.path if part]  # no module of the working folder's
from benchfleet.slot.main import main
main()
"""
_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
)


def main() -> None:
    """Read the first frame, set the environment, exec the slot."""
    order = _first_frame(0)
    if order.get("parent") is not None:
        _die_with(order["parent"])
    environment = slot_environment(dict(os.environ), order)
    reads, writes = os.dup(0), os.dup(1)
    os.set_inheritable(reads, True)
    os.set_inheritable(writes, True)
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    python = order.get("python") or sys.executable
    channel = f"{reads},{writes}"
    os.execve(python, [python, "-c", _SLOT, channel, json.dumps(order)], environment)  # noqa: S606


def slot_environment(inherited: dict, order: dict) -> dict:  # type: ignore[type-arg]
    """The environment of a slot bound to `order`'s devices and threads."""
    environment = dict(inherited)
    for name in _THREADS:
        environment[name] = str(order["threads"])
    environment["CUDA_VISIBLE_DEVICES"] = order["gpus"]
    environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # NVML's order, by which ids are given
    environment["TOKENIZERS_PARALLELISM"] = "false"
    environment["BENCHFLEET_SLOT"] = order["slot"]
    for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE"):  # a launcher's leftovers mislead libraries
        environment.pop(name, None)
    if order.get("path"):
        before = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (order["path"], before)))
    return environment


def _first_frame(handle: int) -> dict:  # type: ignore[type-arg]
    (length,) = struct.unpack(">I", _exactly(handle, 4))
    order = json.loads(_exactly(handle, length))
    if order.get("type") != "open" or order.get("attached"):
        raise SystemExit("a slot's first frame must be 'open'")
    return order  # type: ignore[no-any-return]


def _exactly(handle: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = os.read(handle, count - len(data))
        if not piece:
            raise SystemExit(0)  # the engine went away before it said anything
        data += piece
    return data


def _die_with(parent: int) -> None:
    """Ask the kernel to end this process with its parent; holds across exec (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(0)  # it died before the request stood


if __name__ == "__main__":
    main()
