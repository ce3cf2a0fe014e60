"""One campaign in YAML, TOML and Python, on disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchfleet.campaign.load import Campaign, load_campaign

from .conftest import mistakes_in, write

YAML = """\
campaign: study
results: ./out
cpu_slots: 2
defaults:
  adapter: mock
  generation: {max_new_tokens: 32, temperature: 0.5}
  limits: {cell: 6h, tries: 2}
  repeats: 2
matrix:
  models:
    - one
    - {name: two, model_kwargs: {answer: "7", seconds: 0.0}, needs: {vram: 22GB}}
  configs:
    dense: null
    window: {attention: {local: 16}}
    streaming: {attention: [{sink: 4}, {local: 0.25}], everywhere: true}
  benchmarks:
    - recall: {subsets: [128, 512], samples: 10}
    - mock_benchmark
  exclude:
    - {models: two, configs: "!dense"}
  include:
    - {models: one, configs: dense, benchmarks: mock_benchmark, repeats: 3}
"""
TOML = """\
campaign = "study"
results = "./out"
cpu_slots = 2

[defaults]
adapter = "mock"
generation = {max_new_tokens = 32, temperature = 0.5}
limits.cell = "6h"
limits.tries = 2
repeats = 2

[matrix]
benchmarks = [
  {recall = {subsets = [128, 512], samples = 10}},
  "mock_benchmark",
]

[[matrix.models]]
name = "one"
model = "one"

[[matrix.models]]
name = "two"
needs.vram = "22GB"
[matrix.models.model_kwargs]
answer = "7"
seconds = 0.0

[matrix.configs]
dense = {}
window.attention.local = 16
streaming = {attention = [{sink = 4}, {local = 0.25}], everywhere = true}

[[matrix.exclude]]
models = "two"
configs = "!dense"

[[matrix.include]]
models = "one"
configs = "dense"
benchmarks = "mock_benchmark"
repeats = 3
"""
PYTHON = """\
from pathlib import Path

from benchfleet.models.attention.local import Local
from benchfleet.models.attention.sink import Sink

LENGTHS = [2**power for power in (7, 9)]


def campaign():
    return {
        "campaign": "study",
        "results": Path("./out"),
        "cpu_slots": 2,
        "defaults": {
            "adapter": "mock",
            "generation": {"max_new_tokens": 32, "temperature": 0.5},
            "limits": {"cell": "6h", "tries": 2},
            "repeats": 2,
        },
        "matrix": {
            "models": [
                "one",
                {"name": "two", "model_kwargs": {"answer": "7", "seconds": 0.0},
                 "needs": {"vram": "22GB"}},
            ],
            "configs": {
                "dense": None,
                "window": {"attention": Local(window_size=16)},
                "streaming": {
                    "attention": [Sink(sink_size=4), Local(window_size=0.25)], "everywhere": True,
                },
            },
            "benchmarks": [{"recall": {"subsets": LENGTHS, "samples": 10}}, "mock_benchmark"],
            "exclude": {"models": "two", "configs": "!dense"},
            "include": [{"models": "one", "configs": "dense", "benchmarks": "mock_benchmark",
                         "repeats": 3}],
        },
    }
