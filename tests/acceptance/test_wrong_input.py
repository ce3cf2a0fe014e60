"""Every mistake has a message that names file and key and what to do, and loses nothing."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
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
    done = user.run("run", "study.yaml", code=2)
    for part in parts:
        assert part in done.stderr, done.stderr
    assert not (user.folder / "benchmark_results").exists()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("runn", "study.yaml"), "did you mean 'run'"),
        (("run",), "CAMPAIGN"),
        (("run", "nowhere.yaml"), "file not found"),
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
        (("cancel", "study.yaml", "--yes", "--cell", "m3/*"), "benchfleet plan --cells"),
        (("report", "study.yaml", "--baseline", "dens"), "did you mean 'dense'"),
        (("run", "study.yaml", "--nonsense"), "--nonsense"),
    ],
)
def test_a_wrong_command_line_is_refused_by_option(
    user: User, words: tuple[str, ...], part: str
) -> None:
    user.write(MOCK)
    assert part in user.run(*words, code=2).stderr


def test_a_results_folder_that_cannot_be_written_is_named(user: User) -> None:
    user.write(MOCK)
    (user.folder / "file").write_text("in the way")
    done = user.run("run", "study.yaml", "--results", "file/below", code=2)
    assert "file/below/study cannot be written" in done.stderr
    assert "--results" in done.stderr


def test_a_damaged_ledger_is_reported_and_rebuilt_from_the_results(finished: User) -> None:
    before = finished.published()
    ledger = finished.results / "ledger.db"
    for companion in finished.results.glob("ledger.db-*"):
        companion.unlink()
    ledger.write_bytes(b"this is no database at all" * 100)
    for verb in ("run", "status", "report", "plan"):
        done = finished.run(verb, "study.yaml", code=3)
        assert "ledger.db" in done.stderr
        assert "benchfleet ledger rebuild" in done.stderr
    rebuilt = finished.run("ledger", "rebuild", "study.yaml")
    assert "2 results taken in" in rebuilt.stdout
    assert (finished.results / "ledger.db.damaged-1").exists()
    assert "nothing was run" in finished.run("run", "study.yaml").stdout
    assert finished.published() == before


def spoil_the_end(ledger: Path, *, expires: float) -> bytes:
    """The first cell is held until then, and a page that tells what the last ones are is lost."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as opened:
        opened.execute(
            "update cell set state = 'running', expires = ? where ordinal = 1", (expires,)
        )
        opened.execute("pragma wal_checkpoint(truncate)")
        size = opened.execute("pragma page_size").fetchone()[0]
    content = bytearray(ledger.read_bytes())
    start = content.index(b'"repeat": 29,') // size * size
    content[start : start + size] = b"\x5a" * size
    ledger.write_bytes(content)
    return bytes(content)


def test_a_damaged_ledger_stays_while_a_runner_holds_a_cell_of_it(user: User) -> None:
    user.write(MOCK + "defaults: {repeats: 30}\n")
    user.run("run", "study.yaml")
    ledger = user.results / "ledger.db"
    whole = ledger.read_bytes()
    before = spoil_the_end(ledger, expires=time.time() + 3600)
    output = user.run("ledger", "rebuild", "study.yaml", code=3).stderr
    assert "malformed" in output
    assert "A runner may still hold m1/dense/mock_benchmark/r0" in output
    assert ledger.read_bytes() == before
    ledger.write_bytes(whole)
    spoil_the_end(ledger, expires=0.0)
    assert "60 results taken in" in user.run("ledger", "rebuild", "study.yaml").stdout
    assert (user.results / "ledger.db.damaged-1").exists()


@pytest.mark.parametrize(
    ("place", "printed"),
    [
        ("folder", "folder is not a file; name a file by --ledger, or"),
        ("bare.git", "(a repository is named git+file://"),
        ("study.yaml", "file is not a database; name a ledger's file by --ledger, or, was it one"),
        ("study.yaml/x.db", "study.yaml cannot be written (File exists), so no ledger can be made"),
        ("/proc/x.db", "/proc cannot be written (No such file or directory), so no ledger"),
    ],
)
def test_a_ledger_is_not_copied_to_what_is_none_and_no_message_says_to_move_it(
    finished: User, place: str, printed: str
) -> None:
    (finished.folder / "folder").mkdir()
    (finished.folder / "bare.git").mkdir()
    (finished.folder / "bare.git" / "HEAD").touch()
    output = finished.run("ledger", "copy", "study.yaml", "--to", place, code=3).stderr
    assert printed in output
    assert "results folder" not in output
    assert "; move " not in output


