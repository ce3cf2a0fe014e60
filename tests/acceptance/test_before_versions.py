"""Results that were sealed before adapters and attention configs had versions."""

from __future__ import annotations

import shutil
from pathlib import Path

from .conftest import User

OLD = Path(__file__).parents[1] / "data" / "before_versions"


def test_older_results_are_taken_in_and_say_what_makes_their_cells_new_ones(user: User) -> None:
    shutil.copy(OLD / "study.yaml", user.folder)
    shutil.copytree(OLD / "results", user.results)
    before = user.published()
    assert "2 results taken in" in user.run("ledger", "rebuild", "study.yaml").stdout
    output = user.run("plan", "study.yaml", "--explain", "m/sparse/mock_benchmark").stdout
    assert "  adapter mock: version none → 1\n" in output
    assert "  attention config sink: version none → 1\n" in output
    assert "  attention config local: version none → 1\n" in output
    assert "nothing wrong" in user.run("verify", "study.yaml", "--deep", code=1).stdout
    user.run("run", "study.yaml")
    after = user.published()
    assert len(after) == 4
    assert before.items() <= after.items()
