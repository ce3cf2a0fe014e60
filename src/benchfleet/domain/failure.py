"""Why a cell did not end in success: stage × kind."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Stage = Literal["provision", "setup", "fit", "pull", "load", "benchmark", "collect"]
Kind = Literal[
    "oom",
    "timeout",
    "stuck",
    "slot_lost",
    "crash",
    "killed",
    "connection",
    "rate_limited",
    "server_unavailable",
    "server_died",
    "wrong_key",
    "bad_request",
    "try_again",
    "host_lost",
    "no_capacity",
    "instance_stopped",
    "ssh_failed",
    "wrong_hardware",
    "no_driver",
    "unhealthy",
    "gpu_fault",
    "model_not_found",
    "lora_not_applied",
    "dataset_missing",
    "missing_extra",
    "bad_result",
    "user_error",
    "disk_full",
    "interrupted",
    "error",
]
STAGES: tuple[Stage, ...] = get_args(Stage)
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The first true reason an attempt ended without a result; never overwritten."""

    stage: Stage
    kind: Kind
    message: str
    retryable: bool = False
    trace: str = ""  # the stack trace, where there is one
    log_tail: str = ""  # the last lines of the attempt's log
    retry_after_s: float = 0.0  # the next try is not before, by what a server asked for

    def to_dict(self) -> dict[str, Any]:
        """JSON values only; `retry_after_s` where there is one."""
        values = asdict(self)
        if not self.retry_after_s:
            del values["retry_after_s"]
        return values

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Failure:
        return cls(**value)

    def __str__(self) -> str:
        return f"{self.stage}: {self.kind} ({self.message})"
