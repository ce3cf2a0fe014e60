"""What became of pilots on a real Slurm, and of the cells of the user who submitted them."""

from __future__ import annotations

import contextlib
import fcntl
import signal

import psutil

from benchfleet.campaign.load import load_campaign
from benchfleet.domain.attempt import CellRecord
from benchfleet.study import open_study
from slurm_cluster import SlurmCluster

from .conftest import User, until

BOUND_S = 240.0  # also where other tests use every core


def records(user: User) -> list[CellRecord]:
    campaign = load_campaign(user.folder / "study.yaml")
    study = open_study(campaign, ledger=f"git+file:{user.folder}/lab.git")
    return study.records(study.cells())


def tries(user: User) -> int:
    """How many tries all cells together used up, beside the ones that succeeded."""
    return sum(record.tries - (record.state == "success") for record in records(user))


def states(user: User) -> set[str]:
    return {record.state for record in records(user)}


def all_published(user: User) -> bool:
    """Whether each cell succeeded and its result lies at its public path, a moment later."""
    return states(user) == {"success"} and len(user.published()) == len(records(user))


def pilots(slurm: SlurmCluster) -> dict[str, str]:
    """The state of each job of the user, by its name."""
    lines = slurm.ask("squeue", "--noheader", "--array", "--format=%i %T").splitlines()
    return dict(line.split() for line in lines)


def runs_again(slurm: SlurmCluster) -> bool:
    """Whether the requeued jobs run; they need not wait for two minutes, as Slurm would have it."""
    for job, state in pilots(slurm).items():
        if state == "PENDING":
            slurm._call("scontrol", "update", f"JobId={job}", "StartTime=now")
    return set(pilots(slurm).values()) == {"RUNNING"}


def workers(user: User) -> list[psutil.Process]:
    """The processes of the pilots."""
    matches = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        words = process.info["cmdline"] or []
        if "work" in words and "--ends-at" in words and process.info["cwd"] == str(user.folder):
            matches.append(process)
    return matches


def freeze(family: list[psutil.Process], user: User) -> None:
    """Stop these processes while they do not hold the lock of the mirror of the ledger, for which
    the other pilot would wait: a node that is lost loses its locks."""
    (lock,) = user.folder.rglob("turn")
    while True:
        for process in [*family]:
            try:
                process.send_signal(signal.SIGSTOP)
            except psutil.NoSuchProcess:  # a short one that ended since it was listed
                family.remove(process)
        until(lambda: all(one.status() == psutil.STATUS_STOPPED for one in family))
        with lock.open() as file, contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        for process in family:
            process.send_signal(signal.SIGCONT)


def log_of(user: User) -> str:
    return "".join(file.read_text() for file in user.results.glob(".slurm/*.log"))
