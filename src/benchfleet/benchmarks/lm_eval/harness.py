"""lm-eval itself: a task built with its data, and one evaluation of it on a loaded model."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchfleet.benchmarks.base import Session
from benchfleet.domain.question_draws import seed_of_draw
from benchfleet.models.base import Loan, ServedModel

from .answers import Answers
from .dataset import RemoteData, alone_on_this_host
from .failures import failure, named_failures
from .needs import Need
from .parts import ContextEnd, PartSession
from .ranges import only
from .tasks import TaskFile, built_in_file

_GENERATION = {
    "max_new_tokens": "max_gen_toks",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "repetition_penalty": "repetition_penalty",
    "stop": "until",
}
_NO_TEMPLATE = "this model has no chat template; remove apply_chat_template"
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
    name: str,
    own: TaskFile | None,
    session: Session,
    pretrained: str,
    settings: Mapping[str, Any],
    needs: Sequence[Need] = (),
) -> Any:
    """The task with its data, set as the campaign says. Raises CellFailure where it cannot be.

    `needs` are what it may have to fetch.
    """
    # Tasks that make their data for a tokenizer, as RULER's do, look for it under `pretrained`.
    metadata = {"pretrained": pretrained, **(settings["metadata"] or {})}
    for need in needs:
        missing = need.missing_message(os.environ) or need.unreachable_message(os.environ)
        if missing:
            print(f"to fetch it where there is a network: {need.command()}")
            raise failure("dataset_missing", missing)
    first = next((need for need in needs if isinstance(need, RemoteData)), None)
    seed_chance(session)  # as lm-eval's own run, which draws rows and choices while it builds
    with (
        alone_on_this_host(first),
        named_failures(name, first),
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
        raise failure(
            "user_error", f"{name} runs code that the model writes, without a sandbox; leave it out"
        )
    generation = _generation(session)
    if generation and task.get_config("output_type") == "generate_until":
        task.set_config(key="generation_kwargs", value=generation, update=True)
    own_shots, shots = task.get_config("num_fewshot"), settings["num_fewshot"]
    if own_shots is None or (own_shots and shots is not None):  # a task that says 0 means it
        task.set_config(key="num_fewshot", value=shots or 0)
    seed_shots(task, session)
    return task


def seed_shots(task: Any, session: Session) -> None:
    """Let the task draw its few-shot examples from the beginning: the same for each draw."""
    task.set_fewshot_seed(seed=_SEED + session.repeat)


def warn_of_equal_answers(tasks: Sequence[Any], session: Session) -> None:
    """Say so if several answers to each question are the same, since no task draws its texts. Of a
    temperature that the campaign sets, ``plan`` and ``run`` warn."""
    count = session.samples_per_question
    if count > 1 and "temperature" not in session.generation and all(map(_is_greedy, tasks)):
        session.notice(
            f"{count} answers to each question are the same: the task is asked at temperature 0; "
            "set generation: {temperature: 0.7}"
        )


def _is_greedy(task: Any) -> bool:
    settings = task.get_config("generation_kwargs") or {}
    samples = settings.get("do_sample")
    drawn = samples or (samples is None and settings.get("temperature"))
    return task.get_config("output_type") == "generate_until" and not drawn


def takes_one_token(task: Any, session: Session) -> bool:
    """Whether answers of one token are whole: the task itself asks for no more."""
    settings = task.get_config("generation_kwargs") or {}
    return settings.get("max_gen_toks") == 1 and "max_new_tokens" not in session.generation


def evaluate_task(
    task: Any,
    session: PartSession,
    loan: Loan,
    settings: Mapping[str, Any],
    *,
    clock: Callable[[], float],
) -> Mapping[str, Any]:
    """What lm-eval's `evaluate` says of the task, with every answer recorded as it came; nothing
    of a part of a cell.

    Raises CellFailure, and what the session or the model does.
    """
    from .resumable_model import ResumedLM

    if settings["apply_chat_template"] and not loan.tokenizer.chat_template:
        raise failure("user_error", _NO_TEMPLATE)
    tokenizer, add_bos = loan.tokenizer, settings["add_bos_token"]
    if add_bos is not None:  # lm-eval passes it on only where it loads the tokenizer itself
        tokenizer = _opened(tokenizer.name_or_path, session, add_bos_token=add_bos)
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
        takes_length=takes_one_token(task, session),
        session=session,
        tokens=lambda text, **kwargs: len(lm.tok_encode(text, **kwargs)),
        is_cut=lm.is_cut,
        measures=loan.measures,
        details=lm.details,
        clock=clock,
    )
    return _evaluate(task, session, lm, answers, settings)


def _opened(tokenizer: str, session: Session, **kwargs: Any) -> Any:
    from transformers import AutoTokenizer

    kwargs = {**session.model.tokenizer_kwargs, **kwargs}
    return AutoTokenizer.from_pretrained(tokenizer, local_files_only=True, **kwargs)


def evaluate_served(
    task: Any,
    session: PartSession,
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
        raise failure("user_error", message)
    generates = task.get_config("output_type") == "generate_until"
    length, add_bos = settings["max_length"], settings["add_bos_token"]
    lm = served_lm(session, served, generates=generates, max_length=length, add_bos=add_bos)
    lm._seed = seed_of_draw(lm._seed, session.draw)
    counts = lm.tokenizer is not None

    def tokens(text: str, **kwargs: Any) -> int:
        return len(lm.tok_encode(text, **kwargs)) if counts else 0

    answers = Answers(
        task=task,
        takes_length=takes_one_token(task, session),
        session=session,
        tokens=tokens,
        measures=dict,
        details=lm.details,
        clock=clock,
    )
    return _evaluate(task, session, lm, answers, settings)


def evaluate_prompted(
    task: Any,
    session: PartSession,
    context_end: ContextEnd,
    settings: Mapping[str, Any],
    *,
    clock: Callable[[], float],
) -> Mapping[str, Any]:
    """As `evaluate_task`, of answers of the session's adapter to contexts and questions."""
    from .prompted_model import PromptedLM

    tokenizer = None
    if settings["apply_chat_template"] and session.config.chat is None:
        tokenizer = _opened(session.model_path, session)
        if not tokenizer.chat_template:
            raise failure("user_error", _NO_TEMPLATE)
    lm = PromptedLM(session=session, context_end=context_end, tokenizer=tokenizer)
    answers = Answers(
        task=task,
        takes_length=takes_one_token(task, session),
        session=session,
        tokens=lm.tokens,
        measures=lm.measures,
        details=lm.details,
        context=lm.context,
        clock=clock,
    )
    return _evaluate(task, session, lm, answers, settings)


