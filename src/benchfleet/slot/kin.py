"""A slot's processes as Linux shows them: how much RAM they hold, and whether one stands still.

Only the standard library, and nothing of benchfleet: the supervisor of a slot takes it along.
"""

from __future__ import annotations

import contextlib
import os

_SHORT = 0.02  # of RAM that is still to be had, and the machine is short of it
_SWAP = 0.10  # of swap that is left
_WORTH = 0.05  # of RAM that a slot must hold for its end to help


def family(pid: int, proc: str = "/proc") -> list[int]:
    """All descendants of a process, parents before their children."""
    found = _children(pid, proc)
    for child in found:  # grows meanwhile
        found += _children(child, proc)
    return found


def held(pids: list[int], proc: str = "/proc") -> dict[int, int]:
    """Bytes of RAM that each process holds and that cannot be read from a file again; memory that
    they share counts for each of them."""
    return {pid: _numbers(f"{proc}/{pid}/status", "RssAnon", "RssShmem") for pid in pids}


def held_apart(pids: list[int], proc: str = "/proc") -> dict[int, int]:
    """The same, with what they share divided among those that share it; takes longer."""
    names = ("Pss_Anon", "Pss_Shmem")
    together = held(pids, proc)
    return {pid: _numbers(f"{proc}/{pid}/smaps_rollup", *names) or together[pid] for pid in pids}


def cpu_seconds(pids: list[int], proc: str = "/proc") -> float:
    """CPU time that these processes used, with that of their children that ended."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            stat = _content(f"{proc}/{pid}/stat")
            ticks += sum(map(int, stat.rpartition(b")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def over(limit: int, pids: list[int], proc: str = "/proc") -> str:
    """What they hold, where it is more than `limit` bytes; ``""`` where it is not."""
    if sum(held(pids, proc).values()) <= limit:
        return ""
    apart = held_apart(pids, proc)
    total = sum(apart.values())
    if total <= limit:
        return ""
    most = max(apart, key=lambda pid: apart[pid])
    return (
        f"its {len(apart)} processes hold {_size(total)} of RAM, over its limit of "
        f"{_size(limit)}; most of it {_name(most, proc)} ({most}) with {_size(apart[most])}"
    )


def is_short(proc: str = "/proc") -> bool:
    """Whether the machine is about to run out of RAM, with no swap to speak of left."""
    total = _numbers(f"{proc}/meminfo", "MemTotal")
    swap = _numbers(f"{proc}/meminfo", "SwapTotal")
    free = _numbers(f"{proc}/meminfo", "MemAvailable")
    return 0 < free < _SHORT * total and _numbers(f"{proc}/meminfo", "SwapFree") <= _SWAP * swap


def is_the_one_to_go(slot: str, proc: str = "/proc") -> str:
    """What a slot holds, where it is the largest of this user's slots on the machine and large
    enough that its end helps; ``""`` where it is not."""
    slots: dict[str, int] = {}
    for pid in (int(entry) for entry in os.listdir(proc) if entry.isdigit()):
        with contextlib.suppress(OSError), open(f"{proc}/{pid}/environ", "rb") as file:
            for word in file.read().split(b"\0"):
                if word.startswith(b"BENCHFLEET_SLOT="):
                    name = word.partition(b"=")[2].decode("utf-8", "replace")
                    slots[name] = slots.get(name, 0) + sum(held([pid], proc).values())
    largest = max(slots, key=lambda name: (slots[name], name), default="")
    enough = _WORTH * _numbers(f"{proc}/meminfo", "MemTotal")
    if largest != slot or slots[slot] < enough:
        return ""
    return (
        f"the machine ran out of RAM, and it was the largest slot with {_size(slots[slot])}; "
        "run fewer at once"
    )


def stands_still(pid: int, proc: str = "/proc") -> bool:
    """Whether a process was stopped (SIGSTOP), and not by a debugger."""
    with contextlib.suppress(OSError, IndexError), open(f"{proc}/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] == b"T"
    return False


def computed(pid: int, proc: str = "/proc") -> tuple[int, bool]:
    """Clock ticks that a process and its descendants have computed, and whether one of them runs
    now; those that ended and were waited for count."""
    ticks, runs = 0, False
    for each in (pid, *family(pid, proc)):
        with contextlib.suppress(OSError, IndexError), open(f"{proc}/{each}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            ticks += sum(map(int, fields[11:15]))
            runs |= fields[0] == b"R"
    return ticks, runs


def kernel_kills(proc: str = "/proc") -> int:
    """How many processes the kernel ended for want of memory since it runs."""
    with contextlib.suppress(OSError, ValueError), open(f"{proc}/vmstat", "rb") as file:
        for line in file:
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
    return 0


def _size(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 10**9 else f"{size / 1e6:.0f} MB"


def _children(pid: int, proc: str) -> list[int]:
    found: list[int] = []
    folder = f"{proc}/{pid}/task"
    with contextlib.suppress(OSError):
        for thread in os.listdir(folder):
            with contextlib.suppress(OSError):
                found += map(int, _content(f"{folder}/{thread}/children").split())
    return found


def _numbers(file: str, *names: str) -> int:
    """The sum of these lines of a file that counts in kB, as bytes; 0 where it cannot be read."""
    total = 0
    wanted = tuple(f"{name}:".encode() for name in names)
    with contextlib.suppress(OSError, ValueError):
        for line in _content(file).splitlines():
            if line.startswith(wanted):
                total += 1024 * int(line.split()[1])
    return total


def _content(file: str) -> bytes:
    """What the kernel tells there; it is asked often, and takes less by descriptor."""
    handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = b""
        while piece := os.read(handle, 2**16):
            found += piece
        return found
    finally:
        os.close(handle)


def _name(pid: int, proc: str) -> str:
    with contextlib.suppress(OSError), open(f"{proc}/{pid}/comm", "rb") as file:
        return file.read().decode("utf-8", "replace").strip()
    return "a process"
