"""The hardware axis: the GPUs that a cell names, and whether a machine has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LOCAL = "local"  # provider of machines that are not rented
_SIZE = re.compile(r"(\d+)gi?b")
_MAKERS = frozenset({"nvidia", "geforce", "tesla", "quadro", "gpu", "amd", "radeon", "instinct"})
_FORMS = re.compile(r"sxm\d?|pci|pcie|nvl|hbm\d?e?|oam|tensor|core|edition|server|\d+gi?b")
_MIN_MEMORY_SHARE = 0.9  # of the size in a name: drivers report a little less


@dataclass(frozen=True, kw_only=True)
class MachineHardware:
    """What a machine has."""

    gpus: tuple[str, ...] = ()  # name of each
    memory: int = 0  # bytes of the smallest of them; 0: unknown
    provider: str = LOCAL

    def __str__(self) -> str:
        names = list(dict.fromkeys(self.gpus))
        counted = [f"{n} × {name}" if (n := self.gpus.count(name)) > 1 else name for name in names]
        where = "" if self.provider == LOCAL else f" at {self.provider}"
        return f"{', '.join(counted) or 'no GPU'}{where}"


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """An entry of the hardware axis."""

    name: str
    gpu: str  # such as RTX 4090
    gpus: int = 1  # of it in one machine, at least
    provider: str = ""  # such as vast; local: machines that are not rented; "": any

    def identity(self) -> dict[str, Any]:
        """What of it enters the fingerprint of a cell that measures speed."""
        return {"gpu": " ".join(sorted(_words(self.gpu))), "gpus": self.gpus} | (
            {"provider": self.provider} if self.provider else {}
        )

    def unmet(self, machine: MachineHardware) -> str:
        """What of it the machine lacks; ``""`` if it is such a machine."""
        if self.provider not in ("", machine.provider):
            local = self.provider == LOCAL
            return "it is rented" if local else f"it is not rented at {self.provider}"
        same = [name for name in machine.gpus if is_gpu(self.gpu, name, machine.memory)]
        if len(same) < self.gpus:
            required = f"{self.gpus} × {self.gpu}" if self.gpus > 1 else self.gpu
            return f"it has {machine}, not {required}"
        return ""


def hardware_problem(hardware: Sequence[Hardware], machine: MachineHardware) -> str:
    """Why a machine is none of this hardware; ``""`` if it is, or if none is named."""
    reasons = [one.unmet(machine) for one in hardware]
    if not all(reasons):
        return ""
    if len(reasons) < 2:
        return "".join(reasons)
    return f"it is {machine}, none of {', '.join(one.name for one in hardware)}"


def is_gpu(requested: str, name: str, memory: int = 0) -> bool:
    """Whether a GPU that a driver or provider calls `name` is what a user calls `requested`.

    The name may say more about form and memory, but not about the model: an RTX 4090 is no RTX
    4090 D. A size in `requested` is compared with `memory` (bytes), or with the size in the name.
    """
    words, actual = _words(requested), _words(name)
    sizes = {word for word in words if _SIZE.fullmatch(word)}
    if not words or not words - sizes <= actual:
        return False
    if any(not _FORMS.fullmatch(word) for word in actual - words):
        return False
    return all(_has_size(size, actual, memory) for size in sizes)


def _has_size(size: str, actual: set[str], memory: int) -> bool:
    if size in actual:
        return True
    gigabytes = int(size.rstrip("gib"))
    if memory:
        return gigabytes * 1e9 * _MIN_MEMORY_SHARE <= memory <= gigabytes * 2**30 * 1.1
    return False


def _words(name: str) -> set[str]:
    """The words of a GPU's name, without its maker."""
    text = re.sub(r"(\d+)\s+(gi?b)\b", r"\1\2", name.casefold().replace("_", " "))
    words = re.findall(r"[a-z0-9]+", text)
    return {word for word in words if word not in _MAKERS}
