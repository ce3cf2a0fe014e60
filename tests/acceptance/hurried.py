"""benchfleet whose minutes are seconds."""

from __future__ import annotations

import subprocess
import sys

from .conftest import User

SHORT = """\
from benchfleet.git import process
from benchfleet.ledger.git import batched, ledger, push_queue
from benchfleet.providers import vast
from benchfleet.rentals import prepare
from benchfleet.runner import run_state, worker_time

push_queue.INTERVAL_S = 0.1  # a hosted repository that takes many pushes a minute
ledger.LISTS_EVERY_S = 0.2
worker_time.AWAY_LIMIT_S = 2.0
run_state.SILENT_S = 0.5
process.INTERRUPTED_TIMEOUT_S = 2.0
vast.INTERVALS.update(dict.fromkeys(vast.INTERVALS, 0.1))  # a provider that takes many requests
prepare._PAUSE_S = 0.3
"""


def start_hurried(user: User, *words: str) -> subprocess.Popen[str]:
    """Start benchfleet with short times."""
    return start_with(user, SHORT, *words)


def start_with(user: User, settings: str, *words: str) -> subprocess.Popen[str]:
    """Start benchfleet after these lines of Python, which set times of it."""
    lines = ["import sys", settings, "from benchfleet.cli.main import main", "sys.exit(main())"]
    process = subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines), *words],
        cwd=user.folder,
        env=user.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    user.started.append(process)
    return process
