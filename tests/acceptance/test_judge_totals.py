"""What reports and exports count of a judge's score: its verdicts, and what it took."""

from __future__ import annotations

import json

import pytest

from benchfleet.testing.simulated_server import SimulatedServer

from .conftest import User
from .test_judges import Answers, Verdicts, report, write


def test_a_judge_s_score_is_over_its_verdicts_and_tells_what_it_took(user: User) -> None:
    with (
        SimulatedServer(respond=Answers()) as models,
        SimulatedServer(model="judge", respond=(verdicts := Verdicts())) as judges,
    ):
        # Two answers of the config `warm`, which end in its temperature, get what is no verdict.
        odd: list[str] = []

        def grade(text: str) -> int:
            if text.split("Grade the answer. ")[1][1] == "1" and len(odd) < 2:
                odd.append(text)
            return 9 if text in odd else 4

        verdicts.grade = grade
        write(user, models.url, {"judge": judges.url})
        url = f'url: "{judges.url}/v1"'
        text = (user.folder / "study.yaml").read_text()
        user.write(text.replace(url, f"{url}, price: {{in: 1 EUR, out: 1 EUR}}"))
        user.run("run", "study.yaml", "--cpu-slots", "1")
        shown = report(user)
        user.run("export", "study.yaml", "--to", "lm_eval=out/a", "--to", "every_eval_ever=out/b")
    unscored = {one["config"]: (one["scored"], one["unscored"]) for one in shown["judged"]}
    assert unscored == {"dense": (5, 0), "warm": (3, 2)}
    entries = [one for one in shown["entries"] if one["benchmark"] == "recall_128 (judge judge)"]
    assert {one["config"]: one["samples"] for one in entries} == {"dense": 5, "warm": 3}
    costs = [one["spent"]["cost"]["EUR"] for one in entries]
    assert [one["spent"]["attempts"] for one in entries] == [1, 1]
    assert all(one["spent"]["peak_ram_bytes"] for one in entries)
    # The judge is a model of its own in what each one took, and the money is all of it.
    took = {(one["model"], one["config"]): one for one in shown["spent"]}
    assert {name: one["attempts"] for name, one in took.items()} == {
        ("m", "dense"): 1,
        ("m", "warm"): 1,
        ("judge", "dense"): 2,
    }
    assert took["judge", "dense"]["cost"]["EUR"] == pytest.approx(sum(costs))
    assert min(costs) > 0
    exported = [json.loads(f.read_text()) for f in (user.folder / "out").rglob("*.json")]
    counts = [one["n-samples"] for one in exported if "n-samples" in one]
    assert sorted(n["effective"] for one in counts for n in one.values()) == [3, 5, 5, 5]
    evaluations = [e for one in exported for e in one.get("evaluation_results", ())]
    numbers = [e["score_details"]["uncertainty"]["num_samples"] for e in evaluations]
    assert {*numbers} == {3, 5}