def test_somebody_s_database_is_not_set_aside(user: User) -> None:
    user.write(MOCK)
    other = sqlite3.connect(user.folder / "other.db")
    other.execute("create table precious (x)")
    other.commit()
    other.close()
    where = ("--ledger", "sqlite:other.db")
    output = user.run("ledger", "rebuild", "study.yaml", *where, code=3).stderr
    assert "is a database but no ledger" in output
    assert [file.name for file in user.folder.glob("other.db*")] == ["other.db"]


def test_a_ledger_that_cannot_be_reached_is_not_set_aside(finished: User) -> None:
    ledger = finished.results / "ledger.db"
    kept = ledger.rename(finished.folder / "kept.db")
    ledger.mkdir()
    assert (
        "ledger.db is not a file" in finished.run("ledger", "rebuild", "study.yaml", code=3).stderr
    )
    assert ledger.is_dir()
    ledger.rmdir()
    kept.rename(ledger)
    assert "2 were known" in finished.run("ledger", "rebuild", "study.yaml").stdout


def test_a_ledger_that_is_gone_does_not_run_everything_again(finished: User) -> None:
    before = finished.published()
    for file in finished.results.glob("ledger.db*"):
        file.unlink()
    for verb in ("run", "status", "plan", "report", "retry"):
        assert "ledger rebuild" in finished.run(verb, "study.yaml", code=3).stderr
    finished.run("ledger", "rebuild", "study.yaml")
    assert "nothing was run" in finished.run("run", "study.yaml").stdout
    assert finished.published() == before


def test_a_ledger_of_a_newer_schema_is_left_alone(finished: User) -> None:
    ledger = sqlite3.connect(finished.results / "ledger.db")
    ledger.execute("update meta set value = '99' where key = 'schema'")
    ledger.commit()
    ledger.close()
    before = (finished.results / "ledger.db").read_bytes()
    done = finished.run("run", "study.yaml", code=3)
    assert "99" in done.stderr
    assert "newer" in done.stderr
    finished.run("ledger", "rebuild", "study.yaml", code=3)
    assert (finished.results / "ledger.db").read_bytes() == before


@pytest.mark.parametrize(
    "words", [("status", "--resluts", "x"), ("gate", "show", "a.yaml", "--resluts=x")]
)
def test_an_unknown_option_is_reported_by_its_verb_with_the_near_one(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    output = capsys.readouterr().err
    first = output.splitlines()[0]
    assert first.startswith(f"benchfleet {words[0]}: error: unrecognized arguments: --resluts")
    assert first.endswith("did you mean --results?")


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


@pytest.mark.parametrize(
    "content",
    [b"notes on what was run\n" * 9, b"\x89PNG\0\1", b"SQLite format 3\0".ljust(8192, b"?")],
)
def test_a_file_that_is_no_ledger_is_not_set_aside(user: User, content: bytes) -> None:
    user.write(MOCK)
    (user.folder / "mine").write_bytes(content)
    output = user.run("ledger", "rebuild", "study.yaml", "--ledger", "mine", code=3).stderr
    assert f"the ledger {user.folder}/mine cannot be used" in output
    assert [file.name for file in user.folder.glob("mine*")] == ["mine"]
    assert (user.folder / "mine").read_bytes() == content


@pytest.mark.parametrize("harm", ["head", "tail"])
def test_a_damaged_ledger_that_is_named_is_set_aside_like_any_other(user: User, harm: str) -> None:
    user.write(MOCK)
    where = ("study.yaml", "--ledger", "sqlite:own.db")
    user.run("run", *where)
    file = user.folder / "own.db"
    content = bytearray(file.read_bytes())
    lost = slice(0, 4096) if harm == "head" else slice(4096, len(content))
    content[lost] = b"\x5a" * len(content[lost])
    file.write_bytes(content)
    assert "2 results taken in" in user.run("ledger", "rebuild", *where).stdout
    assert (user.folder / "own.db.damaged-1").read_bytes() == content


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
