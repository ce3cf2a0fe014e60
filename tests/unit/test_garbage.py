"""Large results are read without searches for garbage in between."""

from __future__ import annotations

import gc

import pytest

from benchfleet.frames import Results
from benchfleet.garbage import no_collection
from benchfleet.testing import sample_cell


def test_collection_is_off_inside_and_on_again_after_an_error() -> None:
    @no_collection()
    def fail() -> None:
        assert not gc.isenabled()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert gc.isenabled()


def test_collection_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with no_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("frame", ["cells", "samples", "attempts", "comparisons"])
def test_frames_are_made_without_collection(frame: str) -> None:
    collected: list[bool] = []

    class Study:
        """Notes whether garbage is searched for while it is read."""

        def __getattr__(self, name: str) -> object:
            collected.append(gc.isenabled())
            raise NotImplementedError

    with pytest.raises(NotImplementedError):
        getattr(Results(Study(), [sample_cell(0)], "pandas"), frame)  # type: ignore[arg-type]
    assert collected == [False]
    assert gc.isenabled()
