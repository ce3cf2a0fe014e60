"""lm-eval itself: a task built with its data, and one evaluation of it on a loaded model."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from traceback import walk_tb
from typing import Any

from benchfleet.benchmarks.base import Session
from benchfleet.domain.failure import Kind
from benchfleet.environment import without_token
from benchfleet.errors import CellFailure
from benchfleet.models.base import Loan, ServedModel

from .answers import Answers
from .dataset import RemoteData, alone_on_this_host
from .tasks import TaskFile, built_in_file, remote_data_of

_GENERATION = {
    "max_new_tokens": "max_gen_toks",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "repetition_penalty": "repetition_penalty",
    "stop": "until",
}
_SEED = 1234  # lm-eval's own for few-shot examples and sampled answers; its own for `random` is 0


@contextmanager
def without_local_rank() -> Iterator[None]:
    """lm-eval gives nothing back in a process that it takes for one of many."""
    rank = os.environ.pop("LOCAL_RANK", None)
    try:
        yield
    finally:
        if rank is not None:
            os.environ["LOCAL_RANK"] = rank


def build_task(
    name: str, own: TaskFile | None, session: Session, pretrained: str, settings: Mapping[str, Any]
) -> Any:
    """The task with its data, set as the campaign says. Raises CellFailure where it cannot be."""
    # Tasks that make their data for a tokenizer, as RULER's do, look for it under `pretrained`.
    metadata = {"pretrained": pretrained, **(settings["metadata"] or {})}
    remote = remote_data_of(name, own)
    if remote and (
        missing := remote.missing_message(os.environ) or remote.unreachable_message(os.environ)
    ):
        print(f"to fetch it where there is a network: {remote.command()}")
        raise _failure("dataset_missing", missing)
    with (
        alone_on_this_host(remote),
        _named_failures(name, remote),
        TemporaryDirectory() as folder,
    ):
        from lm_eval.tasks import TaskManager

        if own is None:
            file = built_in_file(name)
        else:
            file = Path(folder, "task.yaml")
            file.write_text(own.standalone_yaml(), encoding="utf-8")
        manager = TaskManager(include_defaults=file is None, metadata=metadata)
        (task,) = manager.load([str(file or name)])["tasks"].values()
    if getattr(task, "UNSAFE_CODE", False):
        raise _failure("user_error", f"{name} runs code that the model writes; leave it out")
    generation = _generation(session)
    if generation and task.get_config("output_type") == "generate_until":
        task.set_config(key="generation_kwargs", value=generation, update=True)
    own_shots, shots = task.get_config("num_fewshot"), settings["num_fewshot"]
    if own_shots is None or (own_shots and shots is not None):  # a task that says 0 means it
        task.set_config(key="num_fewshot", value=shots or 0)
    task.set_fewshot_seed(seed=_SEED + session.repeat)
    return task


def evaluate_task(
    task: Any,
    session: Session,
    loan: Loan,
    settings: Mapping[str, Any],
    *,
    clock: Callable[[], float],
) -> Mapping[str, Any]:
    """What lm-eval's `evaluate` says of the task, with every answer recorded as it came.

    Raises CellFailure, and what the session or the model does.
    """
    from .resumable_model import ResumedLM

    if settings["apply_chat_template"] and not loan.tokenizer.chat_template:
        raise _failure("user_error", "this model has no chat template; remove apply_chat_template")
    tokenizer, add_bos = loan.tokenizer, settings["add_bos_token"]
    if add_bos is not None:  # lm-eval passes it on only where it loads the tokenizer itself
        from transformers import AutoTokenizer

        kwargs = {**session.model.tokenizer_kwargs, "add_bos_token": add_bos}
        folder = tokenizer.name_or_path
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, **kwargs)
    lm = ResumedLM(
        session=session,
        pretrained=loan.model,
        tokenizer=tokenizer,
        backend="causal",
        batch_size=session.batch_size,
        add_bos_token=add_bos,
        max_length=settings["max_length"],
    )
    answers = Answers(
        task=task,
        session=session,
        tokens=lambda text, **kwargs: len(lm.tok_encode(text, **kwargs)),
        measures=loan.measures,
        clock=clock,
    )
    return _evaluate(task, session, lm, answers, settings)


def evaluate_served(
    task: Any,
    session: Session,
    served: ServedModel,
    settings: Mapping[str, Any],
    *,
    clock: Callable[[], float],
) -> Mapping[str, Any]:
    """As `evaluate_task`, of a model behind a server, by lm-eval's API models."""
    from .served_model import served_lm

    if served.api == "chat" and not settings["apply_chat_template"]:
        message = (
            "a chat server needs apply_chat_template: true; or give the model api: completions"
        )
        raise _failure("user_error", message)
    generates = task.get_config("output_type") == "generate_until"
    lm = served_lm(session, served, generates=generates, max_length=settings["max_length"])
    counts = lm.tokenizer is not None

    def tokens(text: str, **kwargs: Any) -> int:
        return len(lm.tok_encode(text, **kwargs)) if counts else 0

    answers = Answers(task=task, session=session, tokens=tokens, measures=dict, clock=clock)
    return _evaluate(task, session, lm, answers, settings)


