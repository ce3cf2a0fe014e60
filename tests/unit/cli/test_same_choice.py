"""The command that a run tells its user to copy next."""

from __future__ import annotations

import argparse
import shlex

import pytest

from benchfleet.cli.shared import next_command
from benchfleet.cli.verbs import work


@pytest.mark.parametrize(
    "words",
    [
        "study.yaml --assigned",
        "study.yaml --assigned tasks/lab1_tasks.json",
        "study.yaml",
        "study.yaml --gpus 0,2 --slots-per-gpu auto --max-concurrent-runs 3 --share-gpus --forever",
        "study.yaml --cpu-slots 4",
        "study.yaml --machines lab.yaml --rent --deadline 6h --hosts lab1 --budget '20 USD'",
        "study.yaml --cpu-slots auto --forever",
    ],
)
def test_a_worker_goes_on_with_what_it_was_given(words: str) -> None:
    parser = argparse.ArgumentParser()
    work.configure(parser)
    arguments = parser.parse_args(shlex.split(words))
    arguments.verb = "work"
    assert next_command.same_choice(arguments, "run") == f"benchfleet work {words}"
    assert next_command.same_choice(arguments, "retry") == "benchfleet retry study.yaml"


def test_a_phase_with_a_blank_in_its_name_can_be_copied() -> None:
    parser = argparse.ArgumentParser()
    work.configure(parser)
    arguments = parser.parse_args(["study.yaml"])
    arguments.verb = "work"
    chain = next_command.joined(arguments, ["first", "second"], ["phase 1"])
    assert chain == "first && benchfleet gate check study.yaml 'phase 1' --again && second"
