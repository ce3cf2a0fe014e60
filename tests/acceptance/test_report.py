"""What a user gets from `benchfleet report`, in every format and where something is amiss."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from browsers import BROWSER, chromium

from .conftest import COMMAND, MOCK, User


@pytest.fixture(scope="module")
def mock_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As everywhere, with two configs."""
    user = User(tmp_path_factory.mktemp("mock"))
    user.write(MOCK.replace("{dense: null}", "{dense: null, '<b>bold': {attention: [{local: 8}]}}"))
    user.run("run", "study.yaml")
    return user.folder


def test_html_goes_among_the_results_and_says_so(finished: User) -> None:
    output = finished.run("report", "study.yaml", "--format", "html").stdout
    assert output == "report   benchmark_results/study/report.html\n"
    page = (finished.results / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "&lt;b&gt;bold" in page
    assert "<b>bold" not in page
    assert not re.search(r"""(?:src|href)\s*=\s*["']?\s*(?:https?:)?//""", page.split("<script")[0])


def test_output_names_the_file_and_its_ending_the_format(finished: User) -> None:
    for name, start in (
        ("r.html", "<!DOCTYPE html>"),
        ("r.md", "# study\n"),
        ("r.csv", "model,config,"),
        ("r.json", '{\n  "campaign": "study"'),
        ("r.txt", "study   4 cells"),
    ):
        assert finished.run("report", "study.yaml", "--output", name).stdout == f"report   {name}\n"
        assert (finished.folder / name).read_text(encoding="utf-8").startswith(start)
    finished.run("report", "study.yaml", "--format", "csv", "--output", "r.txt")
    assert (finished.folder / "r.txt").read_text().startswith("model,config,")
    finished.run("report", "study.yaml", "--format", "csv", "--output", "r.data")
    assert (finished.folder / "r.data").read_text().startswith("model,config,")


@pytest.mark.parametrize("words", [("--format", "csv"), ("--json",)])
def test_an_ending_of_another_format_is_refused(finished: User, words: tuple[str, ...]) -> None:
    place = ("--output", "wrong.html")
    refused = finished.run("report", "study.yaml", *words, *place, code=2).stderr
    assert f"is of the format html, not {words[-1].strip('-')}; change one of them" in refused
    assert not (finished.folder / "wrong.html").exists()


def test_without_the_file_versions_of_a_config_are_not_pooled(user: User) -> None:
    for rows in (5, 7):
        config = f"{{dense: null, other: {{settings: {{n: {rows}}}}}}}"
        user.write(MOCK.replace("{dense: null}", config))
        user.run("run", "study.yaml")
    report = json.loads(user.run("report", "study.yaml", "--json").stdout)
    assert report["configs"] == ["dense", "other"]
    ledger = f"sqlite:{user.results / 'ledger.db'}"
    report = json.loads(user.run("report", "--ledger", ledger, "--json").stdout)
    dense, first, second = report["configs"]
    assert (dense, first) == ("dense", "other")
    assert second.startswith("other@")
    assert {sum(one["states"].values()) for one in report["entries"]} == {1}
    # What chooses by name chooses both: a worker must not leave out the newer one.
    chosen = user.run("status", "--ledger", ledger, "--only", "configs=other", "--json").stdout
    assert json.loads(chosen)["total"] == 4


@pytest.mark.parametrize("name", ["r.doc", "r.xlsx"])
def test_an_output_file_of_an_unknown_format_is_refused(finished: User, name: str) -> None:
    refused = finished.run("report", "study.yaml", "--output", name, code=2).stderr
    assert f"unknown format '{name[1:]}': use .txt, .md, .html, .csv, .json" in refused
    assert not (finished.folder / name).exists()


@pytest.mark.parametrize("drawn", ["markdown", "csv", "json", "html"])
def test_stdout_gets_what_a_file_gets(finished: User, drawn: str) -> None:
    finished.run("report", "study.yaml", "--format", drawn, "--output", "file")
    shown = finished.run("report", "study.yaml", "--format", drawn, "--output", "-").stdout
    assert shown == (finished.folder / "file").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "start"), [("r.png", b"\x89PNG"), ("r.svg", b"<svg"), ("r.pdf", b"%PDF")]
)
def test_images_are_what_their_name_says(finished: User, name: str, start: bytes) -> None:
    finished.run("report", "study.yaml", "--output", name, "--chart", "differences")
    assert (finished.folder / name).read_bytes().startswith(start)


def test_an_image_of_nothing_is_refused(finished: User) -> None:
    arguments = ("--output", "r.png", "--chart", "failures")
    refused = finished.run("report", "study.yaml", *arguments, code=2).stderr
    assert "no chart 'failures' yet" in refused
    assert not (finished.folder / "r.png").exists()


def test_parquet_has_the_rows_of_the_csv(finished: User) -> None:
    from pyarrow import parquet

    finished.run("report", "study.yaml", "--output", "r.parquet")
    table = parquet.read_table(finished.folder / "r.parquet")
    rows = [
        *csv.DictReader(io.StringIO(finished.run("report", "study.yaml", "--format", "csv").stdout))
    ]
    assert table.column_names == [*rows[0]]
    for name in ("model", "config", "benchmark"):
        assert table[name].to_pylist() == [row[name] for row in rows]
    assert table["mean"].to_pylist() == [float(row["mean"]) for row in rows]


