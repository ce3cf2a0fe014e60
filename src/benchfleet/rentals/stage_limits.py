"""How long each stage from a rental to a host may take."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAVY = re.compile(r"vllm|sglang|tensorrt|triton|nemo|pytorch|deepspeed|jupyter", re.IGNORECASE)
_MINUTE = 60.0


@dataclass(frozen=True, kw_only=True)
class StageLimits:
    """Seconds for each stage."""

    provision: float  # from the creation until it runs and has an address
    ssh_wait: float  # until somebody can log in
    hardware: float
    dead_man: float  # until its timer is armed
    bootstrap: float  # until benchfleet is installed

    @property
    def total(self) -> float:
        """Of all of them."""
        return float(sum(vars(self).values()))


def stage_limits(image: str, *, boots_system: bool = False) -> StageLimits:
    """The limits for an image. Heavy images take long to be pulled; `boots_system`: a virtual
    machine, which takes longer to start than a container."""
    heavy = bool(_HEAVY.search(image))
    provision = 30 if heavy else 25 if boots_system else 10
    return StageLimits(
        provision=provision * _MINUTE,
        ssh_wait=(20 if heavy else 10) * _MINUTE,
        hardware=2 * _MINUTE,
        dead_man=2 * _MINUTE,
        bootstrap=(30 if heavy else 15) * _MINUTE,
    )
