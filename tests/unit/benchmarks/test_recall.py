"""The texts that recall generates, how it scores, and the parameters it refuses."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from benchfleet.benchmarks.base import Record, Sample
from benchfleet.benchmarks.recall import Recall
from benchfleet.domain.canonical import content_digest
from benchfleet.models.base import Prompt

from .conftest import HeldSession


def texts(subset: str | None = "128", seed: int = 1, **params: Any) -> list[Sample]:
    return list(Recall(params).samples(subset, seed))


def records_of(context: str) -> list[tuple[int, str, str]]:
    """Offset, key and digit of each record in a text."""
    return [(m.start(), m[0][0], m[0][1]) for m in re.finditer("[A-Z][0-9]", context)]


def looked_up(prompt: Prompt) -> str:
    """What a model says that reads all of the text."""
    return {key: digit for _, key, digit in records_of(prompt.context)}[prompt.question[1]]


def answered(answer: str, *output: str, depth: float = 0.5, length: int = 128) -> list[Record]:
    columns = {"answer": answer, "depth": depth, "length": length}
    return [
        Record(index=index, id=f"{length}-{index}", columns=columns, predicted_answer=text)
        for index, text in enumerate(output)
    ]


# Generation


def test_a_seed_gives_these_very_samples_on_every_machine_and_python() -> None:
    found = [
        [s.index, s.id, s.prompt.context, s.prompt.question, dict(s.columns)]
        for s in texts("128", seed=20240611, samples=3)
    ]
    assert (
        content_digest(found) == "6e2087599e145e2f4a6999dbe431e15fa181b9a237de4abcdd89c84c90af1c26"
    )


def test_a_sample_reads_as_the_description_says() -> None:
    sample = texts("32", seed=7, records=3, depths=[0])[0]
    assert sample.prompt == Prompt(context="O2dtrnehesB6s tod rnC4 iati ardn", question="?O")
    assert sample.columns == {
        "context": "O2dtrnehesB6s tod rnC4 iati ardn",
        "question": "?O",
        "answer": "2",
        "depth": 0.0,
        "length": 32,
    }


def test_the_same_seed_gives_the_same_samples_and_another_seed_shares_none() -> None:
    assert texts(seed=5) == texts(seed=5)
    assert not {s.prompt.context for s in texts(seed=5)} & {s.prompt.context for s in texts(seed=6)}


def test_the_global_random_state_is_neither_read_nor_touched() -> None:
    state = random.getstate()
    texts()
    assert random.getstate() == state


def test_fewer_samples_are_the_first_of_more() -> None:
    assert texts(samples=7) == texts(samples=70)[:7]


def test_samples_are_made_only_as_they_are_taken() -> None:
    endless = Recall({"samples": 10**12}).samples("128", 0)
    assert len(list(islice(endless, 3))) == 3


@for_all(
    data=st.data(),
    seed=st.integers(0, 2**32),
    records=st.integers(1, 26),
    depth=st.floats(0, 1),
)
def test_every_text_holds_its_records_and_the_needle_at_its_depth(
    data: st.DataObject, seed: int, records: int, depth: float
) -> None:
    length = data.draw(st.integers(max(32, 2 * records), 300))
    (sample,) = texts(str(length), seed, samples=1, records=records, depths=[depth])
    context, asked = sample.prompt.context, sample.prompt.question
    found = records_of(context)

    assert len(context) == length
    assert len(found) == records
    assert len({key for _, key, _ in found}) == records
    assert re.fullmatch("[etaoinshrdlu ]*", re.sub("[A-Z][0-9]", "", context))
    assert all(offset % 2 == 0 for offset, _, _ in found)
    assert context.count(asked[1]) == 1
    assert asked[0] == "?"
    offset = context.index(asked[1])
    assert context[offset + 1] == sample.columns["answer"]
    last = length // 2 - 1
    assert abs(offset / 2 - depth * last) <= 0.5


def test_depths_are_taken_in_turn_so_that_each_has_its_share() -> None:
    depths = [s.columns["depth"] for s in texts(samples=7, depths=[0.2, 0.8, 0.5])]
    assert depths == [0.2, 0.8, 0.5, 0.2, 0.8, 0.5, 0.2]


def test_other_records_and_answers_are_spread_evenly() -> None:
    drawn = texts("128", samples=2000, depths=[0.5])
    offsets = [o for s in drawn for o, key, _ in records_of(s.prompt.context)]
    by_place = [offsets.count(2 * place) for place in range(64)]
    assert by_place[32] == 2000
    others = by_place[:32] + by_place[33:]
    assert min(others) > 380
    assert max(others) < 580
    answers = [s.columns["answer"] for s in drawn]
    assert all(140 < answers.count(digit) < 260 for digit in "0123456789")


def test_every_letter_of_the_alphabet_comes_to_be_asked() -> None:
    assert len({s.prompt.question for s in texts(samples=500)}) == 26


def test_run_whole_it_asks_every_known_length_under_places_and_ids_of_their_own() -> None:
    samples = texts(None, samples=4)
    assert [s.index for s in samples] == list(range(12))
    assert len({s.id for s in samples}) == 12
    assert [len(s.prompt.context) for s in samples] == [128] * 4 + [512] * 4 + [1024] * 4
    assert [s.prompt for s in samples[4:8]] == [s.prompt for s in texts("512", samples=4)]


# Running


def test_a_reader_of_the_whole_text_scores_1_and_one_who_guesses_about_chance(
    session: Callable[..., HeldSession],
) -> None:
    recall = Recall({"samples": 200})
    assert recall.run(session(looked_up, subset="512", seed=3, batch_size=16)).overall == 1.0
    guessed = recall.run(session(lambda p: "7", subset="512", seed=3))
    assert 0.03 < guessed.overall < 0.2
    assert guessed.summary["chance"] == 0.1


def test_a_reader_of_the_last_half_finds_the_deep_half(session: Callable[..., HeldSession]) -> None:
    def half(prompt: Prompt) -> str:
        rest = Prompt(context=prompt.context[256:], question=prompt.question)
        found = {key: digit for _, key, digit in records_of(rest.context)}
        return found.get(prompt.question[1], "")

    score = Recall({}).run(session(half, subset="512", seed=3))
    assert score.overall == 0.5
    assert list(score.tasks.values()) == [0.0] * 5 + [1.0] * 5
    assert next(iter(score.tasks)) == "depth_0.05"


def test_run_whole_it_also_scores_by_length(session: Callable[..., HeldSession]) -> None:
    score = Recall({"samples": 10}).run(session(lambda p: looked_up(p) * (len(p.context) < 999)))
    assert score.tasks["length_128"] == 1.0
    assert score.tasks["length_1024"] == 0.0
    assert score.tasks["depth_0.05"] == pytest.approx(2 / 3)


# Scoring


@pytest.mark.parametrize("output", ["7", " 7", "7 ", "\n7\n", "7K3", "7.", "75"])
def test_the_first_character_that_is_no_space_decides(output: str) -> None:
    assert Recall({}).score(answered("7", output)).per_sample == [1.0]


@pytest.mark.parametrize("output", ["", "   ", "8", "x7", "K7", "?7", "-7", "٧"])
def test_anything_else_is_wrong(output: str) -> None:
    assert Recall({}).score(answered("7", output)).per_sample == [0.0]


def test_the_score_tells_samples_and_chance() -> None:
    score = Recall({}).score(answered("7", "7", "7", "7", "1"))
    assert score.overall == 0.75
    assert score.summary == {"samples": 4, "chance": 0.1}
    assert score.tasks == {"depth_0.5": 0.75}


# Parameters and subsets


def test_parameters_are_reported_with_their_defaults_as_json_values() -> None:
    output = Recall({"samples": 5, "depths": (0, 1)}).params()
    assert output == {"samples": 5, "records": 16, "depths": [0.0, 1.0]}
    assert json.loads(json.dumps(output)) == output
    assert Recall(output).params() == output


def test_what_params_returns_is_a_copy() -> None:
    recall = Recall({})
    recall.params()["depths"].clear()
    assert len(recall.params()["depths"]) == 10


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"sample": 1}, "no parameter 'sample'; did you mean 'samples'?"),
        ({"samples": 0}, "samples must be a whole number of at least 1, not 0"),
        ({"records": 27}, "records must be a whole number from 1 to 26, not 27"),
        ({"depths": [0.5, 1.5]}, "each of depths must be a number from 0 to 1, not 1.5"),
        ({"depths": []}, "depths must be a list of numbers, such as [0.1, 0.5, 0.9], not []"),
    ],
)
def test_a_wrong_parameter_is_named_with_what_to_write(
    params: Mapping[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
        Recall(params)


@pytest.mark.parametrize("subset", ["32", "33", "128", "512", "1024", "100000"])
def test_every_length_that_holds_the_records_is_a_subset(subset: str) -> None:
    assert Recall({}).check_subset(subset) is None


@pytest.mark.parametrize(
    "subset", ["", "long", "-128", "1.5", "0128", "1_000", " 128", "128\n", "٣٢٠", "9" * 5000]
)
def test_what_is_no_length_is_refused_with_an_example(subset: str) -> None:
    output = Recall({}).check_subset(subset)
    assert output is not None
    assert "such as '512'" in output


@pytest.mark.parametrize("subset", ["1", "31"])
def test_a_text_too_short_is_refused_with_the_shortest(subset: str) -> None:
    output = Recall({"records": 1}).check_subset(subset)
    assert output == f"a text of {subset} characters is too short; ask for 32 or more"


def test_records_that_do_not_fit_are_refused_with_the_way_out() -> None:
    recall = Recall({"records": 26})
    says = "26 records do not fit into 51 characters; ask for 52 or more, or set fewer records"
    assert recall.check_subset("51") == says
    assert recall.check_subset("52") is None
    with pytest.raises(ValueError, match=says):
        next(iter(recall.samples("51", 0)))
