"""A disk with too little room pauses what is new, and says so once."""

from __future__ import annotations

from benchfleet.runner.disk_guard import FIRST_PAUSE_S, FLOOR_BYTES, UNLIMITED, DiskGuard, DiskSpace


class Disk:
    """A disk of 100 GB whose free space a test sets."""

    def __init__(self, free: int = 50 * 10**9, total: int = 100 * 10**9) -> None:
        self.free, self.total = free, total

    def __call__(self) -> DiskSpace:
        return DiskSpace(free=self.free, total=self.total)


def test_a_disk_below_the_floor_pauses_and_goes_on_by_itself() -> None:
    disk = Disk()
    space = DiskGuard(disk, floor=5 * 10**9)
    assert not space.check(0)
    disk.free = 4 * 10**9
    assert "has 4.0 GB left, less than 5.0 GB" in space.check(1)
    assert space.short
    assert not space.check(2)
    disk.free = 6 * 10**9
    assert "6.0 GB left; cells begin again" in space.check(3)
    assert not space.short


def test_the_floor_is_a_small_part_of_a_small_disk() -> None:
    assert DiskGuard(Disk(), floor=None).floor(DiskSpace(free=0, total=100 * 10**9)) == FLOOR_BYTES
    assert DiskGuard(Disk(), floor=None).floor(DiskSpace(free=0, total=400_000)) == 8_000
    assert DiskGuard(Disk(), floor=7).floor(DiskSpace(free=0, total=400_000)) == 7


def test_a_refused_write_pauses_though_the_disk_seems_to_have_room() -> None:
    space = DiskGuard(Disk(), floor=None)
    assert "is full" in space.refused(100)
    assert not space.refused(101)
    assert not space.check(100 + FIRST_PAUSE_S - 1)
    assert space.short
    assert "cells begin again" in space.check(100 + FIRST_PAUSE_S)


def test_the_pause_grows_while_writes_are_refused_and_starts_again_after_one_that_is_not() -> None:
    space = DiskGuard(Disk(), floor=None)
    space.refused(0)
    space.check(FIRST_PAUSE_S)
    space.refused(FIRST_PAUSE_S)
    assert not space.check(2 * FIRST_PAUSE_S)
    assert space.check(3 * FIRST_PAUSE_S)
    space.wrote()
    space.refused(1000)
    assert space.check(1000 + FIRST_PAUSE_S)


def test_a_disk_that_cannot_be_asked_pauses_nothing() -> None:
    def gone() -> DiskSpace:
        raise OSError("unmounted")

    space = DiskGuard(gone, floor=10)
    assert not space.check(0)
    assert not space.short
    assert not DiskGuard(lambda: UNLIMITED, floor=None).check(0)
