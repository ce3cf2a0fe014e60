"""Whether a cell is stuck, from what came of it so far: pure, its clock is the caller's.

**Silence.** Nothing came for longer than `limits.stuck`; where that is not set, for longer than
ten minutes and than twenty times the longest wait for a sample so far, which at least five
samples must have told. That holds only while samples are still to come: how long scoring takes
nobody can say.

**Collapse.** Samples come, each of them far too late: in each of the last steps (five or more,
two minutes or `limits.stuck` together) every measure of speed is below a twentieth of its median
before, and each took longer than any before. The measures are samples, prompt tokens, the square
of these, generated tokens, and generated tokens times the text before them, each per second.
Growing contexts, or longer answers, are no collapse: let a step take ``T = Σ cₖ·fₖ`` seconds,
with the five amounts ``fₖ`` of it and any costs ``cₖ ≥ 0``. Then ``cₖ·fₖ ≤ T`` in each step, so
that ``cₖ`` times the median of ``fₖ/T`` is 1 at most; where all five fall below a twentieth,
``Σ cₖ·fₖ < 5/20·T``, which is no ``T``. Whatever a sample costs by its length, only a machine
that became at least four times slower for the same work is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

PATIENCE = 600.0  # seconds of silence that are always allowed where no limit is set
TIMES_LONGEST = 20
FEWEST_SAMPLES = 5
COLLAPSED = 0.05  # of the speed before
COLLAPSE_LASTS = 120.0  # seconds
_SLOW_STEPS, _MOST_SLOW = 5, 50
_STEPS_BEFORE = 10
_MEMORY = 500  # steps
_STEP = 1.0  # seconds that a step lasts at least
_BURST = 0.05  # seconds between samples of one batch at most

Work = tuple[float, float, float, float, float]
_NOTHING: Work = (0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A stretch of time that ends with samples: a batch, or all that came within a second."""

    seconds: float
    work: Work  # of its samples

    @property
    def speeds(self) -> Sequence[float]:
        return [amount / self.seconds for amount in self.work]


class History:
    """What came of a cell since its benchmark began. Times are seconds on the caller's clock."""

    def __init__(self, began: float) -> None:
        self.samples = 0
        self.longest = 0.0  # seconds until a sample came
        self.last_sign = began  # of whatever kind
        self._last_sample = self._step_began = began
        self._open: Work = _NOTHING
        self._steps: deque[Step] = deque(maxlen=_MEMORY)

    def sign(self, now: float) -> None:
        """Something came that is no sample."""
        self.last_sign = now

    def sample(self, now: float, *, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        """A sample came."""
        if now - self._last_sample > _BURST and (step := self._step()):
            self._steps.append(step)
            self._open, self._step_began = _NOTHING, self._last_sample
        self.longest = max(self.longest, now - self._last_sample)
        self.samples += 1
        self.last_sign = self._last_sample = now
        p, g = float(prompt_tokens), float(completion_tokens)
        samples, prompts, squares, generated, products = self._open
        self._open = (
            samples + 1,
            prompts + p,
            squares + p * p,
            generated + g,
            products + g * (p + g),
        )

    def excuse(self, seconds: float) -> None:
        """Count these seconds for nothing: nobody listened."""
        self.last_sign += seconds
        self._last_sample += seconds
        self._step_began += seconds

    def steps(self) -> list[Step]:
        """The steps so far, the latest last."""
        step = self._step()
        return [*self._steps, step] if step else list(self._steps)

    def _step(self) -> Step | None:
        seconds = self._last_sample - self._step_began
        return Step(seconds=seconds, work=self._open) if seconds >= _STEP else None


def why_stuck(history: History, now: float, *, limit: float | None, left: bool) -> str:
    """Why the cell is stuck; ``""`` where it is not, or nothing says so.

    `limit` is ``limits.stuck`` (seconds, or None); `left` says that samples are known to be still
    to come.
    """
    silent = now - history.last_sign
    if limit is not None and silent > limit:
        return f"nothing came of it for {silent:.0f} s; limits.stuck is {limit:g} s"
    if not left:
        return ""
    allowed = max(PATIENCE, TIMES_LONGEST * history.longest)
    if limit is None and history.samples >= FEWEST_SAMPLES and silent > allowed:
        longest = f"the longest wait before was {history.longest:.3g} s"
        return f"no sample came for {silent:.0f} s; {longest} (limits.stuck sets a time for it)"
    return _collapsed(history.steps(), max(COLLAPSE_LASTS, limit or 0.0))


def _collapsed(steps: Sequence[Step], lasting: float) -> str:
    """The first split of the steps into usual and far too slow ones, in words; ``""`` for none."""
    seconds = 0.0
    for slow, step in enumerate(reversed(steps[_STEPS_BEFORE:]), start=1):
        before, after, seconds = steps[:-slow], steps[-slow:], seconds + step.seconds
        if seconds < lasting or slow < _SLOW_STEPS:
            continue
        if slow > _MOST_SLOW:
            break
        usual = [median(speeds) for speeds in zip(*(one.speeds for one in before), strict=True)]
        if _is_slow(after, usual, longest=max(one.seconds for one in before)):
            now = sum(one.work[0] for one in after) / seconds
            return (
                f"it became far too slow: {now * 60:.3g} samples a minute in the last "
                f"{seconds:.0f} s, and {usual[0] * 60:.3g} before, which the lengths of the texts "
                "do not explain"
            )
    return ""


def _is_slow(after: Sequence[Step], usual: Sequence[float], *, longest: float) -> bool:
    if not usual[1]:  # how long the prompts are is not told, so they may be what grew
        return False
    return all(
        step.seconds > longest
        and all(
            speed < COLLAPSED * was or not (speed or was)
            for speed, was in zip(step.speeds, usual, strict=True)
        )
        for step in after
    )
