"""The servers elsewhere that cells of a run ask, and how many cells ask each at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from benchfleet.domain.resource import DEFAULT_ENDPOINT_SLOTS, Device

_LOOPBACK = "127."


class Endpoints:
    """The slots of each server. Those of one server count together, on whatever machine of the run
    they are. Only an address of the loopback is another server on each machine."""

    def __init__(self, names: Collection[str] = (), slots: int = DEFAULT_ENDPOINT_SLOTS) -> None:
        self._names, self._slots = frozenset(names), slots
        self._in_use: dict[tuple[str, str, int], bool] = {}  # host, name, index: whether alone

    def extended(self, names: Collection[str], slots: int) -> Endpoints:
        """These servers too, so many slots each; what is in use stays so."""
        other = Endpoints(self._names.union(names), slots)
        other._in_use = self._in_use
        return other

    def any_free(self, hosts: Iterable[str]) -> bool:
        """Whether one more slot could ask any of the servers, from one of these machines."""
        hosts = list(hosts) if self._names else []
        return any(self.free(name, hosts) for name in self._names)

    def free(self, name: str, hosts: Iterable[str], *, alone: bool = False) -> Device | None:
        """The endpoint for one more slot that asks this server, on the first of these machines that
        may; `alone`: only while no other slot asks it."""
        for host in hosts:
            scope = _scope(name, host)
            in_use = {
                index: whole
                for (where, server, index), whole in self._in_use.items()
                if (where, server) == (scope, name)
            }
            if not (any(in_use.values()) or (alone and in_use)):
                for index in range(self._slots):
                    if index not in in_use:
                        return Device(kind="endpoint", index=index, name=name, host=host)
            if not name.startswith(_LOOPBACK):
                break  # it is the same server from all machines
        return None

    def count(self, device: Device, by: int, *, alone: bool) -> None:
        """A slot opened on this endpoint (1), or is gone (-1)."""
        key = _scope(device.name, device.host), device.name, device.index
        if by > 0:
            self._in_use[key] = alone
        else:
            self._in_use.pop(key, None)


def _scope(name: str, host: str) -> str:
    """The machine that the server is on if its address means another on each; else ``""``."""
    return host if name.startswith(_LOOPBACK) else ""
