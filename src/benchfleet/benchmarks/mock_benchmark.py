"""Reading comprehension over five built-in rows: the smallest benchmark that is a real one.

With the mock adapter it is a cell that costs next to nothing, by which the speed of benchfleet
itself is measured; with a real model it tells in seconds whether a campaign is set up right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from benchfleet.models.base import Prompt

from .base import Record, Sample, SampleBenchmark, Score
from .parameters import whole_number, with_defaults
from .scoring import averaged, mean

_ROWS = (
    (
        "The lighthouse at Fallow Point was built in 1871. Its lamp burned whale oil until the "
        "keeper, Ada Brandt, had it changed to kerosene. It has been dark since the harbour moved.",
        "Who was the keeper of the lighthouse?",
        "Ada Brandt",
    ),
    (
        "Three trains leave Morrow each day. The first goes to Tessel at dawn, the second to "
        "Ingham at noon, and the night train crosses the mountains to Varn.",
        "To which town does the train at noon go?",
        "Ingham",
    ),
    (
        "The bakery sells rye bread on Monday, plum cake on Wednesday and almond biscuits on "
        "Friday. On all other days its ovens are cold and the door stays shut.",
        "On which day does the bakery sell plum cake?",
        "Wednesday",
    ),
    (
        "A survey of the valley counted 14 herons, 52 lapwings and 9 otters. The herons were all "
        "found by the upper lake; the otters had moved down to the mill.",
        "How many lapwings did the survey count?",
        "52",
    ),
    (
        "When the old bridge was taken down, its stone went into the wall of the school and its "
        "iron to a smith, who made it into the copper-coloured gate of the park.",
        "What was the stone of the bridge used for?",
        "the wall of the school",
    ),
)


class MockBenchmark(SampleBenchmark):
    """Answer a question on a short passage; the same rows for every seed.

    Parameter: `rows` to ask; beyond five the built-in ones come round again. The headline is
    the share of answers that hold the expected words (`substring_match`), because a model that
    was not tuned to be brief adds words of its own; `exact_match` stands beside it. Case and
    spacing count in neither.
    """

    reports: ClassVar[frozenset[str] | None] = frozenset()
    default_generation: ClassVar[Mapping[str, Any]] = {"max_new_tokens": 16, "temperature": 0}

    def __init__(self, params: Mapping[str, Any]) -> None:
        values = with_defaults(params, {"rows": len(_ROWS)})
        self._rows = whole_number("rows", values["rows"], least=1)

    def params(self) -> Mapping[str, Any]:
        return {"rows": self._rows}

    def longest_prompt(self, subset: str | None) -> int:
        prompts = (sample.prompt for sample in self.samples(subset, seed=0))
        return max(len(prompt.context) + len(prompt.question) for prompt in prompts)

    def samples(self, subset: str | None, seed: int) -> Iterator[Sample]:
        for index in range(self._rows):
            context, question, answer = _ROWS[index % len(_ROWS)]
            yield Sample(
                index=index,
                id=f"row-{index}",
                prompt=Prompt(context=context, question=f"\nQuestion: {question}\nAnswer:"),
                columns={"context": context, "question": question, "answer": answer},
            )

    def score(self, records: Sequence[Record]) -> Score:
        pairs = [(_plain(r.predicted_answer), _plain(r.columns["answer"])) for r in records]
        contains = [float(expected in answer) for answer, expected in pairs]
        equal = [float(expected == answer) for answer, expected in pairs]
        return averaged(
            contains, tasks={"substring_match": mean(contains), "exact_match": mean(equal)}
        )


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
