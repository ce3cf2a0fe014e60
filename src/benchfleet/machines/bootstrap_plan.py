"""The steps that bring benchfleet to a host, each of them one command there.

Each version gets an environment of its own, ``<folder>/envs/<environment_name>``, which is a link
to the folder that it was made in: set as the last step, so that what is there is whole, and what
was cut short is never taken for done. Older versions stay.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchfleet.domain.host import Host
from benchfleet.machines import bootstrap_scripts as scripts
from benchfleet.machines.facts import ASK
from benchfleet.machines.wheel import Wheel, environment_of

_INSTALL_TIMEOUT_S = 7200.0  # seconds that an installation may take
_STEP_TIMEOUT_S = 600.0
_SUITED = (
    "import importlib.util as u, sys; "
    "print(*sys.version_info[:2], all(map(u.find_spec, ('venv', 'ensurepip'))), sys.executable)"
)
_SEARCH = f"""\
for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10 \
"$HOME/miniforge3/bin/python3" "$HOME/miniconda3/bin/python3" "$HOME/anaconda3/bin/python3" \
/opt/conda/bin/python3 "$1"/python/*/bin/python3; do
"$python" -c "{_SUITED}" 2>/dev/null; done; uname -m"""
_SYSTEM = """\
for file in /lib/ld-musl-*; do [ -e "$file" ] && echo musl; done
for needed in tar gzip; do command -v "$needed" > /dev/null || echo "$needed"; done; true"""
_UNPACK = """\
cd "$1" && rm -rf "$2.part" && mkdir "$2.part" && gzip -dc "$3" | tar -xf - -C "$2.part" && \
rm -rf "$2" && mv "$2.part/python" "$2" && rm -rf "$2.part" "$3" && true"""
_LIST = 'mkdir -p "$1" && cd "$1" && for file in *.whl; do [ -f "$file" ] && '
_LIST += 'echo "$(wc -c < "$file") $file"; done; true'
_TAKE = """\
mkdir -p "$1" && cat > "$1/$2.part-$$" && [ "$(wc -c < "$1/$2.part-$$")" -eq "$3" ] && \
mv "$1/$2.part-$$" "$1/$2" || { rm -f "$1/$2.part-$$"; exit 1; }"""


@dataclass(frozen=True, kw_only=True)
class EnvironmentSpec:
    """What the environment is made of."""

    wheel: Wheel
    constraints: str = ""  # as pip takes them; "" for none
    extras: tuple[str, ...] = ()
    wheels: tuple[Path, ...] = ()  # files to install from instead of an index
    # The archive of a Python for a type of machine, where none is there that will do; None: such a
    # host is refused.
    python_for: Callable[[str], Path] | None = None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command on the host."""

    title: str  # what it does, such as "make the environment"
    words: tuple[str, ...]
    sent: bytes | Path = b""  # its input
    timeout: float = _STEP_TIMEOUT_S  # seconds


@dataclass(frozen=True)
class Plan:
    """The steps on one host; `token` tells its folders from those of another attempt."""

    host: Host
    spec: EnvironmentSpec
    python: str = "python3"
    token: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def _envs(self) -> str:
        return environment_of(self.host).rpartition("/")[0]

    @property
    def _draft(self) -> str:
        return f"{environment_of(self.host)}.made-{self.token}"

    @property
    def _wheels(self) -> str:
        return f"{self.host.folder.rstrip('/')}/wheels"

    def search(self) -> Step:
        """Which interpreters it has."""
        words = ("sh", "-c", _SEARCH, "sh", self.host.folder.rstrip("/"))
        return Step(title="look for Python", words=words)

    def look_at_system(self) -> Step:
        """Says ``musl`` for that C library, and which programs are missing to unpack a Python."""
        return Step(title="look at its system", words=("sh", "-c", _SYSTEM))

    def send_python(self, archive: Path) -> Iterator[Step]:
        """Bring a Python that `search` finds from now on."""
        folder, name = f"{self.host.folder.rstrip('/')}/python", archive.name
        size = archive.stat().st_size if archive.is_file() else 0
        yield self._sent(folder, name, archive, size)
        unpacked = name.removesuffix(".gz").removesuffix(".tar")
        words = ("sh", "-c", _UNPACK, "sh", folder, unpacked, name)
        yield Step(title="unpack Python", words=words)

    def look(self) -> Step:
        """Whether the environment is there, and whole."""
        words = (f"{environment_of(self.host)}/bin/python", "-c", ASK, self.host.folder)
        return Step(title="look for the environment", words=words)

    def lock(self) -> Step:
        """Says ``held`` when nobody else bootstraps there, until its input ends; ``unlocked``
        where nobody can be kept out; ``refused`` and why if the folder cannot be made. At the end
        it kills what still works on this environment, and removes one that was not published."""
        words = (self.python, "-c", scripts.LOCK, f"{self._envs}/.lock", self._draft)
        return Step(title="lock", words=words)

    def list_wheels(self) -> Step:
        """Which wheels of an earlier time are there, with their sizes."""
        return Step(title="list the wheels there", words=("sh", "-c", _LIST, "sh", self._wheels))

    def prepare(self, *, alone: bool = True) -> Iterator[Step]:
        """An empty environment. Unless we are alone, what looks cut short may be another's."""
        if alone:
            words = (self.python, "-c", scripts.CLEAN, self._envs)
            yield Step(title="remove what was cut short", words=words)
        yield Step(title="make the environment", words=(self.python, "-m", "venv", self._draft))

    def send(self, remote_files: Sequence[str] = ()) -> Iterator[Step]:
        """What is not `remote_files` yet, as `list_wheels` answers."""
        for file in self.spec.wheels:
            size = file.stat().st_size
            if f"{size} {file.name}" not in remote_files:
                yield self._sent(self._wheels, file.name, file, size)
        wheel = self.spec.wheel
        yield self._sent(f"{self._draft}/sent", wheel.name, wheel.data, len(wheel.data))
        if self.spec.constraints:
            text = self.spec.constraints.encode()
            yield self._sent(f"{self._draft}/sent", "constraints.txt", text, len(text))

    def install(self) -> Iterator[Step]:
        """benchfleet and what it needs; torch first and alone, or pip may take another build."""
        extra = f"[{','.join(self.spec.extras)}]" if self.spec.extras else ""
        if {*self.spec.extras} - {"inspect"}:
            yield self._pip("install torch", "torch")
        yield self._pip("install benchfleet", f"{self._draft}/sent/{self.spec.wheel.name}{extra}")

    def check(self) -> Step:
        """Report the facts of the new environment."""
        words = (f"{self._draft}/bin/python", "-c", ASK, self.host.folder)
        return Step(title="check it", words=words)

    def publish(self) -> Step:
        """Put it in its place."""
        words = (self.python, "-c", scripts.PUBLISH, environment_of(self.host), self._draft)
        return Step(title="put it in its place", words=words)

    def _sent(self, folder: str, name: str, data: bytes | Path, size: int) -> Step:
        words = ("sh", "-c", _TAKE, "sh", folder, name, str(size))
        large = f" ({size / 10**6:.1f} MB)" if size >= 10**5 else ""
        return Step(title=f"send {name}{large}", words=words, sent=data, timeout=_INSTALL_TIMEOUT_S)

    def _pip(self, title: str, what: str) -> Step:
        words = [f"{self._draft}/bin/python", "-m", "pip", "install", "--quiet", "--no-input"]
        words += ["--disable-pip-version-check"]
        if self.spec.wheels:
            words += ["--no-index", "--find-links", self._wheels]
        if self.spec.constraints:
            words += ["--constraint", f"{self._draft}/sent/constraints.txt"]
        return Step(title=title, words=(*words, what), timeout=_INSTALL_TIMEOUT_S)

    def rehearsed(self) -> list[Step]:
        """Every step of `bootstrap`, with `python` for whichever is found."""
        first = [self.look(), self.search()]
        if self.spec.python_for is not None:
            archive = self.spec.python_for("<machine>")
            first += [self.look_at_system(), *self.send_python(archive)]
        first += [self.lock(), *self.prepare()]
        listed = [self.list_wheels()] if self.spec.wheels else []
        return [*first, *listed, *self.send(), *self.install(), self.check(), self.publish()]
