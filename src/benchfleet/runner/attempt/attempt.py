"""One attempt as the runner sees it, and how it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from benchfleet.domain.attempt import Claim
from benchfleet.domain.failure import Failure, Stage
from benchfleet.domain.telemetry import Telemetry
from benchfleet.domain.token_price import TokenPrice
from benchfleet.domain.usage import Rate, Usage
from benchfleet.engines.base import Done, SlotSpec
from benchfleet.results.write import AttemptFolder
from benchfleet.runner.attempt.joined import Joined
from benchfleet.runner.attempt.retry_policy import AttemptMemory
from benchfleet.runner.attempt.timeouts import AttemptTimeouts


@dataclass(kw_only=True)
class Attempt:
    """A claimed cell on its slot."""

    claim: Claim
    folder: AttemptFolder
    spec: SlotSpec
    recorded: bytes  # samples of earlier attempts, already in this one's file
    host: str
    device: str
    began: float  # on the inbox's clock
    provenance: Mapping[str, Any]  # of its host, where that is not this machine
    timeouts: AttemptTimeouts
    loads: bool = False  # its slot had another model in memory, or none
    stage: Stage = "load"
    done: int = 0  # samples
    before: int = 0  # of these, that earlier attempts had answered
    had: AttemptMemory = field(default_factory=AttemptMemory)  # when it ended
    cancelled: bool = False
    kill_at: float = inf  # on the inbox's clock; by then it is to have stopped
    # what its slot holds of its machine, and what that costs
    rate: Rate = field(default_factory=Rate)
    took: float = 0.0  # seconds, when it ended
    tokens: tuple[int, int] = (0, 0)  # of prompts and answers that it recorded
    telemetry: Telemetry = field(default_factory=Telemetry)
    checkpoint: Mapping[str, float] = field(default_factory=dict)  # measured so far
    rescored: bool = False  # what earlier attempts answered was scored, and nothing was asked
    joined: Joined | None = None  # what the parts of its cell recorded

    @property
    def key(self) -> str:
        """How slots name it: ``<fingerprint>/<attempt>-<token>``."""
        lease = self.claim.lease
        return f"{lease.fingerprint}/{lease.attempt}-{lease.token}"

    def seconds(self, own: Mapping[str, float]) -> Mapping[str, float]:
        """The seconds of each stage: its own, and those of the cell's parts."""
        return Counter(self.joined.seconds) + Counter(own) if self.joined else own

    @property
    def usage(self) -> Usage:
        """What it used up."""
        telemetry = self.telemetry
        peaks = {"ram": telemetry.ram, "gpu_memory": telemetry.gpu_memory}
        if self.joined:  # what they cost is in their own outcomes
            peaks = {
                name: max(peak, self.joined.peaks.get(name, 0)) for name, peak in peaks.items()
            }
        usage = Usage.at(self.rate, self.took, joules=telemetry.joules, **peaks)
        price = TokenPrice.of(self.claim.cell.model.outside)
        if price is None:
            return usage
        return usage.with_tokens(self.tokens[1], price.cost(*self.tokens), price.currency)


@dataclass(frozen=True, kw_only=True)
class EndedAttempt:
    """An attempt and how it ended."""

    attempt: Attempt
    how: Done | Failure
    seconds: Mapping[str, float]

    @property
    def path(self) -> str:
        return self.attempt.claim.path
