"""What a user gets from `benchfleet report`, in every format and where something is amiss."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import COMMAND, MOCK, User

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)


@pytest.fixture(scope="module")
def mock_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As everywhere, with two configs."""
    user = User(tmp_path_factory.mktemp("mock"))
    user.write(MOCK.replace("{dense: null}", "{dense: null, '<b>bold': {attention: [{local: 8}]}}"))
    user.run("run", "study.yaml")
    return user.folder


@pytest.fixture
def done(finished: User) -> User:
    """A user whose campaign has run."""
    return finished


def without_extra(user: User) -> User:
    """The same user, with an interpreter that finds none of the packages of the extra."""
    folder = user.folder / "lacking"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys\nfor name in ('altair', 'jinja2', 'vl_convert'): sys.modules[name] = None\n"
    )
    return Lacking(user.folder)


class Lacking(User):
    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "PYTHONPATH": str(self.folder / "lacking")}


def test_html_goes_among_the_results_and_says_so(done: User) -> None:
    said = done.run("report", "study.yaml", "--format", "html").stdout
    assert said == "report   benchmark_results/study/report.html\n"
    page = (done.results / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "&lt;b&gt;bold" in page
    assert "<b>bold" not in page
    assert not re.search(r"""(?:src|href)\s*=\s*["']?\s*(?:https?:)?//""", page.split("<script")[0])


def test_output_names_the_file_and_its_ending_the_format(done: User) -> None:
    for name, start in (
        ("r.html", "<!DOCTYPE html>"),
        ("r.md", "# study\n"),
        ("r.csv", "model,config,"),
        ("r.json", '{\n  "campaign": "study"'),
        ("r.txt", "study   4 cells"),
    ):
        assert done.run("report", "study.yaml", "--output", name).stdout == f"report   {name}\n"
        assert (done.folder / name).read_text(encoding="utf-8").startswith(start)


def test_a_named_format_wins_over_the_ending(done: User) -> None:
    done.run("report", "study.yaml", "--format", "csv", "--output", "r.txt")
    assert (done.folder / "r.txt").read_text().startswith("model,config,")


@pytest.mark.parametrize("drawn", ["markdown", "csv", "json", "html"])
def test_stdout_gets_what_a_file_gets(done: User, drawn: str) -> None:
    done.run("report", "study.yaml", "--format", drawn, "--output", "file")
    shown = done.run("report", "study.yaml", "--format", drawn, "--output", "-").stdout
    assert shown == (done.folder / "file").read_text(encoding="utf-8")


def test_stdout_is_utf_8_whatever_the_terminal_speaks(done: User) -> None:
    shown = subprocess.run(
        [*COMMAND, "report", "study.yaml", "--format", "markdown"],
        cwd=done.folder,
        env={**done.environment, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        check=True,
    ).stdout
    assert "0.200 ± 0.200" in shown.decode("utf-8")


def test_csv_and_json_hold_the_same_numbers(done: User) -> None:
    rows = list(
        csv.DictReader(io.StringIO(done.run("report", "study.yaml", "--format", "csv").stdout))
    )
    entries = done.json("report", "study.yaml")["entries"]
    assert (
        entries
        == json.loads(done.run("report", "study.yaml", "--format", "json").stdout)["entries"]
    )
    assert [(row["model"], row["config"], float(row["mean"])) for row in rows] == [
        (entry["model"], entry["config"], entry["mean"]) for entry in entries
    ]
    assert len(rows) == 4


def test_a_part_of_the_campaign_is_reported_alone(done: User) -> None:
    shown = done.run("report", "study.yaml", "--only", "models=m1", "--format", "csv").stdout
    assert len(shown.splitlines()) == 3
    assert "m2" not in shown


def test_the_baseline_can_be_named(done: User) -> None:
    words = ("report", "study.yaml", "--format", "csv", "--baseline")
    assert ",'" not in done.run(*words, "<b>bold").stdout
    assert (
        "no config 'dens' to compare with; did you mean 'dense'?"
        in done.run(*words, "dens", code=2).stderr
    )


def test_before_the_first_run_html_makes_no_folder(user: User) -> None:
    user.write(MOCK)
    refused = user.run("report", "study.yaml", "--format", "html", code=2).stderr
    assert "nothing was run yet" in refused
    assert not (user.folder / "benchmark_results").exists()
    user.run("report", "study.yaml", "--output", "early.html")
    assert "2 cells: 2 pending." in (user.folder / "early.html").read_text()


@pytest.mark.parametrize("place", ["no/such/folder/r.csv", "."])
def test_a_place_that_cannot_be_written_is_named(done: User, place: str) -> None:
    refused = done.run("report", "study.yaml", "--format", "csv", "--output", place, code=2).stderr
    assert f"{place} cannot be written" in refused
    assert "--output" in refused


def test_json_and_another_format_exclude_each_other(done: User) -> None:
    refused = done.run("report", "study.yaml", "--json", "--format", "csv", code=2).stderr
    assert "--json and --format csv exclude each other" in refused


def test_an_unknown_format_lists_those_there_are(done: User) -> None:
    refused = done.run("report", "study.yaml", "--format", "pdf", code=2).stderr
    assert all(name in refused for name in ("terminal", "markdown", "html", "csv", "json"))


def test_without_the_extra_only_html_is_refused_with_its_pip_line(done: User) -> None:
    lacking = without_extra(done)
    refused = lacking.run("report", "study.yaml", "--format", "html", code=2).stderr
    assert "an HTML report needs altair, jinja2, vl_convert" in refused
    assert "pip install 'benchfleet[report]'" in refused
    assert not (done.results / "report.html").exists()
    for drawn in ("terminal", "markdown", "csv", "json"):
        assert "m1" in lacking.run("report", "study.yaml", "--format", drawn).stdout


def test_the_verb_loads_nothing_that_draws_charts() -> None:
    heavy = {"altair", "vl_convert", "jinja2", "torch", "numpy", "pandas"}
    code = f"import sys, benchfleet.cli.report; print(sorted({heavy!r} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_a_browser_draws_the_page_without_a_network(done: User, tmp_path: Path) -> None:
    done.run("report", "study.yaml", "--format", "html")
    shown = subprocess.run(
        [
            str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=10000", "--dump-dom", (done.results / "report.html").as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    shown = re.sub(r"<script.*?</script>", "", shown, flags=re.DOTALL)
    assert shown.count("<svg") >= 2
    assert "could not be drawn" not in shown
    drawn = re.findall(r"<text [^>]*>([^<]*)</text>", shown)
    assert {"m1", "m2", "dense", "&lt;b&gt;bold", "0.200"} <= set(drawn)
    assert any("≈" in said for said in drawn)