"""


def _all_of(campaign: Campaign) -> list[object]:
    cells = [
        (cell.fingerprint, cell.id, cell.need, cell.limits, cell.priority)
        for cell in campaign.matrix.expand()
    ]
    return [campaign.name, campaign.results, campaign.machine, cells]


@pytest.mark.parametrize(("text", "name"), [(TOML, "study.toml"), (PYTHON, "study.py")])
def test_the_same_campaign_in_another_language_has_the_same_cells(
    tmp_path: Path, text: str, name: str
) -> None:
    yaml = load_campaign(write(tmp_path, YAML, "study.yaml"))
    assert len(yaml.matrix.expand()) == 25
    assert _all_of(load_campaign(write(tmp_path, text, name))) == _all_of(yaml)


_MISTAKES = [
    ("matrix.models[1].needs.vram", "'22XB' is not a size; write 22GB"),
    ("matrix.configs.window.attention.lokal", "no attention config 'lokal'; did you mean 'local'?"),
    ("matrix.benchmarks[1]", "no benchmark 'mock_benchmrk'; did you mean 'mock_benchmark'?"),
]


@pytest.mark.parametrize(
    ("text", "name", "lines"),
    [(YAML, "study.yaml", [12, 15, 19]), (TOML, "study.toml", [24, 31, 15])],
)
def test_mistakes_have_the_same_keys_and_lines_of_their_own(
    tmp_path: Path, text: str, name: str, lines: list[int]
) -> None:
    text = text.split("  include:")[0].split("[[matrix.include]]")[0]
    for right, wrong in [
        ("22GB", "22XB"),
        ("{local: 16}", "{lokal: 16}"),
        ("attention.local =", "attention.lokal ="),
        ("- mock_benchmark", "- mock_benchmrk"),
        ('"mock_benchmark"', '"mock_benchmrk"'),
    ]:
        text = text.replace(right, wrong)
    found = mistakes_in(write(tmp_path, text, name))
    output = {mistake.key: (mistake.message, mistake.line) for mistake in found}
    assert output == {
        key: (message, line) for (key, message), line in zip(_MISTAKES, lines, strict=True)
    }


def test_an_error_in_a_module_beside_is_reported_at_the_line_that_imports_it(
    tmp_path: Path,
) -> None:
    write(tmp_path, "\n\nx = 1 +\n", "beside.py")
    (mistake,) = mistakes_in(write(tmp_path, "\nimport beside\n", "study.py"))
    assert mistake.line == 2
    assert mistake.message.startswith("raises SyntaxError: invalid syntax (beside.py, line 3)")


def test_each_file_sees_the_modules_beside_it_and_no_other_s(tmp_path: Path) -> None:
    names = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        write(folder, f"NAME = {name!r}\n", "beside.py")
        text = (
            "import beside\nfrom inner import x\ncampaign = {'campaign': beside.NAME, 'defaults': "
            "{'adapter': 'mock'}, 'matrix': {'models': ['m'], 'benchmarks': ['mock_benchmark']}}"
        )
        (folder / "inner").mkdir()
        write(folder / "inner", "x = 3\n", "__init__.py")
        names.append(load_campaign(write(folder, text, "study.py")).name)
    assert names == ["first", "second"]
    assert {"beside", "inner"}.isdisjoint(sys.modules)
    assert not {str(tmp_path / name) for name in names} & set(sys.path)


def test_modules_from_elsewhere_stay_imported(tmp_path: Path) -> None:
    """An environment often lies below the campaign's folder; what is in it is not the folder's."""
    site = tmp_path / "venv" / "site"
    site.mkdir(parents=True)
    write(site, "x = 3\n", "from_venv.py")
    text = (
        f"import sys\nsys.path.append({str(site)!r})\nimport from_venv\n"
        "campaign = {'campaign': 'c', 'defaults': {'adapter': 'mock'},"
        " 'matrix': {'models': ['m'], 'benchmarks': ['mock_benchmark']}}"
    )
    load_campaign(write(tmp_path, text, "study.py"))
    assert sys.modules.pop("from_venv").x == 3


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "study.toml", "the campaign needs a name"),
        ("campaign = [", "study.toml", "is not TOML"),
        ("campaign = None", "study.py", "is empty; a campaign begins with"),
        ("campaign = 3", "study.py", "must be a mapping that begins with"),
    ],
)
def test_what_is_no_campaign_says_so(tmp_path: Path, text: str, name: str, message: str) -> None:
    assert mistakes_in(write(tmp_path, text, name))[0].message.startswith(message)


@pytest.mark.parametrize(
    ("texts", "needed"), [({"yaml": YAML}, {"yaml"}), ({"toml": TOML, "py": PYTHON}, set())]
)
def test_reading_a_campaign_imports_nothing_heavy(
    tmp_path: Path, texts: dict[str, str], needed: set[str]
) -> None:
    files = [str(write(tmp_path, text, f"s.{kind}")) for kind, text in texts.items()]
    heavy = {"torch", "transformers", "numpy", "pydantic", "typer", "rich", "yaml"} - needed
    code = (
        "import sys; from benchfleet.campaign.load import load_campaign; "
        f"[load_campaign(file) for file in {files!r}]; print(sorted({heavy!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("language", "name", "cells"), [("toml", "a.toml", 6), ("python", "a.py", 10)]
)
def test_the_guide_s_examples_in_other_languages_load(
    tmp_path: Path, language: str, name: str, cells: int
) -> None:
    root = Path(__file__).parents[3]
    text = (root / "docs" / "campaign.md").read_text()
    example = text.split(f"```{language}\n")[1].split("```")[0]
    assert "./model" in example
    example = example.replace("./model", str(root / "examples" / "recall" / "model"))
    campaign = load_campaign(write(tmp_path, example, name))
    assert len(campaign.matrix.expand()) == cells
