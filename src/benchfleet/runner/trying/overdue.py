"""What of one attempt is bounded in time: the whole of it, a call of the model, and silence."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from benchfleet.domain.cell import Limits
from benchfleet.domain.failure import Kind
from benchfleet.engines.base import AttemptEvent, Calling, Measured, Progressed, Recorded, Started
from benchfleet.runner.trying.stuck import PATIENCE, History, why_stuck


@dataclass(frozen=True, kw_only=True)
class Overdue:
    """Why an attempt is to be ended now."""

    kind: Kind
    message: str


class Watch:
    """Sees what comes of one attempt, and tells when it is overdue. Times are seconds on the
    caller's clock. Only the benchmark can be stuck: how long a model takes to come, nobody knows.
    """

    def __init__(self, limits: Limits, *, began: float) -> None:
        self._limits, self._began = limits, began
        self._history: History | None = None  # since the benchmark began
        self._call: tuple[float, Calling] | None = None  # since when
        self._done = self._total = 0  # samples
        self.sure_until = began  # until when it is not overdue, if nothing comes

    def saw(self, event: AttemptEvent, now: float) -> None:
        """Something came of it. That it can be measured is no sign that it goes on."""
        if isinstance(event, Measured):
            return
        self.sure_until = now
        if isinstance(event, Started):
            self._history = History(now) if event.stage == "benchmark" else None
        if isinstance(event, Calling):
            self._call = (now, event) if event.count else None
        further = isinstance(event, (Progressed, Recorded)) and event.done > self._done
        if isinstance(event, (Progressed, Recorded)):
            self._done, self._total = event.done, event.total
        if self._history is None:
            return
        if isinstance(event, Recorded) and further:
            prompt, completion = event.tokens
            self._history.sample(now, prompt_tokens=prompt, completion_tokens=completion)
        else:
            self._history.sign(now)

    def excuse(self, seconds: float) -> None:
        """Count these seconds for nothing: the runner itself was suspended, or was late."""
        self._began += seconds
        if self._history is not None:
            self._history.excuse(seconds)
        if self._call is not None:
            since, call = self._call
            self._call = since + seconds, call

    def overdue(self, now: float) -> Overdue | None:
        """Why the attempt is to be ended, or None."""
        limits = self._limits
        if limits.cell is not None and now - self._began > limits.cell:
            why = f"it ran longer than its limit of {limits.cell:g} s"
            return Overdue(kind="timeout", message=why)
        if limits.generation is not None and self._call is not None:
            since, call = self._call
            if now - since > limits.generation:
                return Overdue(kind="timeout", message=self._of_call(call, limits.generation))
        if self._history is not None:
            left = self._done < self._total
            if why := why_stuck(self._history, now, limit=limits.stuck, left=left):
                return Overdue(kind="stuck", message=f"{why}; {self._so_far}")
        self.sure_until = self._first_end()
        return None

    def _first_end(self) -> float:
        """The first moment at which it may be overdue, if nothing comes until then."""
        limits, ends = self._limits, [inf]
        if limits.cell is not None:
            ends.append(self._began + limits.cell)
        if limits.generation is not None and self._call is not None:
            ends.append(self._call[0] + limits.generation)
        if self._history is not None:
            ends.append(self._history.last_sign + (limits.stuck or PATIENCE))
        return min(ends)

    def _of_call(self, call: Calling, limit: float) -> str:
        of = "one prompt" if call.count == 1 else f"{call.count} prompts"
        first = "" if call.sample is None else f", the first that of sample {call.sample},"
        return (
            f"a call of the model with {of}{first} takes longer than its limit of {limit:g} s "
            f"(limits.generation); {self._so_far}"
        )

    @property
    def _so_far(self) -> str:
        of = f" of {self._total}" if self._total else ""
        return f"{self._done}{of} samples are recorded"
