"""The order that a bootstrap's steps are taken in, against a host that is made up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pytest

from bare_machine import facts_of
from benchfleet.domain.host import Host
from benchfleet.machines.bootstrap import (
    BootstrapFailed,
    Python,
    bootstrap,
    download_command,
    suitable_python,
)
from benchfleet.machines.bootstrap_plan import EnvironmentSpec, Plan, Step
from benchfleet.machines.facts import Facts
from benchfleet.machines.wheel import Wheel, environment_name, environment_of

HOST = Host(name="lab1")
WANTED = EnvironmentSpec(wheel=Wheel(name="benchfleet-1-py3-none-any.whl", data=b"wheel"))
FACTS = facts_of()


@dataclass(frozen=True)
class Said:
    code: int = 0
    out: str = ""
    err: str = ""


def reported(facts: Facts = FACTS) -> Said:
    return Said(out=json.dumps({"benchfleet_facts": 1, **asdict(facts)}))


@dataclass
class Lab:
    """A host that answers each step as `answers` says, or well."""

    answers: dict[str, Said] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    locked: bool = False
    has_locks: bool = True
    while_locking: Callable[[], None] = lambda: None

    def ask(self, step: Step) -> Said:
        self.steps.append(step)
        well = {
            "look for the environment": Said(code=127, err="not found"),
            "look for Python": Said(out="3 12 True /usr/bin/python3\nx86_64\n"),
            "check it": reported(),
        }
        return self.answers.get(step.title, well.get(step.title, Said()))

    @contextmanager
    def hold(self, step: Step) -> Iterator[bool]:
        assert step.words[0] == "/usr/bin/python3"
        self.while_locking()
        self.locked = True
        yield self.has_locks
        self.locked = False

    def bootstrap(self, wanted: EnvironmentSpec = WANTED) -> list[str]:
        """The titles of the steps taken."""
        bootstrap(HOST, wanted, ask=self.ask, hold=self.hold, tell=self.messages.append)
        return [step.title for step in self.steps]


def test_an_environment_is_put_in_its_place_as_the_last_step() -> None:
    assert Lab().bootstrap() == [
        "look for the environment",
        "look for Python",
        "look for the environment",
        "remove what was cut short",
        "make the environment",
        "send benchfleet-1-py3-none-any.whl",
        "install benchfleet",
        "check it",
        "put it in its place",
    ]


def test_one_that_is_there_and_whole_is_left_alone() -> None:
    lab = Lab({"look for the environment": reported()})
    assert lab.bootstrap() == ["look for the environment"]
    assert lab.messages == [f"{environment_name()} is already there"]


def test_one_that_another_bootstrap_made_meanwhile_is_taken() -> None:
    lab = Lab()
    lab.while_locking = lambda: lab.answers.update({"look for the environment": reported()})
    assert "make the environment" not in lab.bootstrap()
    assert "another bootstrap made it" in lab.messages[-1]


@pytest.mark.parametrize(
    ("extras", "there", "enough"),
    [
        (("hf",), {}, False),
        (("hf",), {"torch": "2.6"}, False),
        (("hf",), {"torch": "2.6", "transformers": "5.0"}, True),
        (("lm-eval",), {"torch": "2.6", "transformers": "5.0"}, False),
        (("lm-eval",), {"torch": "2.6", "transformers": "5.0", "lm_eval": "0.4.13"}, True),
        (("hf", "inspect"), {"torch": "2.6", "transformers": "5.0"}, False),
        (("inspect",), {"inspect_ai": "0.3.285"}, True),
        ((), {"torch": "2.6"}, True),
    ],
)
def test_an_environment_that_lacks_the_extra_is_made_again(
    extras: tuple[str, ...], there: dict[str, str], enough: bool
) -> None:
    lab = Lab({"look for the environment": reported(replace(FACTS, packages=there))})
    titles = lab.bootstrap(EnvironmentSpec(wheel=WANTED.wheel, extras=extras))
    assert ("put it in its place" in titles) != enough
    assert any("is already there" in line for line in lab.messages) == enough


def test_nothing_is_removed_where_another_bootstrap_cannot_be_kept_out() -> None:
    titles = Lab(has_locks=False).bootstrap()
    assert "remove what was cut short" not in titles
    assert titles[-1] == "put it in its place"


@pytest.mark.parametrize(
    "step", ["make the environment", "send benchfleet-1-py3-none-any.whl", "check it"]
)
def test_a_step_that_fails_is_named_and_nothing_is_put_in_its_place(step: str) -> None:
    lab = Lab({step: Said(code=1, err="No space left on device")})
    with pytest.raises(BootstrapFailed, match=f"could not {step}: No space left on device"):
        lab.bootstrap()
    assert lab.steps[-1].title == step


def test_other_code_than_ours_is_not_put_in_its_place() -> None:
    other = Facts(**{**asdict(FACTS), "environment": "0.9-ffffffff", "gpus": ()})
    with pytest.raises(BootstrapFailed, match=r"wrong environment 0\.9-ffffffff"):
        Lab({"check it": reported(other)}).bootstrap()


def test_torch_is_installed_first_and_alone() -> None:
    lab = Lab()
    titles = lab.bootstrap(
        EnvironmentSpec(wheel=WANTED.wheel, extras=("hf", "inspect"), constraints="torch==2.6\n")
    )
    assert titles.index("install torch") + 1 == titles.index("install benchfleet")
    torch, ours = (step.words for step in lab.steps if step.title.startswith("install"))
    assert torch[-1] == "torch"
    assert ours[-1].endswith("/sent/benchfleet-1-py3-none-any.whl[hf,inspect]")
    assert all("--constraint" in words for words in (torch, ours))


def test_wheels_that_are_there_are_not_sent_again(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / f"{name}-1-py3-none-any.whl").write_bytes(b"123")
    lab = Lab({"list the wheels there": Said(out="       3 old-1-py3-none-any.whl\n")})
    titles = lab.bootstrap(EnvironmentSpec(wheel=WANTED.wheel, wheels=tuple(tmp_path.iterdir())))
    assert "send new-1-py3-none-any.whl" in titles
    assert "send old-1-py3-none-any.whl" not in titles
    (install,) = (step.words for step in lab.steps if step.title == "install benchfleet")
    assert install[install.index("--no-index") : install.index("--no-index") + 3] == (
        "--no-index",
        "--find-links",
        "~/.benchfleet/wheels",
    )


PIP_WITHOUT_WAY = """\
WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError(\
'<connection object>: Failed to establish a new connection: [Errno -3] Temporary failure in name \
resolution')': /simple/torch/
ERROR: Could not find a version that satisfies the requirement torch (from versions: none)
ERROR: No matching distribution found for torch
"""


def test_a_host_without_internet_is_reported_with_how_to_send_wheels() -> None:
    lab = Lab({"install benchfleet": Said(code=1, err=PIP_WITHOUT_WAY)})
    with pytest.raises(BootstrapFailed) as caught:
        lab.bootstrap()
    output = str(caught.value)
    assert "No matching distribution found for torch\nit has no way to the package index" in output
    assert "pip download --dest wheels" in output
    assert "--wheels wheels" in output


def test_wheels_that_lack_something_are_reported() -> None:
    file = Path(__file__)
    wanted = EnvironmentSpec(wheel=WANTED.wheel, wheels=(file,))
    lab = Lab({"install benchfleet": Said(code=1, err="ERROR: No matching distribution for rich")})
    with pytest.raises(BootstrapFailed, match="distribution for rich\nthe folder of wheels must"):
        lab.bootstrap(wanted)


def test_another_error_of_pip_is_reported_as_it_is() -> None:
    lab = Lab({"install benchfleet": Said(code=1, err="ERROR: disk full\nnotice: a new pip")})
    with pytest.raises(BootstrapFailed, match=r"could not install benchfleet: ERROR: disk full$"):
        lab.bootstrap()


def test_the_first_python_that_will_do_is_taken() -> None:
    found = "noise\n3 8 True /usr/bin/python3\n3 11 False /usr/bin/python3.11\n3 12 True /o p/py\n"
    assert suitable_python(found) == Python(path="/o p/py", version=(3, 12))


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ("x86_64\n", "no Python 3.10 or newer is there; install one"),
        ("3 8 True /usr/bin/python3\n", r"\(/usr/bin/python3 is 3.8\)"),
        ("3 11 False /usr/bin/python3\n", "/usr/bin/python3 cannot make environments"),
    ],
)
def test_a_host_without_a_python_that_will_do_is_reported(found: str, says: str) -> None:
    with pytest.raises(BootstrapFailed, match=says):
        suitable_python(found)


def test_the_download_is_for_the_hosts_python_and_machine() -> None:
    command = download_command(Python(path="", version=(3, 10)), "aarch64", ["hf", "inspect"])
    assert "--python-version 3.10" in command
    assert "manylinux2014_aarch64" in command
    assert "tomli" in command
    assert "torch" in command
    assert "inspect" not in command  # it needs Python 3.11
    newer = download_command(Python(path="", version=(3, 12)), "x86_64", ["inspect", "benchmarks"])
    assert "inspect-ai" in newer
    assert "rouge" in newer
    assert "tomli" not in download_command(Python(path="", version=(3, 12)), "x86_64", [])


def test_a_rehearsal_holds_every_step_that_a_bootstrap_takes() -> None:
    lab = Lab()
    wanted = EnvironmentSpec(
        wheel=WANTED.wheel, extras=("hf", "inspect"), constraints="x", wheels=(Path(__file__),)
    )
    taken = set(lab.bootstrap(wanted))
    rehearsed = Plan(HOST, wanted).rehearsed()
    assert taken | {"lock"} == {step.title for step in rehearsed}
    inside = f"{environment_of(HOST)}.made-"
    assert any(word.startswith(inside) for step in rehearsed for word in step.words)
