"""Campaign files on disk, with plugins installed as other packages install them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from benchfleet.campaign import benchmarks, defaults, load, models
from benchfleet.campaign.load import Campaign, load_campaign
from benchfleet.errors import CampaignError, Mistake

GOOD = """\
campaign: attention/study
defaults:
  adapter: mock
  generation: {max_new_tokens: 32}
  limits: {cell: 6h, tries: 2}
  repeats: 2
matrix:
  models:
    - one
    - {name: two, model_kwargs: {answer: "7"}, generation: {temperature: 0.5}, priority: 4}
  configs:
    dense: null
    streaming: {attention: [{sink: 4}, {local: 32}]}
  benchmarks:
    - recall: {subsets: [128, 512], samples: 10, generation: {max_new_tokens: 3}}
    - mock_benchmark
  exclude:
    - {models: two, configs: "!dense"}
  include:
    - {models: one, configs: dense, benchmarks: mock_benchmark, repeats: 3}
"""


def _write(folder: Path, text: str | bytes, name: str = "study.yaml") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else dedent(text).encode())
    return file


def _mistakes(file: Path) -> list[Mistake]:
    with pytest.raises(CampaignError) as caught:
        load_campaign(file)
    assert caught.value.file == str(file)
    return caught.value.mistakes


def test_a_campaign_file_becomes_its_cells(tmp_path: Path) -> None:
    file = _write(tmp_path, GOOD)
    campaign = load_campaign(file)
    assert campaign.name == "attention/study"
    assert campaign.file == file
    assert campaign.results == tmp_path / "benchmark_results" / "attention_study"
    cells = {str(cell.id): cell for cell in campaign.matrix.expand()}
    assert sorted(cells) == sorted(
        f"{model}/{config}/{work}/r{repeat}"
        for model, config, repeats in [
            ("one", "dense", 2),
            ("one", "streaming", 2),
            ("two", "dense", 2),
        ]
        for work in ("recall_128", "recall_512", "mock_benchmark")
        for repeat in range(repeats + (model == "one" and config == "dense" and work[0] == "m"))
    )
    assert cells["one/dense/recall_128/r0"].workload.generation == {
        "max_new_tokens": 3,
        "temperature": 0,
    }
    assert cells["two/dense/recall_128/r0"].workload.generation == {
        "max_new_tokens": 3,
        "temperature": 0.5,
    }
    assert cells["two/dense/mock_benchmark/r1"].priority == 4
    assert {cell.limits.cell for cell in cells.values()} == {21_600}


def test_reading_a_file_twice_gives_the_same_cells_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    first = load_campaign(_write(tmp_path, GOOD))
    second = load_campaign(_write(tmp_path / "elsewhere", GOOD, "other.yml"))
    assert first.matrix.expand() == second.matrix.expand()


def test_a_relative_path_is_seen_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, GOOD.replace("defaults:", "results: ../out\ndefaults:"))
    monkeypatch.chdir(tmp_path)
    campaign = load_campaign("study.yaml")
    assert campaign.file == tmp_path / "study.yaml"
    assert campaign.results == tmp_path.parent / "out" / "attention_study"
    moved = campaign.with_results("here")
    assert moved == Campaign(
        name=campaign.name,
        file=campaign.file,
        results=tmp_path / "here" / "attention_study",
        matrix=campaign.matrix,
        told=campaign.told,
    )


def test_a_file_without_permission_is_one_mistake(
    ordinary_user: Callable[[Callable[[], object]], str],
) -> None:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    file = _write(folder, GOOD)
    file.chmod(0)
    said = ordinary_user(lambda: load_campaign(file))
    shutil.rmtree(folder)
    assert said.startswith("CampaignError")
    assert "1 mistake" in said
    assert "cannot be read: Permission denied" in said


def test_every_mistake_is_told_at_once_with_key_line_and_what_to_do(tmp_path: Path) -> None:
    file = _write(
        tmp_path,
        """\
        campaign: ../x
        resluts: x
        defaults: {adapter: mock, repeats: 0}
        matrix:
          models:
            - one
            - {name: two, needs: {vram: 22XB}}
          configs:
            dense: null
            Dense: {attention: [{lokal: 4}]}
          benchmarks:
            - recall: [128, 12]
            - mock_benchmrk
          exclude:
            - {models: tow}
        """,
    )
    with pytest.raises(CampaignError) as caught:
        load_campaign(file)
    title, *rows = str(caught.value).splitlines()
    assert title == f"{file}: 9 mistakes, nothing was run"
    assert [" ".join(row.split()) for row in rows] == [
        "line 1 campaign '../x' may not start with a dot; results folders bear this name",
        "line 2 resluts no key 'resluts' here; did you mean 'results'?",
        "line 3 defaults.repeats must be a whole number, 1 or more, not 0",
        "line 7 matrix.models[1].needs.vram '22XB' is not a size; write 22GB",
        "line 10 matrix.configs.Dense.attention[0].lokal no attention config 'lokal'; "
        "did you mean 'local'?",
        "line 10 matrix.configs.Dense 'dense' and 'Dense' would share the folder 'Dense'; "
        "rename one",
        "line 12 matrix.benchmarks[0].recall a text of 12 characters is too short; "
        "ask for 32 or more",
        "line 13 matrix.benchmarks[1] no benchmark 'mock_benchmrk'; did you mean 'mock_benchmark'?",
        "line 15 matrix.exclude[0].models no model 'tow' in this matrix; did you mean 'two'?",
    ]


@pytest.mark.parametrize(
    ("key", "where"),
    [("repeats", "defaults"), ("tries", "defaults.limits"), ("limits", "defaults")],
)
def test_a_key_that_belongs_elsewhere_is_told_where(tmp_path: Path, key: str, where: str) -> None:
    said = f"no key {key!r} here; it belongs in '{where}'"
    text = f"campaign: study\n{key}: 3\nmatrix:\n  {key}: 3\n  models: [m]\n  benchmarks: [b]\n"
    mistakes = {one.key: one.message for one in _mistakes(_write(tmp_path, text))}
    assert (mistakes[key], mistakes[f"matrix.{key}"]) == (said, said)
    text = f"campaign: study\nmodels: [m]\nphases: [{{name: p, {key}: 3}}]\n"
    mistakes = {one.key: one.message for one in _mistakes(_write(tmp_path, text))}
    assert mistakes["models"] == "no key 'models' here; it belongs in 'matrix'"
    assert mistakes[f"phases[0].{key}"] == said


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("", "is empty; a campaign begins with", None),
        ("# nothing\n", "is empty; a campaign begins with", None),
        ("- a\n- b\n", "must be a mapping that begins with 'campaign: NAME', not a list", 1),
        ("only text", "must be a mapping that begins with 'campaign: NAME', not 'only text'", 1),
        ("a: [1,\n", "is not YAML", 2),
        (b"campaign: caf\xe9\n", "is not UTF-8 text; save it as UTF-8", 1),
        (b"a: 1\nb: \xff\xfe\n", "is not UTF-8 text; save it as UTF-8", 2),
        (b"\x00\x01\x02", "is not YAML", None),
    ],
)
def test_what_is_no_campaign_at_all_is_one_mistake(
    tmp_path: Path, text: str | bytes, message: str, line: int | None
) -> None:
    (mistake,) = _mistakes(_write(tmp_path, text))
    assert mistake.key == ""
    assert mistake.message.startswith(message)
    assert mistake.line == line


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    file = _write(tmp_path, b"\xef\xbb\xbf" + GOOD.encode())
    assert load_campaign(file).name == "attention/study"


def test_a_file_that_cannot_be_read_is_one_mistake(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    large = _write(tmp_path, b"#" * 10_000_001, "large.yaml")
    files = {
        tmp_path / "missing.yaml": "there is no such file",
        tmp_path / "folder.yaml": "is a folder; name the campaign file in it",
        _write(tmp_path, GOOD, "study.txt"): "is no campaign file; its name must end in .yaml",
        _write(tmp_path, GOOD, "study"): "is no campaign file; its name must end in .yaml",
        _write(tmp_path, GOOD, "a.yaml") / "b.yaml": "there is no such file",
        tmp_path / "nul\0.yaml": "there is no such file",
        tmp_path / "pipe.yaml": "is no ordinary file",
        large: "is larger than 10 MB",
    }
    for file, message in files.items():
        (mistake,) = _mistakes(file)
        assert (mistake.key, mistake.line) == ("", None)
        assert mistake.message.startswith(message), (file, mistake.message)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("campaign: attention/study", "", ("campaign", "the campaign needs a name")),
        ("campaign: attention/study", "campaign: 7", ("campaign", "must be text, not 7")),
        ("defaults:", "results: s4://b/p\ndefaults:", ("results", "no place for results 's4'")),
        ("defaults:", "results: ''\ndefaults:", ("results", "names no folder")),
        ("defaults:", "max_concurrent_runs: 0\ndefaults:", ("max_concurrent_runs", "must be a")),
        ("defaults:", "gpus: [x]\ndefaults:", ("gpus[0]", "must be a whole number, 0 or more")),
        ("tries: 2", "tries: none", ("defaults.limits.tries", "must be a whole number")),
    ],
)
def test_one_wrong_line_is_one_mistake(
    tmp_path: Path, old: str, new: str, expected: tuple[str, str]
) -> None:
    key, message = expected
    assert old in GOOD
    file = _write(tmp_path, GOOD.replace(old, new))
    (mistake,) = _mistakes(file)
    assert mistake.key == key
    assert mistake.message.startswith(message)


def test_a_file_without_a_matrix_says_so_once(tmp_path: Path) -> None:
    (mistake,) = _mistakes(_write(tmp_path, "campaign: a\n"))
    assert mistake.key == "matrix"
    assert mistake.message.startswith("is missing")


def test_rules_that_leave_no_cell_are_a_mistake(tmp_path: Path) -> None:
    text = GOOD[: GOOD.index("  exclude:")] + "  exclude: {models: '*'}\n"
    (mistake,) = _mistakes(_write(tmp_path, text))
    assert (mistake.key, mistake.message) == ("matrix.exclude", "the rules leave no cell to run")


def test_the_shipped_example_is_right() -> None:
    example = Path(__file__).parents[2] / "examples" / "recall" / "campaign.yaml"
    campaign = load_campaign(example)
    assert len(campaign.matrix.expand()) == 40


def test_a_missing_model_folder_is_a_mistake_at_its_path(tmp_path: Path) -> None:
    text = GOOD.replace("- one\n", "- {name: one, adapter: transformers, path: ./modle}\n")
    (mistake,) = _mistakes(_write(tmp_path, text))
    assert mistake.key == "matrix.models[0].path"
    assert str(tmp_path / "modle") in mistake.message
    assert mistake.line == 9


def test_reading_a_campaign_imports_nothing_heavy(tmp_path: Path) -> None:
    file = _write(tmp_path, GOOD)
    heavy = {"torch", "transformers", "numpy", "pydantic", "typer", "rich"}
    code = (
        "import sys; from benchfleet.campaign.load import load_campaign; "
        f"load_campaign({str(file)!r}); print(sorted({heavy!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


PLUGINS = '''\
class Adapter:
    """Refuses sparse attention, and opens only what is called 'there'."""
    requires = ()
    extra = ""
    @classmethod
    def digest(cls, source):
        if source.endswith("there"):
            return "digest"
        raise ValueError(f"no model at {source}; fetch it first")
    @classmethod
    def check(cls, model, config):
        return "this adapter knows no sparse attention" if config.attention else None

class Lacking(Adapter):
    requires = ("no_such_module_anywhere",)
    extra = "hf"

class _Benchmark:
    version = "1"
    default_generation = {}
    def __init__(self, params):
        if params:
            raise ValueError("takes no parameter")
    def params(self):
        return {}
    def check_subset(self, subset):
        return None
    def data_digest(self, subset):
        if subset == "gone":
            raise ValueError("its data are missing; download them")
        return f"data of {subset}"

class A(_Benchmark): pass
class AB(_Benchmark): pass
'''
ENTRY_POINTS = """\
[benchfleet.models]
picky = picky_plugins:Adapter
lacking = picky_plugins:Lacking
broken = picky_plugins:Nowhere
[benchfleet.benchmarks]
a = picky_plugins:A
a_b = picky_plugins:AB
"""


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """A folder that holds a package as pip would leave it, with entry points of its own."""
    site = tmp_path / "site"
    info = site / "picky_plugins-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: picky-plugins\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (site / "picky_plugins.py").write_text(PLUGINS)
    return site


def _loaded_with(plugins: Path, file: Path) -> list[str]:
    """What loading the file prints where the plugins are installed, less what is always so."""
    code = (
        "import sys\nfrom benchfleet.campaign.load import load_campaign\n"
        "from benchfleet.errors import CampaignError\n"
        "try:\n    cells = load_campaign(sys.argv[1]).matrix.expand()\n"
        "    print(*[f'{c.id} {c.workload.data_digest}' for c in cells], sep='\\n')\n"
        "except CampaignError as error:\n"
        "    print(*[f'{m.line} {m.key}: {m.message}' for m in error.mistakes], sep='\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(file)],
        env={**os.environ, "PYTHONPATH": str(plugins)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_plugins_of_other_packages_are_found_by_name(tmp_path: Path, plugins: Path) -> None:
    file = _write(
        tmp_path,
        """\
        campaign: c
        defaults: {adapter: picky}
        matrix:
          models: [there]
          benchmarks: [a, a_b: [x]]
        """,
    )
    assert _loaded_with(plugins, file) == [
        "there/dense/a data of None",
        "there/dense/a_b_x data of x",
    ]


def test_what_plugins_refuse_is_told_at_its_key(tmp_path: Path, plugins: Path) -> None:
    file = _write(
        tmp_path,
        """\
        campaign: c
        defaults: {adapter: picky}
        matrix:
          models:
            - not-here
            - {name: x, path: ./there}
            - {name: y, model: here, model_kwargs: {b: 1}}
            - {name: z, adapter: lacking, model: there}
            - {name: w, adapter: broken, model: there}
            - {name: v, adapter: picki}
            - {name: u, adapter: mock}
          configs:
            dense: null
            sparse: {attention: {local: 4}}
          benchmarks:
            - a: [b_c, gone]
            - a_b: [c]
            - a: {subsets: x, wrong: 1}
        """,
    )
    assert _loaded_with(plugins, file) == [
        "5 matrix.models[0]: no model at not-here; fetch it first",
        "7 matrix.models[2].model: no model at here; fetch it first",
        "8 matrix.models[3].adapter: adapter 'lacking' needs no_such_module_anywhere; "
        "pip install 'benchfleet[hf]'",
        "9 matrix.models[4].adapter: the plugin 'broken' cannot be imported: module "
        "'picky_plugins' has no attribute 'Nowhere'",
        "10 matrix.models[5].adapter: no adapter 'picki'; did you mean 'picky'?",
        "14 matrix.configs.sparse: this adapter knows no sparse attention (model 'x'); "
        "change it, or exclude the pair",
        "16 matrix.benchmarks[0].a[1]: its data are missing; download them",
        "17 matrix.benchmarks[1].a_b[0]: benchmark 'a' with subset 'b_c' and benchmark 'a_b' "
        "with subset 'c' would share the folder 'a_b_c'; rename one",
        "18 matrix.benchmarks[2].a: takes no parameter",
    ]


def test_a_pair_that_the_adapter_refuses_may_be_excluded(tmp_path: Path, plugins: Path) -> None:
    file = _write(
        tmp_path,
        """\
        campaign: c
        matrix:
          models: [{name: x, adapter: picky, path: ./there}, {name: m, adapter: mock}]
          configs: {dense: null, sparse: {attention: {local: 4}}}
          benchmarks: [a]
          exclude: {models: x, configs: "!dense"}
        """,
    )
    assert [line.split()[0] for line in _loaded_with(plugins, file)] == [
        "x/dense/a",
        "m/dense/a",
        "m/sparse/a",
    ]


def test_the_guide_speaks_of_every_key_and_its_first_example_loads(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "campaign.md").read_text()
    for key in {*models.KEYS, *benchmarks.KEYS, *defaults.KEYS, *load.MACHINE} - {
        "needs",
        "limits",
    }:
        assert f"| `{key}` |" in guide, key
    example = guide.split("```yaml\n")[1].split("```")[0]
    mocked = example.replace("adapter: transformers", "adapter: mock").replace(
        "model_kwargs: {dtype: bfloat16}", "model_kwargs: {}"
    )
    mocked = mocked.replace("path: ./model", "model_kwargs: {answer: '7'}")
    assert len(load_campaign(_write(tmp_path, mocked)).matrix.expand()) == 32
