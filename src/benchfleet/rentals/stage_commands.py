"""The commands that a rented machine is given before it is a host, to be approved beforehand."""

from __future__ import annotations

from collections.abc import Iterator

from benchfleet.domain.rent import RentEntry
from benchfleet.engines.commands import Command
from benchfleet.providers.dead_man import timer_script
from benchfleet.rentals.prepare import ARMED, KERNEL, SMI
from benchfleet.rentals.rented_host import ALIVE


def stage_commands(entry: RentEntry) -> Iterator[Command]:
    """Those of one entry, in their order; ``<…>`` stands for what differs from time to time."""
    if entry.needs_dead_man:
        script = timer_script(
            url="<address of the provider>", label="<label>", key="<KEY>", id="<ID>"
        )
        yield Command(title="start script, run by the provider", words=("sh", "-c", script))
    yield Command(title="log in", words=("echo", "<random word>"))
    yield Command(title="read its kernel", words=KERNEL)
    if entry.cpu_slots is None:
        yield Command(title="look at its GPUs", words=SMI)
    if entry.needs_dead_man:
        yield Command(title="see whether its timer is armed", words=("cat", ARMED))
    yield Command(title="sign of life for its timer, each minute", words=tuple(ALIVE))
