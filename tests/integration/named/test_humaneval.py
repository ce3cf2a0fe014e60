"""HumanEval: answers run in a sandbox, or the cell is refused with what to install."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import benchmark_rows as rows
from benchfleet.benchmarks.lm_eval import humaneval, sandbox
from benchfleet.benchmarks.lm_eval.humaneval import HumanEval
from benchfleet.benchmarks.lm_eval.own_tasks.humaneval import score
from benchfleet.benchmarks.lm_eval.sandbox import runs_to_its_end
from benchfleet.errors import CellFailure

from .conftest import answered

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def sandboxed() -> None:
    if not shutil.which("bwrap"):
        pytest.skip("needs bubblewrap: apt-get install bubblewrap")
    assert sandbox.sandbox_problem() == ""


def row(number: int) -> dict[str, str]:
    """As openai/openai_humaneval has them."""
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": 'def add(a, b):\n    """Add two numbers."""\n',
        "canonical_solution": "    return a + b\n",
        "test": "def check(candidate):\n    assert candidate(2, 3) == 5\n",
        "entry_point": "add",
    }


ANSWERS = {
    "right": ("    return a + b\n", 1.0),
    "wrong": ("    return a * b\n", 0.0),
    "no_program": ("    return (\n", 0.0),
    "exit": ("    import sys; sys.exit(0)\n", 0.0),
    "hard_exit": ("    import os; os._exit(0)\n", 0.0),
    "nul": ("    return a\0\n", 0.0),
    "surrogate": ("    return '\ud800'\n", 0.0),
}


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_is_scored_by_running_it(kind: str) -> None:
    text, expected = ANSWERS[kind]
    assert score(row(0), [text]) == {"pass@1": expected}


@pytest.mark.usefixtures("sandboxed")
def test_a_model_is_asked_and_its_answers_are_run(llama: object, tmp_path: Path) -> None:
    data = rows.write(tmp_path, {"test": [row(n) for n in range(2)]})
    generation = {"max_new_tokens": 4}
    score, session = answered("humaneval", llama, None, {"data": str(data)}, generation=generation)
    assert score.overall == 0
    assert len(session.kept) == 2
    assert score.summary["metric"] == "pass@1"


@pytest.mark.usefixtures("sandboxed")
def test_a_program_has_no_network_no_files_of_the_host_and_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert runs_to_its_end("assert 1 + 1 == 2")
    assert runs_to_its_end("import os; assert 'HF_TOKEN' not in os.environ")
    assert not runs_to_its_end(f"open({str(secret)!r})")
    assert not runs_to_its_end("open('/etc/passwd')")
    assert not runs_to_its_end(f"open({os.path.abspath(__file__)!r})")
    assert runs_to_its_end(
        "import socket\n"
        "try: socket.create_connection(('127.0.0.1', 1), 1); assert False\n"
        "except OSError: pass\n"
        "assert [name for _, name in socket.if_nameindex()] == ['lo']"
    )
    assert runs_to_its_end("open('/tmp/benchfleet-sandbox-test', 'w').write('x')")
    assert not Path("/tmp/benchfleet-sandbox-test").exists()
    assert not runs_to_its_end("open('/usr/benchfleet', 'w')")


@pytest.mark.usefixtures("sandboxed")
def test_a_program_is_limited_in_time_memory_and_files() -> None:
    assert not runs_to_its_end("while True: pass", timeout_s=1)
    assert not runs_to_its_end("import time; time.sleep(1000)", timeout_s=1)
    assert not runs_to_its_end("x = bytearray(3 * 2**30)")
    assert not runs_to_its_end("open('/tmp/a', 'wb').write(b'0' * 2**27)")
    parts = "for n in range(4): open(f'/tmp/{n}', 'wb').write(b'0' * 2**25)"
    assert not runs_to_its_end(parts)
    assert runs_to_its_end("print('x' * 10**7)")
    assert not runs_to_its_end("import resource as r; r.setrlimit(r.RLIMIT_AS, (-1, -1))")


def test_without_a_sandbox_it_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox.sandbox_problem.cache_clear()
    try:
        assert "install bubblewrap" in HumanEval({}).missing_data(None)
        assert "install bubblewrap" in HumanEval.unavailable()
        part = HumanEval({}).parts(None)[0]
        with pytest.raises(CellFailure, match="install bubblewrap"):
            humaneval.HumanEval({}).build(part, None)  # type: ignore[arg-type]
    finally:
        sandbox.sandbox_problem.cache_clear()