def document_count(task: Any, limit: int | None) -> int:
    """How many documents of a task are asked."""
    total = len(task.eval_docs)
    return total if limit is None else min(total, limit)


def _evaluate(
    task: Any, session: PartSession, lm: Any, answers: Answers, settings: Mapping[str, Any]
) -> Mapping[str, Any]:
    from lm_eval import evaluate

    from .preview import show_requests
    from .prompted_model import PromptedLM

    lm.set_cache_hook(answers)
    if session.show and not isinstance(lm, PromptedLM):  # which asks the session's adapter
        show_requests(lm, session.show)
    seed_chance(session, session.draw)
    results: Mapping[str, Any] = {}
    with only(task, session.documents) if session.part else nullcontext():
        # Not simple_evaluate, which beyond this asks the machine about itself for 1.3 s each time.
        results = evaluate(
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
            raise failure("user_error", f"no generation setting {name!r} for lm-eval; use {names}")
    if "temperature" in settings:
        settings["do_sample"] = settings["temperature"] > 0
    return settings


def seed_chance(session: Session, draw: int = 0) -> None:
    """Chance as lm-eval has it in the first repeat, and another in each of the others."""
    import numpy
    import torch

    random.seed(session.repeat)
    numpy.random.seed(_SEED + session.repeat)
    own = session.generation.get("seed", session.seed)
    torch.manual_seed(seed_of_draw(_SEED + session.repeat if own == session.seed else own, draw))
