"""Campaigns that use plugins installed as other packages install them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import write

PLUGINS = '''\
from benchfleet.benchmarks.base import Benchmark
from benchfleet.models.base import Adapter

class Picky(Adapter):
    """Refuses sparse attention, and opens only what is called 'there'."""
    @classmethod
    def digest(cls, source):
        if source.endswith("there"):
            return "digest"
        raise ValueError(f"no model at {source}; fetch it first")
    @classmethod
    def check(cls, model, config):
        return "this adapter knows no sparse attention" if config.attention else None
    load = configure = answer = unload = provenance = print

class Lacking(Picky):
    requires = ("no_such_module_anywhere",)
    extra = "hf"

class Plain:
    """Has what an adapter must have, and is none."""
    digest, check = Picky.digest, Picky.check

class Half(Picky):
    answer = Adapter.answer

class _Benchmark(Benchmark):
    def params(self):
        return {}
    def check_subset(self, subset):
        return None
    def data_digest(self, subset):
        if subset == "gone":
            raise ValueError("its data are missing; download them")
        return f"data of {subset}"
    def run(self, session):
        raise NotImplementedError

class A(_Benchmark): pass
class AB(_Benchmark): pass
'''
ENTRY_POINTS = """\
[benchfleet.models]
picky = picky_plugins:Picky
plain = picky_plugins:Plain
half = picky_plugins:Half
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
    file = write(
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


def test_what_plugins_refuse_is_reported_at_its_key(tmp_path: Path, plugins: Path) -> None:
    file = write(
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
            - {name: u, adapter: plain}
            - {name: t, adapter: mock}
            - {name: s, adapter: half}
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
        "11 matrix.models[6].adapter: adapter 'plain' (picky_plugins:Plain) does not derive from "
        "the base class of its family; make it a subclass of benchfleet.models.base.Adapter",
        "13 matrix.models[8].adapter: adapter 'half' (picky_plugins:Half) lacks answer; write what "
        "the base class benchfleet.models.base.Adapter asks for",
        "16 matrix.configs.sparse: this adapter knows no sparse attention (model 'x'); "
        "change it, or exclude the pair",
        "18 matrix.benchmarks[0].a[1]: its data are missing; download them",
        "19 matrix.benchmarks[1].a_b[0]: benchmark 'a' with subset 'b_c' and benchmark 'a_b' "
        "with subset 'c' would share the folder 'a_b_c'; rename one",
        "20 matrix.benchmarks[2].a: takes no parameter; remove 'wrong'",
    ]


def test_a_pair_that_the_adapter_refuses_may_be_excluded(tmp_path: Path, plugins: Path) -> None:
    file = write(
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
