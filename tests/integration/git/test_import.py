"""Results of an earlier tool, taken over into a ledger in git."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

from benchfleet.campaign.load import load_campaign
from benchfleet.compat.import_cells import Published
from benchfleet.compat.legacy_import import import_results
from benchfleet.compat.legacy_repository import Entry
from benchfleet.domain.cell import Cell
from benchfleet.ledger.git.batched import BatchedLedger
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.results.layout import Layout
from benchfleet.runner.recovery.rebuild import RebuildSummary, rebuild
from benchfleet.runner.resources.local_host import LocalHost
from benchfleet.study import open_study
from benchfleet.testing import sample_cell
from repositories import git, make_bare

STUDY = """\
campaign: study
matrix: {models: [{name: m, adapter: mock}], configs: {dense: null}, benchmarks: [mock_benchmark]}
"""


def test_a_hosted_repository_is_waited_for_and_spared(tmp_path: Path) -> None:
    bare = make_bare(tmp_path / "lab.git")
    layout = Layout(tmp_path / "results")
    cells = [sample_cell(number) for number in range(5)]
    found: list[tuple[Cell, Entry]] = [
        (cell, Entry(name=f"{cell.id}.json", content={"success_rate": 0.5}, score=0.5))
        for cell in cells
    ]
    inside = GitLedger(
        f"git+file://{bare}", campaign="study", folder=tmp_path / "mine", max_age=0.0
    )
    with closing(BatchedLedger(inside, clock=lambda: 100.0 * time.monotonic())) as ledger:
        ledger.enroll(cells)
        end = import_results(ledger, layout, found[:4], source="old")
        assert end == Published(published=4, already_done=0, busy=[])
        again = import_results(ledger, layout, found[:4], source="old")
        assert again == Published(published=0, already_done=4, busy=[])
    assert len(list(layout.root.glob("**/imported.json"))) == 4
    log = git(bare, "log", "--format=%s", "--glob=refs/benchfleet/study/log").splitlines()
    assert sum(line.startswith("claim ") for line in log) == 1


def test_a_ledger_is_rebuilt_in_a_hosted_repository(tmp_path: Path) -> None:
    layout, cell = Layout(tmp_path / "results"), sample_cell()
    entry = Entry(name="one.json", content={"success_rate": 0.5}, score=0.5)
    earlier = MemoryLedger()
    earlier.enroll([cell])
    import_results(earlier, layout, [(cell, entry)], source="old")
    url = f"git+file://{make_bare(tmp_path / 'lab.git')}"
    inside = GitLedger(url, campaign="study", folder=tmp_path / "mine", max_age=0.0)
    with closing(BatchedLedger(inside, clock=lambda: 100.0 * time.monotonic())) as ledger:
        assert rebuild(ledger, layout, LocalHost()) == RebuildSummary(
            entered=1, unchanged=0, refused=()
        )
        assert [record.state for record in ledger.cells()] == ["success"]


def test_an_installation_is_one_from_its_first_look_on(tmp_path: Path) -> None:
    bare = make_bare(tmp_path / "lab.git")
    (tmp_path / "study.yaml").write_text(STUDY)
    study = open_study(load_campaign(tmp_path / "study.yaml"), ledger=f"git+file://{bare}")
    assert not study.layout.root.parent.exists()
    with closing(study.open_ledger()) as ledger:
        assert ledger.store.folder.parent == study.layout.root / ".ledger"  # type: ignore[attr-defined]
