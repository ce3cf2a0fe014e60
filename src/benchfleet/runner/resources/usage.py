"""What a slot holds of its machine, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.domain.resource import Device
from benchfleet.domain.usage import Rate
from benchfleet.runner.resources.shapes import Pool


def rate_of(devices: Sequence[Device], pool: Pool | None, *, alone: bool = False) -> Rate:
    """What a slot on these devices of a pool holds, and what an hour of it costs.

    A wider slot, and one that is alone, holds its devices whole. The price of a machine is divided
    among all its slots; what idles is nobody's. An endpoint costs nothing but its tokens.
    """
    if pool is None or not pool.devices or devices[0].kind == "endpoint":
        return Rate()
    whole = alone or len(devices) > 1
    share = len(devices) * (1.0 if whole else min(1.0, len(pool.devices) / pool.slots))
    gpus = share if devices[0].kind == "gpu" else 0.0
    if pool.price is None:
        return Rate(gpus=gpus)
    part = gpus if pool.price.per_gpu else share / len(pool.devices)
    return Rate(gpus=gpus, cost=part * pool.price.amount, currency=pool.price.currency)
