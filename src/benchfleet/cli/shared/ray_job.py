"""Refusing to keep what must outlive a Ray job in the job's own folder."""

from __future__ import annotations

from pathlib import Path

from benchfleet.errors import wrong_option
from benchfleet.study import Study

_JOB_FOLDER = "working_dir_files"  # Ray's name for the copies of --working-dir


def refuse_job_folder(study: Study) -> None:
    """Raise CampaignError where results or an embedded ledger would be in the copy of
    ``--working-dir`` that Ray makes for a job, which is lost with the cluster."""
    locations = {
        "--results": (study.layout.root, "/shared/results"),
        "--ledger": (study.home.file, "postgresql://me@db.lab/bench"),
    }
    for option, (location, example) in locations.items():
        if location is not None and _JOB_FOLDER in Path(location).resolve().parts:
            raise wrong_option(
                option,
                f"{location} is in the folder of a Ray job, which is lost with the cluster; "
                f"name a shared place: {option} {example}",
            )