def _evaluate(
    task: Any, session: Session, lm: Any, answers: Answers, settings: Mapping[str, Any]
) -> Mapping[str, Any]:
    from lm_eval import evaluate

    lm.set_cache_hook(answers)
    total = len(task.eval_docs)
    session.expect(total if session.limit is None else min(total, session.limit))
    _seed(session)
    # Not simple_evaluate, which beyond this asks the machine about itself for 1.3 s each time.
    results: Mapping[str, Any] = evaluate(
        lm,
        {"tasks": {task.task_name: task}},
        limit=session.limit,
        bootstrap_iters=0,
        log_samples=True,
        system_instruction=settings["system_instruction"],
        apply_chat_template=settings["apply_chat_template"],
        fewshot_as_multiturn=settings["fewshot_as_multiturn"],
    )
    answers.finish()
    return results


def _generation(session: Session) -> dict[str, Any]:
    """The session's generation settings in lm-eval's words: over those of the task itself."""
    settings: dict[str, Any] = {}
    for name, value in session.generation.items():
        if name in _GENERATION:
            settings[_GENERATION[name]] = value
        elif name != "seed":
            names = ", ".join((*_GENERATION, "seed"))
            raise _failure("user_error", f"no generation setting {name!r} for lm-eval; use {names}")
    if "temperature" in settings:
        settings["do_sample"] = settings["temperature"] > 0
    return settings


def _seed(session: Session) -> None:
    """Chance as lm-eval has it in the first repeat, and another in each of the others."""
    import numpy
    import torch

    random.seed(session.repeat)
    numpy.random.seed(_SEED + session.repeat)
    named = session.generation.get("seed", session.seed)
    torch.manual_seed(_SEED + session.repeat if named == session.seed else named)


@contextmanager
def _named_failures(name: str, remote: RemoteData | None) -> Iterator[None]:
    """Say what a task lacks that cannot be built."""
    try:
        yield
    except ImportError as error:
        message = f"{name} needs a package that is not installed: {error}"
        raise _failure("missing_extra", message) from error
    except Exception as error:
        detail = _detail(error)
        lacks = isinstance(error, OSError) or (isinstance(error, ValueError) and "cache" in detail)
        if _disk_is_full(error):
            raise _failure("disk_full", f"no room for the data of {name}: {detail}") from error
        if isinstance(error, (ValueError, KeyError, TypeError, StopIteration)) and not lacks:
            raise _failure("user_error", f"{name} cannot be built: {detail}") from error
        if remote is None or not _while_loading(error):
            if not lacks:  # a function of the task's own
                raise
            message = f"the data of {name} cannot be read ({detail}); see its dataset_path"
            raise _failure("dataset_missing", message) from error
        if isinstance(error, FileNotFoundError):
            message = (
                f"{name} cannot have the data set {remote}: {detail} Where it is private or gated, "
                "ask for access on its page and set HF_TOKEN"
            )
            raise _failure("dataset_missing", message) from error
        if isinstance(error, (ConnectionError, ValueError)):
            print(f"to fetch it where there is a network: {remote.command()}\n{detail}")
            message = remote.way_out("cannot be fetched")
            raise _failure("dataset_missing", message) from error
        message = f"fetching the data set {remote} of {name} broke off: {detail}"
        raise _failure("dataset_missing", message, retryable=True) from error


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


def _failure(kind: Kind, message: str, *, retryable: bool = False) -> CellFailure:
    return CellFailure(stage="benchmark", kind=kind, message=message, retryable=retryable)
