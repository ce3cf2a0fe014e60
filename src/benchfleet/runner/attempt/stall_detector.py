"""Detects a benchmark that makes no progress, or whose throughput collapsed.

**No progress.** Nothing came for longer than `limits.stuck`. Without that limit: for longer than
ten minutes and than twenty times the longest wait so far, while samples are known to be missing.

**Collapse.** For two minutes (or `limits.stuck`, where that is longer), and in five steps or more,
samples took over twenty times as long as the median of earlier ones whose prompts and answers
were at least half as long. Longer texts are therefore never mistaken for a collapse: attention
makes a text of twice the length cost four times as much at most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import median

SILENCE_S = 600.0  # always allowed where no limit is set
TIMES_SLOWER = 20
MIN_SAMPLES = 5
COLLAPSE_S = 120.0
STEP_S = 1.0
_BATCH_GAP_S = 0.05  # between samples of one batch at most
_MAX_STEPS = 500


@dataclass(frozen=True, kw_only=True)
class Step:
    """The samples of a batch, or of a second: averages of one sample."""

    seconds: float  # of the whole step
    samples: int
    prompt: float  # tokens
    answer: float  # tokens

    @property
    def pace(self) -> float:
        """Seconds per sample."""
        return self.seconds / self.samples


class SampleHistory:
    """When samples of a benchmark came, and how long their texts were. Times are seconds on the
    caller's clock."""

    def __init__(self, began: float) -> None:
        self.samples = 0
        self.longest_wait = 0.0  # seconds until a sample came
        self.last_sign = began  # of any kind
        self.fastest = inf  # seconds per sample of the fastest step
        self._last_sample = self._step_began = began
        self._open = 0, 0, 0  # samples, and tokens of their prompts and answers
        self._steps: deque[Step] = deque(maxlen=_MAX_STEPS)

    def sign(self, now: float) -> None:
        """Record a sign of life that is no sample."""
        self.last_sign = now

    def sample(self, now: float, *, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        """Record a sample."""
        if now - self._last_sample > _BATCH_GAP_S and (step := self.open_step):
            self._steps.append(step)
            self.fastest = min(self.fastest, step.pace)
            self._open, self._step_began = (0, 0, 0), self._last_sample
        self.longest_wait = max(self.longest_wait, now - self._last_sample)
        self.samples += 1
        self.last_sign = self._last_sample = now
        samples, prompts, answers = self._open
        self._open = samples + 1, prompts + prompt_tokens, answers + completion_tokens

    def excuse(self, seconds: float) -> None:
        """Leave out these seconds: the runner itself was suspended."""
        self.last_sign += seconds
        self._last_sample += seconds
        self._step_began += seconds

    def steps(self) -> list[Step]:
        """The steps so far, the latest last."""
        return [*self._steps, self.open_step] if self.open_step else list(self._steps)

    @property
    def open_step(self) -> Step | None:
        """The step of the latest samples; None while it is too short."""
        seconds = self._last_sample - self._step_began
        if seconds < STEP_S:
            return None
        samples, prompts, answers = self._open
        mean_prompt, mean_answer = prompts / samples, answers / samples
        return Step(seconds=seconds, samples=samples, prompt=mean_prompt, answer=mean_answer)


def stall_reason(history: SampleHistory, now: float, *, limit: float | None, missing: bool) -> str:
    """Why the benchmark counts as stuck; ``""`` if it does not.

    `limit` is ``limits.stuck`` in seconds; `missing` says that samples are known to be missing.
    """
    silent = now - history.last_sign
    if limit is not None and silent > limit:
        return f"nothing came of it for {silent:.0f} s; limits.stuck is {limit:g} s"
    if not missing or history.samples < MIN_SAMPLES:
        return ""
    if limit is None and silent > max(SILENCE_S, TIMES_SLOWER * history.longest_wait):
        longest = f"the longest wait before was {history.longest_wait:.3g} s"
        return f"no sample came for {silent:.0f} s; {longest} (limits.stuck sets a time for it)"
    latest = history.open_step
    if latest is None or latest.pace <= TIMES_SLOWER * history.fastest:  # the usual case, quickly
        return ""
    return _collapse_reason(history.steps(), max(COLLAPSE_S, limit or 0.0))


def _collapse_reason(steps: Sequence[Step], lasting: float) -> str:
    recent, seconds = 0, 0.0
    while seconds < lasting or recent < MIN_SAMPLES:
        if recent == len(steps):
            return ""
        recent += 1
        seconds += steps[-recent].seconds
    earlier, slow = steps[:-recent], steps[-recent:]
    if not all(_is_slow(step, earlier) for step in reversed(slow)):
        return ""
    pace = seconds / sum(step.samples for step in slow)
    usual = median(step.pace for step in earlier)
    return (
        f"its throughput collapsed: {60 / pace:.3g} samples a minute in the last {seconds:.0f} s, "
        f"and {60 / usual:.3g} before"
    )


def _is_slow(step: Step, earlier: Sequence[Step]) -> bool:
    """Whether it took far longer than earlier ones with comparable or longer texts."""
    prompt, answer = step.prompt / 2, step.answer / 2
    comparable = [one.pace for one in earlier if one.prompt >= prompt and one.answer >= answer]
    if not prompt or len(comparable) < MIN_SAMPLES:  # not every benchmark reports lengths
        return False
    return step.pace > TIMES_SLOWER * median(comparable)