def test_stdout_is_utf_8_whatever_the_terminal_speaks(finished: User) -> None:
    shown = subprocess.run(
        [*COMMAND, "report", "study.yaml", "--format", "markdown"],
        cwd=finished.folder,
        env={**finished.environment, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        check=True,
    ).stdout
    assert "0.200 ± 0.200" in shown.decode("utf-8")


def test_csv_and_json_hold_the_same_numbers(finished: User) -> None:
    rows = list(
        csv.DictReader(io.StringIO(finished.run("report", "study.yaml", "--format", "csv").stdout))
    )
    entries = finished.json("report", "study.yaml")["entries"]
    assert (
        entries
        == json.loads(finished.run("report", "study.yaml", "--format", "json").stdout)["entries"]
    )
    assert [(row["model"], row["config"], float(row["mean"])) for row in rows] == [
        (entry["model"], entry["config"], entry["mean"]) for entry in entries
    ]
    assert len(rows) == 4


def test_a_part_is_reported_alone_and_the_baseline_can_be_named(finished: User) -> None:
    shown = finished.run("report", "study.yaml", "--only", "models=m1", "--format", "csv").stdout
    assert len(shown.splitlines()) == 3
    assert "m2" not in shown
    named = ("report", "study.yaml", "--format", "csv", "--baseline", "<b>bold")
    assert ",'" not in finished.run(*named).stdout


def test_before_the_first_run_html_makes_no_folder(user: User) -> None:
    user.write(MOCK)
    refused = user.run("report", "study.yaml", "--format", "html", code=2).stderr
    assert "nothing was run yet" in refused
    assert not (user.folder / "benchmark_results").exists()
    user.run("report", "study.yaml", "--output", "early.html")
    assert "2 cells: 2 pending." in (user.folder / "early.html").read_text()


@pytest.mark.parametrize("place", ["no/such/folder/r.csv", "."])
def test_a_place_that_cannot_be_written_is_named(finished: User, place: str) -> None:
    refused = finished.run(
        "report", "study.yaml", "--format", "csv", "--output", place, code=2
    ).stderr
    assert f"{place} cannot be written" in refused
    assert "--output" in refused


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("--json", "--format", "csv"), ["--json and --format csv exclude each other"]),
        (("--format", "docx"), ["terminal", "markdown", "html", "csv", "json"]),
    ],
)
def test_formats_that_there_are_not_are_refused(
    finished: User, words: tuple[str, ...], output: list[str]
) -> None:
    refused = finished.run("report", "study.yaml", *words, code=2).stderr
    assert all(part in refused for part in output)


def test_without_the_extra_only_html_is_refused_with_its_pip_line(
    finished: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = finished.folder / "lacking"
    lacking.mkdir()
    (lacking / "sitecustomize.py").write_text(
        "import sys\nfor name in ('altair', 'jinja2', 'vl_convert'): sys.modules[name] = None\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(lacking))
    refused = finished.run("report", "study.yaml", "--format", "html", code=2).stderr
    assert "an HTML report needs altair, jinja2, vl_convert" in refused
    assert "pip install 'benchfleet[report]'" in refused
    assert not (finished.results / "report.html").exists()
    for drawn in ("terminal", "markdown", "csv", "json"):
        assert "m1" in finished.run("report", "study.yaml", "--format", drawn).stdout


def test_the_verb_loads_nothing_that_draws_charts() -> None:
    heavy = {"altair", "vl_convert", "jinja2", "torch", "numpy", "pandas"}
    code = f"import sys, benchfleet.cli.verbs.report; print(sorted({heavy!r} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_a_browser_draws_the_page_without_a_network(finished: User, tmp_path: Path) -> None:
    finished.run("report", "study.yaml", "--format", "html")
    shown = subprocess.run(
        [
            str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=10000", "--dump-dom",
            (finished.results / "report.html").as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    shown = re.sub(r"<script.*?</script>", "", shown, flags=re.DOTALL)
    assert shown.count("<svg") >= 2
    assert "could not be drawn" not in shown
    drawn = re.findall(r"<text [^>]*>([^<]*)</text>", shown)
    assert {"m1", "m2", "dense", "&lt;b&gt;bold", "0.200"} <= set(drawn)
    assert any("≈" in output for output in drawn)


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_a_heat_map_that_a_narrow_page_cuts_fades_out_until_its_end(finished: User) -> None:
    finished.run("report", "study.yaml", "--format", "html")
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 120, "height": 600})
        page.goto((finished.results / "report.html").as_uri())
        cut = page.locator(".chart.more[data-chart=scores]")
        expect(cut).to_have_count(1)
        page.locator("[data-chart=scores]").evaluate("box => { box.scrollLeft = 1000; }")
        expect(cut).to_have_count(0)
