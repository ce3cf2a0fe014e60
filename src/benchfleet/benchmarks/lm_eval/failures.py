"""What may go wrong while a task of lm-eval is built, and the failure that says what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb

from benchfleet.domain.failure import Kind
from benchfleet.environment import without_token
from benchfleet.errors import CellFailure

from .dataset import RemoteData


@contextmanager
def named_failures(name: str, remote: RemoteData | None) -> Iterator[None]:
    """Say what a task lacks that cannot be built."""
    try:
        yield
    except ImportError as error:
        message = f"{name} needs a package that is not installed: {error}"
        raise failure("missing_extra", message) from error
    except Exception as error:
        detail = _detail(error)
        lacks = isinstance(error, OSError) or (isinstance(error, ValueError) and "cache" in detail)
        if _disk_is_full(error):
            raise failure("disk_full", f"no room for the data of {name}: {detail}") from error
        if isinstance(error, (ValueError, KeyError, TypeError, StopIteration)) and not lacks:
            raise failure("user_error", f"{name} cannot be built: {detail}") from error
        if remote is None or not _while_loading(error):
            if not lacks:  # a function of the task's own
                raise
            message = f"the data of {name} cannot be read ({detail}); see its dataset_path"
            raise failure("dataset_missing", message) from error
        if isinstance(error, FileNotFoundError):
            message = (
                f"{name} cannot have the data set {remote}: {detail} Where it is private or gated, "
                "ask for access on its page and set HF_TOKEN"
            )
            raise failure("dataset_missing", message) from error
        if isinstance(error, (ConnectionError, ValueError)):
            print(f"to fetch it where there is a network: {remote.command()}\n{detail}")
            message = remote.way_out("cannot be fetched")
            raise failure("dataset_missing", message) from error
        message = f"fetching the data set {remote} of {name} broke off: {detail}"
        raise failure("dataset_missing", message, retryable=True) from error


def _detail(error: Exception) -> str:
    """What an error of lm-eval or `datasets` means, with what to do where its text says nothing."""
    text = " ".join(without_token(str(error)).split())
    if isinstance(error, KeyError):
        return f"its data or settings have no {text}; correct the split or column in its YAML file"
    if isinstance(error, StopIteration):
        return "a split of its data holds no document; correct the splits in its YAML file"
    return text if text not in ("", "None") else f"{type(error).__name__}; the log says more"


def _while_loading(error: BaseException) -> bool:
    """Whether it came out of `datasets`, which lets through what its network libraries raise."""
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    return any(frame.f_globals.get("__name__") == "datasets.load" for frame in frames)


def _disk_is_full(error: BaseException | None) -> bool:
    """Whether that is what lies behind it; `datasets` wraps what it meets."""
    while error is not None:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return True
        error = error.__cause__
    return False


def failure(kind: Kind, message: str, *, retryable: bool = False) -> CellFailure:
    return CellFailure(stage="benchmark", kind=kind, message=message, retryable=retryable)
