"""What comes before a model is loaded: whether its weights fit, and pulling it from the hub.

A pull has a limit of its own, by its size. The runner ends an attempt that exceeds it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from benchfleet.domain.cell import Model
from benchfleet.domain.failure import Stage
from benchfleet.domain.humanize import gigabytes
from benchfleet.domain.telemetry import Reading
from benchfleet.download import Download
from benchfleet.environment import offline
from benchfleet.errors import CellFailure
from benchfleet.machines.memory import Checkpoint, checkpoint_of_size, read_checkpoint
from benchfleet.models.base import Adapter, adapter_class
from benchfleet.models.fetch import HubModel

PULL_LIMIT_S = 1800.0
_PULL_BYTES_PER_S = 5e6  # that are expected at least
_UNKNOWN_SIZE_BYTES = 50 * 10**9
_SPREAD = {"device_map", "max_memory", "offload_folder"}  # kwargs that put weights elsewhere, too

Begin = Callable[[Stage, float | None], None]  # a stage, and its limit in seconds


def free_gpu_memory(reading: Reading) -> int:
    """Bytes that are free on the GPUs of a slot; 0 if it has none, or one cannot be measured."""
    pairs = [(gpu.total, gpu.memory) for gpu in reading.gpus]
    free = [total - used for total, used in pairs if total is not None and used is not None]
    return sum(free) if len(free) == len(pairs) else 0


def prepare_model(model: Model, *, begin: Begin, free: int) -> bool:
    """Bring what the model lacks to this host; whether it lacked anything. `free`: bytes that its
    GPUs have; 0: it uses none, or nobody knows. `begin` is called for each further stage.

    Raises CellFailure of stage ``fit`` or ``pull``, and OSError.
    """
    kind = adapter_class(model.adapter)
    missing: Sequence[Download] = ()
    if not offline(os.environ):  # else `load` says what is missing
        missing = [one for one in kind.downloads(model) if not one.is_here(os.environ)]
    if free and not _SPREAD.intersection(model.kwargs):
        _check_fit(model, kind, missing, free)
    for one in missing:
        size = one.size(os.environ) or _UNKNOWN_SIZE_BYTES
        begin("pull", PULL_LIMIT_S + size / _PULL_BYTES_PER_S)
        try:
            one.fetch(os.environ)
        except ValueError as error:
            raise CellFailure(stage="pull", kind="model_not_found", message=str(error)) from error
        except ImportError as error:
            message = f"{error}; pip install 'benchfleet[hf]' brings what fetches models"
            raise CellFailure(stage="pull", kind="missing_extra", message=message) from error
    if missing:
        begin("load", None)
    return bool(missing)


def _check_fit(model: Model, kind: type[Adapter], missing: Sequence[Download], free: int) -> None:
    """Raise CellFailure if the weights alone take more than is free. What nobody knows fits."""
    try:
        checkpoint = _checkpoint(model, kind, missing)
        size = checkpoint.weights(device="gpu", model_kwargs=model.kwargs) if checkpoint else 0
    except (ValueError, OSError):
        return
    if size > free:
        message = (
            f"its weights take {gigabytes(size)}, and its GPUs have {gigabytes(free)} free; use "
            "larger GPUs, or quantise the model"
        )
        raise CellFailure(stage="fit", kind="oom", message=message, retryable=True)


def _checkpoint(
    model: Model, kind: type[Adapter], missing: Sequence[Download]
) -> Checkpoint | None:
    """What is known of the weights; None if the adapter opens no such folder, or none is known."""
    for one in missing:
        if isinstance(one, HubModel):
            size, config = one.weights(os.environ)
            return checkpoint_of_size(size, config) if size else None
    folder = kind.checkpoint(model.source)
    return read_checkpoint(folder) if folder else None
