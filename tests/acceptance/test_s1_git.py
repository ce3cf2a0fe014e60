"""A whole study over three machines that share nothing but a git repository, one of which fails."""

from __future__ import annotations

import subprocess

from campaign_s1 import CELLS, Lab, ended, prove

from .conftest import COMMAND, User


def test_from_probe_to_combined_results(user: User) -> None:
    bare = user.folder / "lab.git"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    url = f"git+file://{bare}"
    with ended(Lab(user.folder, COMMAND, user.environment, url)) as lab:
        done = prove(lab)
        merged = lab.json("merge", "study.yaml")
        assert (merged["done"], len(merged["came"]), merged["missing"]) == (done, done, {})
        verified = lab.json("verify", "study.yaml", code=1)  # e2 is missing
        assert (verified["results"], verified["wrong"]) == (done, [])
        assert verified["missing"] == {"pending": CELLS["e2"]}
        assert "E1-3" in lab.ask("report", "study.yaml")
