"""Every mistake has a message that names file and key and what to do, and loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.cli.main import main

from .conftest import MOCK, User

RECALL = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks: [{recall: ["128"]}]
"""


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["study.yaml: 1 mistake", "is empty"]),
        ("campaign: [", ["study.yaml", "line"]),
        ("- a\n- b\n", ["study.yaml", "mapping"]),
        (MOCK.replace("configs:", "confgs:"), ["matrix.confgs", "did you mean 'configs'"]),
        (MOCK.replace("mock_benchmark", "mock_bench"), ["did you mean 'mock_benchmark'"]),
        (MOCK.replace("adapter: mock", "adapter: mok"), ["adapter", "did you mean 'mock'"]),
        (
            MOCK.replace("configs:", "confgs:").replace("mock_benchmark", "mock_bench"),
            ["nothing was run", "line 6", "line 7"],
        ),
        (MOCK + "max_concurrent_runs: 0\n", ["max_concurrent_runs", "1 or more"]),
        (MOCK + "gpus: [7]\n", ["GPU", "7"]),
        (MOCK.replace("campaign: study", "campaign: ../x"), ["campaign", "../x"]),
        (MOCK.replace("campaign: study", "campaign: ."), ["campaign", "'.'"]),
        (MOCK.replace("name: m1", "name: ../x"), ["matrix.models[0].name", "../x"]),
        (MOCK.replace("name: m1", "name: ledger.db"), ["matrix.models[0]", "'ledger.db'"]),
        (MOCK.replace("{dense: null}", "{..: null}"), ["matrix.configs", "'..'"]),
        (MOCK.replace("name: m1", "name: a/b").replace("name: m2", "name: a:b"), ["a/b", "a:b"]),
        (RECALL.replace('"128"', '"12x"'), ["matrix.benchmarks[0].recall", "12x"]),
        (MOCK.replace("adapter: mock", "adapter: transformers, path: ./nowhere", 1), ["nowhere"]),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value)[:40],
)  # fmt: skip
def test_a_wrong_campaign_is_refused_by_file_and_key(
    user: User, text: str, parts: list[str]
) -> None:
    user.write(text)
    done = user.run_here("run", "study.yaml")
    assert done.returncode == 2, done.stdout + done.stderr
    for part in parts:
        assert part in done.stderr, done.stderr
    assert not (user.folder / "benchmark_results").exists()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("runn", "study.yaml"), "did you mean 'run'"),
        (("run",), "campaign.yaml: 1 mistake, nothing was run\n      file not found; it is the"),
        (("run",), "name your campaign file, or write one with: benchfleet init\n"),
        (("fetch",), "CAMPAIGN"),
        (("plan", "nowhere.yaml"), "not found; write one with: benchfleet init nowhere.yaml\n"),
        (("plan", "a b/x.yaml"), "not found; write one with: benchfleet init 'a b/x.yaml'\n"),
        (("plan", "nowhere"), "not found; write one with: benchfleet init nowhere.yaml\n"),
        (("plan", "./x.yaml"), "not found; write one with: benchfleet init x.yaml\n"),
        (("run", "stduy.yml"), "file not found; did you mean 'study.yaml'?"),
        (("gate", "overide", "study.yaml"), "did you mean 'override'?"),
        (("report", "study.yaml", "--format", "htlm"), "did you mean 'html'?"),
        (("hosts", "chek", "machines.yaml"), "did you mean 'check'?"),
        (("run", "study.yaml", "--cpu-slot", "1", "--limt", "3"), "mean --cpu-slots and --limit?"),
        (("plan", "."), "is a folder"),
        (("run", "study.yaml", "--max-concurrent-runs", "0"), "--max-concurrent-runs"),
        (("run", "study.yaml", "--cpu-slots", "none"), "--cpu-slots"),
        (("run", "study.yaml", "--gpus", "7"), "GPU"),
        (("run", "study.yaml", "--gpus", "zero"), "--gpus"),
        (("run", "study.yaml", "--only", "modls=m1"), "did you mean 'models'"),
        (("run", "study.yaml", "--only", "models=m1,mm2"), "called 'mm2'; did you mean 'm2'"),
        (("run", "study.yaml", "--limit", "-1"), "--limit"),
        (("run", "study.yaml", "--ledger", "sqllite:///x.db"), "did you mean 'sqlite'"),
        (("run", "study.yaml", "--only", "benchmarks=mok"), "; there is mock_benchmark"),
        (("retry", "study.yaml", "--cell", "m1/dens/*"), "--cell m1/dens/*  matches no cell by"),
        (("failures", "study.yaml", "--cell", "m1/dense/mock"), "mean 'm1/dense/mock_benchmark'"),
        (("cancel", "study.yaml", "--yes", "--cell", "m3/*"), "benchfleet plan study.yaml --cells"),
        (("report", "study.yaml", "--baseline", "dens"), "did you mean 'dense'"),
        (("run", "study.yaml", "--nonsense"), "--nonsense"),
    ],
)
def test_a_wrong_command_line_is_refused_by_option(
    user: User, words: tuple[str, ...], part: str
) -> None:
    user.write(MOCK)
    done = user.run_here(*words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert part in done.stderr


def test_a_results_folder_that_cannot_be_written_is_named(user: User) -> None:
    user.write(MOCK)
    (user.folder / "file").write_text("in the way")
    done = user.run_here("run", "study.yaml", "--results", "file/below")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "file/below/study cannot be written" in done.stderr
    assert "--results" in done.stderr


@pytest.mark.parametrize(
    ("verb", "words"), [("status", ["--resluts", "x"]), ("gate show", ["a.yaml", "--resluts=x"])]
)
def test_an_unknown_option_is_reported_by_its_verb_with_the_near_one(
    verb: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([*verb.split(), *words])
    output = capsys.readouterr().err
    first = output.splitlines()[0]
    assert first.startswith(f"benchfleet {verb}: error: unrecognized arguments: --resluts")
    assert first.endswith("did you mean --results?")


def test_the_message_for_a_value_with_a_dash_says_how_to_write_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["slurm", "submit", "a.yaml", "--sbatch", "--mem=1G"])
    first = capsys.readouterr().err.splitlines()[0]
    assert first.endswith("one that begins with a dash goes behind =: --option=--value")


@pytest.mark.parametrize(
    "words",
    [
        ("stop", "study.yaml", "--ledger", "postgresql://me:hush@db/lab"),
        ("run", "study.yaml", "--ledgr=postgresql://db/lab?password=hush"),
        ("--ledger", "postgresql://me:hush@db/lab", "run", "study.yaml"),
    ],
)
def test_a_mistake_in_the_words_shows_no_password(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    output = capsys.readouterr().err
    assert "postgresql://" in output
    assert "hush" not in output


def test_all_mistakes_of_one_entry_and_absent_gpus_are_reported_together(user: User) -> None:
    model = Path(__file__).parents[2] / "examples" / "recall" / "model"
    user.write(
        f"""\
campaign: study
gpus: [4090]
defaults: {{generation: {{max_new_token: 3}}}}
matrix:
  models:
    - {{name: tiny, path: {model}, needs: {{vram: 22XB, gpus: 500}}}}
  benchmarks:
    - recall: {{subsets: [12x], samples: x, generation: {{temprature: 1}}}}
"""
    )
    errors = user.run("plan", "study.yaml", code=2).stderr
    for line, key, part in (
        (2, "gpus ", "remove it to run on the CPU"),
        (3, "defaults.generation.max_new_token", "did you mean 'max_new_tokens'?"),
        (6, "matrix.models[0].needs.vram", "'22XB' is not a size"),
        (6, "matrix.models[0].needs.gpus", "must be at most 64, not 500"),
        (8, "matrix.benchmarks[0].recall ", "samples must be a whole number"),
        (8, "matrix.benchmarks[0].recall.subsets", "not '12x'"),
        (8, "matrix.benchmarks[0].recall.generation.temprature", "did you mean 'temperature'?"),
    ):
        assert any(
            one.startswith(f"  line {line}  {key}") and part in one for one in errors.splitlines()
        ), (key, errors)
    assert "study.yaml: 7 mistakes, nothing was run" in errors


def test_the_message_for_an_option_before_the_action_says_where_it_goes(user: User) -> None:
    wrong = user.run("gate", "--again", "check", "study.yaml", code=2).stderr
    assert "benchfleet gate: error: --again stands before the action; write it after that" in wrong
