"""A slot's processes in Linux's /proc: their RAM, their CPU time, and whether one is stopped.

Only the standard library, and nothing of benchfleet: the supervisor of a slot runs it by path.
"""

from __future__ import annotations

import contextlib
import os

SHORT_RAM_SHARE = 0.02  # the machine is short of RAM with less than this left,
SHORT_SWAP_SHARE = 0.10  # and less than this of its swap
VICTIM_RAM_SHARE = 0.05  # a smaller slot's end helps nobody


def descendants(pid: int, proc: str = "/proc") -> list[int]:
    """All descendants of a process, parents before their children."""
    pids = _children(pid, proc)
    for child in pids:  # grows meanwhile
        pids += _children(child, proc)
    return pids


def rss(pids: list[int], proc: str = "/proc") -> dict[int, int]:
    """Bytes of RAM that each process holds and that cannot be read from a file again. Shared memory
    counts for each of them."""
    return {pid: _bytes(f"{proc}/{pid}/status", b"RssAnon", b"RssShmem") for pid in pids}


def pss(pids: list[int], proc: str = "/proc") -> dict[int, int]:
    """The same, with shared memory divided among its holders; takes longer."""
    names, shared = (b"Pss_Anon", b"Pss_Shmem"), rss(pids, proc)
    return {pid: _bytes(f"{proc}/{pid}/smaps_rollup", *names) or shared[pid] for pid in pids}


def cpu_seconds(pids: list[int], proc: str = "/proc") -> float:
    """CPU time that these processes used, with that of their children that ended."""
    return sum(_ticks(_stat(pid, proc)) for pid in pids) / os.sysconf("SC_CLK_TCK")


def cpu_ticks(pid: int, proc: str = "/proc") -> tuple[int, bool]:
    """CPU time of a process and its descendants, in clock ticks, and whether one of them runs
    now. Those that ended and were waited for count."""
    stats = [_stat(each, proc) for each in (pid, *descendants(pid, proc))]
    return sum(map(_ticks, stats)), any(stat[:1] == [b"R"] for stat in stats)


def is_stopped(pid: int, proc: str = "/proc") -> bool:
    """Whether a process was stopped by a signal, and not by a debugger."""
    return _stat(pid, proc)[:1] == [b"T"]


def over_limit(limit: int, pids: list[int], proc: str = "/proc") -> str:
    """What they hold, where it is more than `limit` bytes; ``""`` where it is not."""
    if sum(rss(pids, proc).values()) <= limit:
        return ""
    sizes = pss(pids, proc)
    total = sum(sizes.values())
    if total <= limit:
        return ""
    most = max(sizes, key=lambda pid: sizes[pid])
    return (
        f"its {len(sizes)} processes hold {_size(total)} of RAM, over its limit of "
        f"{_size(limit)}; most of it {_name(most, proc)} ({most}) with {_size(sizes[most])}"
    )


def is_short_of_ram(proc: str = "/proc") -> bool:
    """Whether the machine is about to run out of RAM and swap."""
    names = (b"MemTotal", b"MemAvailable", b"SwapTotal", b"SwapFree")
    numbers = _numbers(f"{proc}/meminfo")
    total, free, swap, swap_free = (numbers.get(name, 0) for name in names)
    return 0 < free < SHORT_RAM_SHARE * total and swap_free <= SHORT_SWAP_SHARE * swap


def oom_victim(slot: str, proc: str = "/proc") -> str:
    """What a slot holds, where it is the largest of this user's slots on the machine and large
    enough that its end helps; ``""`` where it is not."""
    slots: dict[str, int] = {}
    for pid in (int(entry) for entry in os.listdir(proc) if entry.isdigit()):
        for word in _content(f"{proc}/{pid}/environ").split(b"\0"):
            if word.startswith(b"BENCHFLEET_SLOT="):
                name = word.partition(b"=")[2].decode("utf-8", "replace")
                slots[name] = slots.get(name, 0) + sum(rss([pid], proc).values())
    largest = max(slots, key=lambda name: (slots[name], name), default="")
    enough = VICTIM_RAM_SHARE * _bytes(f"{proc}/meminfo", b"MemTotal")
    if largest != slot or slots[slot] < enough:
        return ""
    return (
        f"the machine ran out of RAM, and it was the largest slot with {_size(slots[slot])}; "
        "run fewer at once"
    )


def oom_kills(proc: str = "/proc") -> int:
    """How many processes the kernel has killed for want of memory since it booted."""
    return _numbers(f"{proc}/vmstat").get(b"oom_kill", 0)


def _children(pid: int, proc: str) -> list[int]:
    pids: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"{proc}/{pid}/task"):
            pids += map(int, _content(f"{proc}/{pid}/task/{thread}/children").split())
    return pids


def _stat(pid: int, proc: str) -> list[bytes]:
    """The fields of a process's stat after its name, which may hold anything: state, parent, …"""
    return _content(f"{proc}/{pid}/stat").rpartition(b")")[2].split()


def _ticks(stat: list[bytes]) -> int:
    return sum(map(int, stat[11:15]))


def _bytes(file: str, *names: bytes) -> int:
    """The sum of these lines of a file that counts in kB."""
    numbers = _numbers(file)
    return 1024 * sum(numbers.get(name, 0) for name in names)


def _numbers(file: str) -> dict[bytes, int]:
    """The lines of a file that are a name and a number."""
    lines = (line.split() for line in _content(file).splitlines())
    return {
        words[0].rstrip(b":"): int(words[1])
        for words in lines
        if len(words) > 1 and words[1].isdigit()
    }


def _content(file: str) -> bytes:
    """Nothing where it cannot be read: a process may end at any time."""
    with contextlib.suppress(OSError), open(file, "rb", buffering=0) as opened:
        return opened.readall()
    return b""


def _name(pid: int, proc: str) -> str:
    name = _content(f"{proc}/{pid}/comm").decode("utf-8", "replace").strip()
    return name or "a process"


def _size(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 10**9 else f"{size / 1e6:.0f} MB"
