"""Every error benchfleet raises on purpose.

BenchfleetError
├── CampaignError        the campaign file or the command line is wrong; a ValueError, too
├── PluginError          the class of that name is no plugin of its family
│   ├── UnknownName          no plugin of that name; lists the near ones
│   └── MissingExtra         a plugin needs packages that are not installed
├── DeviceError          a device asked for is absent or unfit
│   └── NoGpu                there is none on this machine at all
├── ResultsError         the results tree cannot be written or read
│   └── StoreUnreachable     the result store cannot be reached; a retry may succeed
├── ExportError          another tool does not take the exported results, or is away
├── LedgerError          the ledger cannot be used
│   ├── LedgerAbsent         there is none yet at its address
│   ├── LedgerMisnamed       its address is wrong, or fits several; wrong usage
│   ├── LedgerUnreachable    it cannot be opened or written
│   │   ├── LedgerDamaged        what it holds cannot be read any more
│   │   ├── LedgerFull           its disk takes no more
│   │   └── LedgerAway           its server does not answer for now
│   └── LedgerTooNew         a newer benchfleet wrote it
├── GitError             git cannot do what was asked
│   ├── GitAway              the remote cannot be reached now, or has not answered
│   │   └── GitKilled        something else ended the git command
│   └── GitDenied            the remote does not let us
├── ClaimLost            the lease is no longer held; its writer publishes nothing
├── Superseded           another event came first; read again, then decide again
├── ProtocolError        the other end of a slot's channel speaks something else
└── CellFailure          a cell ended without a result: stage, kind, retryable
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar


class BenchfleetError(Exception):
    """Something went wrong that benchfleet can name."""

    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """One thing wrong in a campaign: where it stands, and what to do about it."""

    key: str  # dotted path, such as matrix.models[2].needs.vram; "" for the whole file
    message: str
    line: int | None = None  # 1 for the first; None where the source has no lines


class CampaignError(BenchfleetError, ValueError):
    """The campaign cannot be run as it stands."""

    def __init__(
        self, file: str, mistakes: list[Mistake], *, campaign: str = "", results: Path | None = None
    ) -> None:
        self.file = file
        self.mistakes = mistakes
        self.campaign, self.results = campaign, results  # its name and folder, where they are right
        super().__init__(self._drawn())

    def _drawn(self) -> str:
        count = f"{len(self.mistakes)} mistake{'s' if len(self.mistakes) != 1 else ''}"
        lines = [f"{self.file}: {count}, nothing was run"]
        rows = [
            (f"line {m.line}" if m.line is not None else "", m.key, m.message)
            for m in self.mistakes
        ]
        line_width = max((len(row[0]) for row in rows), default=0)
        middle = max((len(row[1]) for row in rows), default=0)
        for where, key, message in rows:
            lead = f"  {where:<{line_width}}  {key:<{middle}}  "
            lines.append(lead + message.replace("\n", "\n" + " " * len(lead)))
        return "\n".join(lines)


class PluginError(BenchfleetError):
    """A plugin does not derive from the base class of its family."""


def wrong_option(key: str, message: str) -> CampaignError:
    """The error of one mistake on the command line."""
    return CampaignError("command line", [Mistake(key=key, message=message)])


class UnknownName(PluginError):
    """No plugin has that name."""


class MissingExtra(PluginError):
    """A plugin needs packages that are not installed."""


class DeviceError(BenchfleetError):
    """A device that was asked for cannot be used."""


class NoGpu(DeviceError):
    """There is no GPU on this machine, nor the means to ask for one."""


class ResultsError(BenchfleetError):
    """The results folder cannot be used."""


class StoreUnreachable(ResultsError):
    """The result store cannot be reached now."""

    retryable = True


class ExportError(BenchfleetError):
    """Results cannot be exported to another tool."""


class LedgerError(BenchfleetError):
    """The ledger cannot be used."""


class LedgerAbsent(LedgerError):
    """There is no ledger yet where one was looked for."""


class LedgerMisnamed(LedgerError):
    """The address of the ledger is written wrongly, or does not say which ledger is meant."""


class LedgerUnreachable(LedgerError):
    """The ledger cannot be opened."""

    retryable = True


class LedgerDamaged(LedgerUnreachable):
    """The ledger's file is empty, malformed or no database at all."""

    retryable = False


class LedgerFull(LedgerUnreachable):
    """The disk that the ledger lies on takes no more."""


class LedgerAway(LedgerUnreachable):
    """The server that the ledger lies on does not answer for now."""


class LedgerTooNew(LedgerError):
    """The ledger was written by a newer benchfleet."""


class GitError(BenchfleetError):
    """Git cannot do what was asked."""


class GitAway(GitError):
    """The remote repository cannot be reached now."""

    retryable = True


class GitKilled(GitAway):
    """A signal ended the git command, so nobody knows how far it came.

    A batch system signals all processes of a job at once.
    """


class GitDenied(GitError):
    """The remote repository does not let us."""


class PushRejected(GitDenied):
    """The remote repository rejects a push, for example by a hook; it may take a later one."""


class ClaimLost(BenchfleetError):
    """The lease is no longer held, so nothing may be published under it."""


class Superseded(BenchfleetError):
    """Another event of the same subject came first, so this one was not recorded."""


class ProtocolError(BenchfleetError):
    """The other end of the channel does not speak benchfleet's frames."""


class CellFailure(BenchfleetError):
    """A cell ended without a result, at a stage and for a reason that has a name."""

    filtered: bool = False  # a server's content filter refused the request

    def __init__(
        self,
        *,
        stage: str,
        kind: str,
        message: str,
        retryable: bool = False,
        retry_after_s: float = 0.0,  # not before, by what a server asked for
    ) -> None:
        self.stage = stage
        self.kind = kind
        self.is_retryable = retryable
        self.retry_after_s = retry_after_s
        super().__init__(message)

    def with_message(self, message: str, *, stage: str = "") -> CellFailure:
        """The same failure with other words, and of another stage where one is named."""
        return CellFailure(
            stage=stage or self.stage,
            kind=self.kind,
            message=message,
            retryable=self.is_retryable,
            retry_after_s=self.retry_after_s,
        )
