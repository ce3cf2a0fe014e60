"""A real Slurm on this machine: a controller, two nodes and their own munge, for tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from watchers import ends_with_us, free_port

NODES = ("n1", "n2")
_PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scancel")
_BOUND_S = 120.0
_CONF = """\
ClusterName=bf
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/ctld
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmctldPort={port}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,bf_interval=2,sched_min_interval=0
MpiDefault=none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdTimeout=10
MessageTimeout=5
KillWait=30
GresTypes=gpu
SlurmdParameters=config_overrides
{nodes}
PartitionName=main Nodes=n1,n2 Default=YES PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes=n1,n2 PriorityTier=10 PreemptMode=OFF
"""


def need_slurm() -> None:
    """Skips the test where Slurm or root is missing, and fails it in CI."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [name for name in _PROGRAMS if shutil.which(name, path=path) is None]
    reason = f"no Slurm here ({', '.join(missing)}): it comes with slurm-wlm and munge"
    if not missing and os.geteuid() == 0:
        return
    if os.environ.get("CI") == "true" and missing:
        pytest.fail(reason)
    pytest.skip(reason if missing else "Slurm's daemons need root here")


class SlurmCluster:
    """A controller and the nodes n1 and n2 with four CPUs each, all on this machine.

    The caller calls `remove` at the end, which ends the daemons and all jobs.
    """

    def __init__(self) -> None:
        need_slurm()
        self.folder = Path(tempfile.mkdtemp(prefix="benchfleet-slurm-"))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._watchers: list[subprocess.Popen[bytes]] = []
        for name in ("ctld", "run", *(f"spool/{node}" for node in NODES)):
            (self.folder / name).mkdir(parents=True)
        host = socket.gethostname().partition(".")[0]
        nodes = "\n".join(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} "
            "CPUs=4 RealMemory=2000"
            for node in NODES
        )
        conf = _CONF.format(host=host, folder=self.folder, port=free_port(), nodes=nodes)
        (self.folder / "slurm.conf").write_text(conf)
        cgroup = "CgroupPlugin=cgroup/v1\nIgnoreSystemd=yes\nCgroupAutomount=no\n"
        (self.folder / "cgroup.conf").write_text(cgroup)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)

    @property
    def environment(self) -> dict[str, str]:
        """What makes Slurm's commands talk to this cluster."""
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": path}

    def start(self) -> None:
        """Start the daemons, and wait until both nodes are idle."""
        names = ("socket", "pid-file", "log-file", "seed-file")
        files = [f"--{name}={self.folder}/munge.{name.split('-')[0]}" for name in names]
        key = f"--key-file={self.folder}/munge.key"
        self._start("munged", "munged", "--foreground", "--force", key, *files)
        wait_for((self.folder / "munge.socket").exists)
        self.start_controller(fresh=True)
        for node in NODES:
            self.start_node(node)
        wait_for(lambda: self.states() == ["idle", "idle"])

    def start_controller(self, *, fresh: bool = False) -> None:
        self._start("slurmctld", "slurmctld", "-D", *(["-c"] if fresh else []))

    def start_node(self, node: str) -> None:
        self._start(node, "slurmd", "-D", "-N", node)

    def kill(self, daemon: str) -> None:
        """SIGKILL for slurmctld, or for a node's slurmd alone: its jobs go on."""
        process = self._processes.pop(daemon)
        process.kill()
        process.wait()

    def kill_controller(self) -> None:
        """SIGKILL for slurmctld, once it has saved the jobs that run. It saves only every few
        seconds, starts a job that it forgot a second time, and then drains the job's node."""
        saved, begun = self.folder / "ctld" / "job_state", time.time()
        job = self.ask("squeue", "--noheader", "--format=%A").split()[0]
        self.ask("scontrol", "update", f"JobId={job}", "Comment=saved")
        wait_for(lambda: saved.exists() and saved.stat().st_mtime > begun)
        self.kill("slurmctld")

    def states(self) -> list[str]:
        """How each node is."""
        done = self._call("sinfo", "--noheader", "--Node", "--partition=main", "--format=%t")
        return done.stdout.split()

    def ask(self, *words: str) -> str:
        """What a command of Slurm prints."""
        done = self._call(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def answers(self) -> bool:
        """Whether the controller does."""
        return self._call("squeue", "--noheader").returncode == 0

    def cancel_all(self) -> None:
        """End all jobs, and wait until none is left."""
        self._call("scancel", "--user=root")
        self._call("scancel", "--user=root", "--signal=KILL")
        wait_for(lambda: not self.ask("squeue", "--noheader", "--states=all", "--format=%T %i")
                 or not self.ask("squeue", "--noheader"))  # fmt: skip
        wait_for(lambda: self.states() == ["idle", "idle"])

    def remove(self) -> None:
        """End all of it."""
        self._call("scancel", "--user=root", "--signal=KILL", "--full")
        self._call("scancel", "--user=root")
        for name in [*NODES, "slurmctld", "munged"]:
            if (process := self._processes.pop(name, None)) is not None:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        for watcher in self._watchers:
            watcher.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, name: str, *command: str) -> None:
        with open(self.folder / f"{name}.out", "ab") as out:
            self._processes[name] = process = subprocess.Popen(
                command,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._watchers.append(ends_with_us(f"kill {process.pid}"))

    def _call(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **self.environment}
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)


def wait_for(condition: Callable[[], object], seconds: float = _BOUND_S) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
