"""Tasks of Inspect as files, and an adapter that answers them in a fixed way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchfleet.errors import CellFailure
from benchfleet.models.base import Answer, Prompt

TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, solver, use_tools
from inspect_ai.tool import bash


@solver
def fail_at(bad):
    async def solve(state, generate):
        if state.sample_id in bad:
            raise ValueError("this sample is broken")
        return state

    return solve


@task
def addition(count=4, bad=(), tools=False, texts=None):
    rows = [Sample(input=f"{n} + {n} =", target=str(2 * n)) for n in range(count)]
    if texts is not None:
        rows = [Sample(input=text, target="x") for text in texts]
    solvers = [fail_at(bad), *([use_tools(bash())] if tools else []), generate()]
    config = GenerateConfig(max_tokens=8, temperature=0)
    return Task(dataset=rows, solver=solvers, scorer=includes(), config=config)
"""
ROOT_MEAN_SQUARE = """
from math import sqrt
from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import SampleScore, Score, metric, scorer
from inspect_ai.solver import generate


@metric
def root_mean_square():
    def compute(scores: list[SampleScore]) -> float:
        return sqrt(sum(one.score.as_float() ** 2 for one in scores) / len(scores))

    return compute


@scorer(metrics=[root_mean_square()])
def fifth():
    async def score(state, target):
        return Score(value=float(int(target.text) ** 2 % 7))

    return score


@task
def squares(epochs=1):
    rows = [Sample(input=f"{n}", target=str(n)) for n in range(20)]
    return Task(dataset=rows, solver=generate(), scorer=fifth(), epochs=epochs)
"""


class Scripted:
    """Answers with the number of its call, and keeps what it was asked."""

    independent = False
    requests_at_once = 1

    def __init__(self, *, fails_at: int | None = None) -> None:
        self.asked: list[Prompt] = []
        self.generations: list[Mapping[str, Any]] = []
        self._fails_at = fails_at

    def answer(self, prompts: Sequence[Prompt], generation: Mapping[str, Any]) -> list[Answer]:
        if self._fails_at is not None and len(self.asked) >= self._fails_at:
            raise CellFailure(stage="benchmark", kind="oom", message="too little", retryable=True)
        self.asked += prompts
        self.generations.append(generation)
        text = str(2 * (len(self.asked) - 1))
        return [Answer(text=text, completion_tokens=1, measures={"density": 0.5}) for _ in prompts]
