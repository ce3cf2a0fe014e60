"""The docs site: built strictly, complete, searchable without a server, no request elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import cast

import pytest

import benchfleet
from benchfleet.campaign.schema import campaign_schema
from benchfleet.cli.main import VERBS
from benchfleet.dashboard.app import plain_application
from benchfleet.dashboard.campaigns import Campaigns
from benchfleet.dashboard.stream import Streams
from benchfleet.domain.failure import KINDS
from browsers import BROWSER, WatchedPage, chromium

pytest.importorskip("mkdocs")
tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on
requirements = pytest.importorskip("packaging.requirements")

ROOT = Path(__file__).parents[2]


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BUILD = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

absent = {*sys.argv[1].split(",")}
sys.meta_path.insert(0, Absent())
from mkdocs.__main__ import cli
cli(["build", "--quiet", "--strict", "--site-dir", sys.argv[2]])
"""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def brought_by(extra: str) -> set[str]:
    """The packages that are installed with this extra of ours."""
    extras = PROJECT["optional-dependencies"]
    waiting = [(line, "") for line in (*PROJECT["dependencies"], *extras[extra])]
    seen: set[tuple[str, str]] = set()
    while waiting:
        line, of = waiting.pop()
        requirement = requirements.Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": of}):
            continue
        name = normal(requirement.name)
        for part in {"", *requirement.extras} - {part for one, part in seen if one == name}:
            seen.add((name, part))
            own = name == "benchfleet"
            lines = extras.get(part, ()) if own else requires(name) or ()
            waiting += [(line, part) for line in lines]
    return {name for name, _ in seen}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built with nothing but what the extra ``docs`` brings."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    brought = brought_by("docs")
    installed = packages_distributions().items()
    absent = [module for module, names in installed if not {*map(normal, names)} & brought]
    assert "torch" in absent
    done = subprocess.run(
        [sys.executable, "-c", BUILD, ",".join(absent), str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_the_reference_describes_each_verb_and_each_key(site: Path) -> None:
    commands = (site / "reference-cli.html").read_text("utf-8")
    assert all(f"usage: benchfleet {verb} " in commands for verb in VERBS)
    assert "usage: benchfleet slurm submit " in commands
    keys = (site / "reference-campaign.html").read_text("utf-8")
    for key, value in campaign_schema()["properties"].items():
        assert f"<code>{key}</code>" in keys
        assert value["description"] in unescape(keys)
    assert re.search(r"<h2[^>]*>matrix.models\[\].needs<.*<code>vram</code>", keys, re.DOTALL)


def test_the_navigation_shows_each_entry(site: Path) -> None:
    """Material hides a README below its section if `navigation.indexes` is on."""
    shown = re.findall(r'class="md-ellipsis">\s*([^<]+?)\s*<', (site / "index.html").read_text())
    for line in (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2].splitlines():
        assert not line or line.strip("- ").partition(":")[0] in map(unescape, shown), line


def test_the_references_of_python_and_http_have_every_public_name_and_address(site: Path) -> None:
    python = unescape((site / "reference-python.html").read_text("utf-8"))
    for name in benchfleet.__all__:
        assert re.search(rf"<h2[^>]*>benchfleet\.{name}<", python), name
    package = Path(benchfleet.__file__).parent
    inner = {"campaign", "ledger/sqlite", "orders", "reports/charts", "testing/contract"}
    folders = {file.parent.relative_to(package).as_posix() for file in package.rglob("base.py")}
    for folder in folders - inner:
        assert f">benchfleet.{folder.replace('/', '.')}.base<" in python
    http = (site / "reference-http.html").read_text("utf-8")
    paths = plain_application(cast(Campaigns, None), cast(Streams, None)).openapi()["paths"]
    for path, methods in paths.items():
        assert all(f"{method.upper()} {path}" in http for method in methods)
    troubleshooting = unescape((site / "troubleshooting.html").read_text("utf-8"))
    assert all(f"<code>{kind}</code>" in troubleshooting for kind in KINDS)


def test_pages_outside_docs_and_lists_in_lists_are_shown(site: Path) -> None:
    demo = (site / "examples" / "recall" / "index.html").read_text("utf-8")
    assert "<h1" in demo
    assert 'href="examples/recall/campaign.yaml"' in (site / "campaign.html").read_text("utf-8")
    assert (site / "examples" / "recall" / "campaign.yaml").is_file()
    design = (site / "architecture.html").read_text("utf-8")
    (schedule,) = re.findall(r"<li><strong>The schedule</strong>.*?</ul>", design, re.DOTALL)
    source = (ROOT / "docs/architecture.md").read_text("utf-8")
    (step,) = re.findall(r"^1\. \*\*The schedule\*\*.*?^2\. ", source, re.DOTALL | re.MULTILINE)
    assert schedule.count("<li>") == 1 + step.count("\n   - ") > 2


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_the_site_searches_in_files_and_asks_nothing_of_other_hosts(site: Path) -> None:
    for file in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"(//|\w+://)[^>]*>", file.read_text()
        )
        assert loaded == [], file
    with chromium() as browser:
        watched = WatchedPage(browser, "file://")
        watched.page.goto((site / "index.html").as_uri())
        watched.page.locator("input[name=query]").fill("quarantine")
        result = watched.page.locator(".md-search-result__item", has_text="Glossary")
        result.first.wait_for()
        watched.check()
