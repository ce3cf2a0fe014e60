"""Which cells no machine can take, each reason reported once."""

from __future__ import annotations

from collections.abc import Callable

from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import examples
from benchfleet.runner.resources.devices import Devices


class ImpossibleReport:
    """Remembers what it reported of the cells that no machine can take."""

    def __init__(
        self, devices: Devices, *, is_open: Callable[[str], bool], is_waiting: Callable[[str], bool]
    ) -> None:
        """`is_open` is whether a cell, by fingerprint, has not ended; `is_waiting`, whether it does
        not run either."""
        self._devices, self._is_open, self._is_waiting = devices, is_open, is_waiting
        self._able = frozenset[str]()  # the able cells of the last report
        self._messages: set[str] = set()

    def cells(self) -> list[tuple[Cell, str]]:
        """The cells that no machine will take, and why, without those that have ended."""
        return [one for one in self._devices.impossible if self._is_open(one[0].fingerprint)]

    def news(self) -> list[str]:
        """A message for each reason that is new; a cell that runs may still end well."""
        if self._devices.able is self._able:
            return []
        self._able = self._devices.able
        cells: dict[str, list[Cell]] = {}
        for cell, why in self._devices.impossible:
            if self._is_waiting(cell.fingerprint):
                cells.setdefault(why, []).append(cell)
        messages = []
        for why, some in cells.items():
            names = examples((cell.id for cell in some), 1)
            messages.append(f"no machine can run {names}: {why}")
        new = [message for message in messages if message not in self._messages]
        self._messages.update(new)
        return new
