"""The prompts of a cell as its model would get them: the benchmark runs, and no model is loaded."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from benchfleet.benchmarks.base import Record
from benchfleet.domain.cell import Cell
from benchfleet.errors import CellFailure
from benchfleet.models.base import Adapter, Answer, Prompt, PromptView, adapter_class
from benchfleet.slot.cell_checks import build_benchmark, check_version
from benchfleet.slot.channel import Channel
from benchfleet.slot.classify import classify
from benchfleet.slot.session import SlotSession


class _Enough(BaseException):
    """As many samples were seen as were asked for."""


@dataclass(frozen=True, kw_only=True)
class Preview:
    """Prompts of a cell, in the order in which its benchmark asks."""

    prompts: Sequence[PromptView]
    notes: Sequence[str] = ()  # of the benchmark, and why there are no more


def preview(cell: Cell, count: int) -> Preview:
    """The prompts of a cell's first `count` samples, few-shot examples and templates included.

    The benchmark gets empty answers. Raises CellFailure if its prompts cannot be seen, and what the
    benchmark raises before its first prompt.
    """
    benchmark = build_benchmark(cell.workload)
    check_version("benchmarks", cell.workload.benchmark, cell.workload.version)
    name = cell.workload.name
    if why := benchmark.why_unseen:
        raise _refused(f"the prompts of {name} cannot be shown: {why}")
    kind = adapter_class(cell.model.adapter)
    if not (benchmark.needs_model and kind.opens):
        raise _refused(f"{name} asks no model of benchfleet, so there is no prompt to show")
    adapter = kind(cell.model)
    notes = []
    if other := cell.model.python:
        notes.append(f"made by {sys.executable}; the cell runs under {other}, whose versions count")
    with TemporaryDirectory(prefix="benchfleet-prompts-") as folder:
        adapter.open_preview(cell.config)
        session = _PreviewSession(cell, adapter, count, Path(folder))
        try:
            benchmark.run(session)
        except _Enough:
            pass
        except Exception as error:
            failure = classify(error, "benchmark", trace=traceback.format_exc())
            if not session.views:
                raise _refused(f"{name}: {failure.message}") from error
            session.notices.append(f"no more prompts: with empty answers, {failure.message}")
        finally:
            adapter.unload()
    return Preview(prompts=session.views, notes=[*notes, *session.notices])


class _PreviewSession(SlotSession):
    """Shows prompts and records nothing."""

    def __init__(self, cell: Cell, adapter: Adapter, count: int, folder: Path) -> None:
        super().__init__(
            channel=cast(Channel, _NoChannel()),
            attempt="",
            adapter=cast(Adapter, _Shower(adapter, self)),
            cell=cell,
            batch_size=1,
            recorded=(),
            scratch_folder=folder / "scratch",
        )
        self._count = count
        self._sample = ""
        self.views: list[PromptView] = []
        self.notices: list[str] = []

    def show(self, view: PromptView) -> None:
        sample = view.sample or self._sample or str(len(self.views))
        seen = {one.sample for one in self.views}
        if sample not in seen and len(seen) >= self._count:
            raise _Enough
        self.views.append(replace(view, sample=sample))

    def record(self, record: Record) -> None:
        """Nothing was answered."""

    def notice(self, message: str) -> None:
        self.notices.append(message)

    @contextmanager
    def asking(self, count: int, *, sample: int | None = None) -> Iterator[None]:
        self._sample = "" if sample is None else str(sample)
        yield


class _Shower:
    """The adapter as the benchmark asks it: each prompt is shown, and has an empty answer."""

    independent, requests_at_once, abilities = False, 1, None

    def __init__(self, adapter: Adapter, session: _PreviewSession) -> None:
        self._adapter, self._session = adapter, session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

    def answer(self, prompts: Sequence[Prompt], generation: Mapping[str, Any]) -> list[Answer]:
        for prompt in prompts:
            view = self._adapter.preview(prompt, generation)
            self._session.show(replace(view, generation=dict(generation)))
        return [Answer(text="") for _ in prompts]


class _NoChannel:
    """Nobody listens."""

    stopping: frozenset[str] = frozenset()

    def send(self, type: str, attached: tuple[bytes, ...] = (), **fields: Any) -> None:
        """Sends nothing."""


def _refused(message: str) -> CellFailure:
    return CellFailure(stage="setup", kind="user_error", message=message)
