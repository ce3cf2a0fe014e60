"""Which machine each cell is meant for, and which may not have it, as machines come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from benchfleet.domain.cell import Cell
from benchfleet.domain.placing import Placing
from benchfleet.domain.resource import Need
from benchfleet.runner.devices.hosts import Hosts
from benchfleet.runner.slots.place import Pool, Shape, impossible


class Whither:
    """Makes shapes of cells. The machine of the plan counts while it is here and can take the cell,
    and until something is heard of it; after that the cell is anybody's, when nothing else is left.
    """

    def __init__(self, hosts: Hosts, pools: Callable[[], Sequence[Pool]]) -> None:
        self._hosts, self._pools = hosts, pools
        self.placing = Placing()
        self._homely: dict[tuple[str, Need], bool] = {}

    def use(self, placing: Placing) -> None:
        """Go by this from now on."""
        self.placing = placing
        self._homely.clear()

    def anew(self) -> bool:
        """Whether it may be otherwise, now that machines came or went."""
        return any(self._is_homely(*key) != known for key, known in self._homely.items())

    def look(self) -> None:
        """See which machines are here."""
        self._homely.clear()

    def shape(self, fingerprint: str, cell: Cell) -> Shape:
        """What the slot of a cell is to be, as it declares and as it is placed."""
        width, placing = max(1, cell.need.gpus), self.placing
        if not placing.binds:
            return Shape(width)
        barred, home = placing.barred(cell), placing.homes.get(fingerprint)
        if home is None:
            return Shape(width, barred=barred)
        key = home, cell.need
        if (homely := self._homely.get(key)) is None:
            homely = self._homely[key] = self._is_homely(*key)
        if homely and home not in barred:
            return Shape(width, barred=barred, home=home)
        return Shape(width, barred=barred, late=True)

    def is_awaited(self, home: str) -> bool:
        """Whether a machine may still be on its way, and what it is meant to have is left to it."""
        return home in self._hosts.unmet

    def told(self, cells: Iterable[Cell]) -> Iterator[str]:
        """In words, which of these cells the machines of this run may not have, and why, and of
        which machines nobody knows."""
        cells = list(cells)
        mine = {pool.host for pool in self._pools() if pool.devices} | self._hosts.expected
        for one in self.placing.kept_off(cells, mine):
            yield f"{one.host or 'this machine'} is given {one}"
        yield from self.placing.unreported(cells, mine)

    def _is_homely(self, home: str, need: Need) -> bool:
        """Whether such cells are to wait for the machine."""
        if home in self._hosts.unmet:
            return True
        here = [pool for pool in self._pools() if pool.host == home]
        return bool(here) and not impossible(need, here)
