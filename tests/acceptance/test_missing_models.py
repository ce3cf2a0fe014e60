"""A report of results whose models are not here any more."""

from __future__ import annotations

import re

from .conftest import MOCK, User

GONE = "{name: m2, adapter: transformers, path: ./gone}"


def test_results_of_a_model_whose_folder_is_gone_are_reported(user: User) -> None:
    user.write(MOCK)
    user.run("run", "study.yaml")
    own = (user.folder / "study.yaml").read_text()
    gone = re.sub("{name: m2.*", GONE, own)
    (user.folder / "gone.yaml").write_text(gone)
    for more in ((), ("--results", "benchmark_results")):
        output = user.run("report", "gone.yaml", "--format", "csv", *more)
        assert output.stdout == user.run("report", "study.yaml", "--format", "csv", *more).stdout
        assert (
            "gone is not there; name the folder that holds config.json; this has all cells of"
            in (output.stderr)
        )
    (user.folder / "gone.yaml").write_text(f"{gone}x: 1\n")
    assert "2 mistakes" in user.run("report", "gone.yaml", code=2).stderr
    (user.folder / "gone.yaml").write_text(gone.replace("study", "new"))
    assert "gone is not there" in user.run("report", "gone.yaml", code=2).stderr
