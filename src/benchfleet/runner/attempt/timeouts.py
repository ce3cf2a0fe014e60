"""Time limits of one attempt: of the whole, of a stage, of one call of the model, and of no
progress."""

from __future__ import annotations

from dataclasses import dataclass

from benchfleet.domain.failure import Kind
from benchfleet.domain.limits import Limits
from benchfleet.engines.base import AttemptEvent, Calling, Measured, Progressed, Recorded, Started
from benchfleet.runner.attempt.stall_detector import SampleHistory, stall_reason


@dataclass(frozen=True, kw_only=True)
class Timeout:
    """Why an attempt has to end now."""

    kind: Kind
    message: str


class AttemptTimeouts:
    """Records what comes of one attempt, and says when the attempt has to end. Times are seconds on
    the caller's clock. Only the benchmark can be stuck: nobody knows how long a model loads.
    """

    def __init__(self, limits: Limits, *, began: float) -> None:
        self._limits, self._began = limits, began
        self._history: SampleHistory | None = None  # since the benchmark began
        self._call: tuple[float, Calling] | None = None  # since when
        self._stage: tuple[float, Started] | None = None  # since when, if it has a limit
        self._done = self._total = 0  # samples

    def record(self, event: AttemptEvent, now: float) -> None:
        """Take in an event of the attempt. A measurement is no sign of progress."""
        if isinstance(event, Measured):
            return
        if isinstance(event, Started):
            self._history = SampleHistory(now) if event.stage == "benchmark" else None
            self._stage = (now, event) if event.limit is not None else None
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
        """Leave out these seconds: the runner itself was suspended, or was late."""
        self._began += seconds
        if self._stage is not None:
            since, stage = self._stage
            self._stage = since + seconds, stage
        if self._history is not None:
            self._history.excuse(seconds)
        if self._call is not None:
            since, call = self._call
            self._call = since + seconds, call

    def expired(self, now: float) -> Timeout | None:
        """Why the attempt has to end now, or None."""
        limits = self._limits
        if limits.cell is not None and now - self._began > limits.cell:
            why = f"it ran longer than its limit of {limits.cell:g} s (limits.cell)"
            return Timeout(kind="timeout", message=why)
        if self._stage is not None and self._stage[1].limit is not None:
            since, stage = self._stage
            if now - since > (stage.limit or 0.0):
                why = f"stage {stage.stage} takes longer than its limit of {stage.limit:.0f} s"
                return Timeout(kind="timeout", message=why)
        if limits.generation is not None and self._call is not None:
            since, call = self._call
            if now - since > limits.generation:
                return Timeout(kind="timeout", message=self._of_call(call, limits.generation))
        if self._history is not None:
            missing = self._done < self._total
            if why := stall_reason(self._history, now, limit=limits.stuck, missing=missing):
                return Timeout(kind="stuck", message=f"{why}; {self._so_far}")
        return None

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
