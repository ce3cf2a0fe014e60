"""Your own script as a benchmark: a command that writes its metrics as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.benchmarks.base import Benchmark, Score, Session
from benchfleet.benchmarks.output_files import alone_with, rename_reserved_files
from benchfleet.benchmarks.parameters import (
    optional_text,
    seconds,
    text,
    text_or_number,
    texts,
    with_defaults,
)
from benchfleet.benchmarks.process import run_process
from benchfleet.benchmarks.reported_scores import Report, find_report, read_report
from benchfleet.benchmarks.source_files import matching_files, missing_script, source_digest
from benchfleet.benchmarks.template_fields import check_fields, filled, has_field
from benchfleet.benchmarks.user_code import importable, optional_aggregate
from benchfleet.domain.cell import Workload

_DEFAULTS: dict[str, Any] = {
    "name": None,
    "argv": None,
    "environment": {},
    "cwd": ".",
    "metric": None,
    "aggregate": None,
    "timeout": None,
    "files": (),
    "inputs": None,
    "outputs": (),
    "identity": None,
    "folder": ".",
    "experiment": None,
    "config": None,
    "output": None,
}


class Command(Benchmark):
    """Runs `argv` once for a cell, without a shell, on the slot's devices.

    Parameters: `name` (how results call it), `argv`, `environment`, `cwd` (from the campaign's
    folder), `metric` (the headline's name), `aggregate` (``module:name`` in the campaign's folder:
    the function that makes the headline of the samples), `timeout`, and `files`: patterns of
    further source files, whose content is part of the identity beside that of the files named in
    `argv`. The patterns in `inputs` replace the files named in `argv`; `outputs` never count, and
    the text `identity` stands for the content of all. As task files of experiments have them:
    `experiment` (another word for `name`), `config` (a file that `{config}` then stands for, at the
    end after ``--config`` where `argv` does not name it) and `output` (a file of the campaign's
    folder that the report is left in too).
    """

    example: ClassVar[str] = "- command: {name: my-eval, argv: [python, eval.py, '{result}']}"
    needs_model: ClassVar[bool] = False
    reads_settings: ClassVar[bool] = True
    why_unseen: ClassVar[str] = "a script asks by itself"
    takes_folder: ClassVar[bool] = True
    takes_identity: ClassVar[bool] = True

    def __init__(self, params: Mapping[str, Any]) -> None:
        values = with_defaults(params, _DEFAULTS)
        if values["name"] is not None and values["experiment"] is not None:
            raise ValueError("experiment stands beside name, which says the same; remove one")
        word = "name" if values["experiment"] is None else "experiment"
        self.name = text(word, values[word])
        self._argv = texts("argv", values["argv"] or None)
        if not self._argv[0]:
            raise ValueError("argv must begin with a command, such as python")
        self._environment = _environment(values["environment"])
        self._cwd = text("cwd", values["cwd"])
        self._metric = optional_text("metric", values["metric"])
        self._aggregate = optional_aggregate(values, Path(values["folder"]).absolute())
        self._declared_timeout = values["timeout"]
        self._timeout = None if values["timeout"] is None else seconds("timeout", values["timeout"])
        self._files = texts("files", values["files"])
        self._inputs = None if values["inputs"] is None else texts("inputs", values["inputs"])
        self._outputs = texts("outputs", values["outputs"])
        self._identity = optional_text("identity", values["identity"])
        self._folder = Path(values["folder"]).absolute()
        self._config = optional_text("config", values["config"])
        self._output = optional_text("output", values["output"])
        if self._config and not any("{config}" in part for part in self._argv):
            self._argv = [*self._argv, "--config", "{config}"]
        if self._output and (Path(self._output).is_absolute() or ".." in Path(self._output).parts):
            raise ValueError(f"output: {self._output!r} leaves the campaign's folder")
        for part in (*self._argv, *self._environment.values(), self._output or ""):
            check_fields(part)

    @classmethod
    def code(cls, workload: Workload) -> str:
        return "a command"

    def params(self) -> Mapping[str, Any]:
        return {
            "name": self.name,
            "argv": self._argv,
            "environment": self._environment,
            "cwd": self._cwd,
            "metric": self._metric,
            **({"aggregate": self._aggregate.name} if self._aggregate else {}),
            **({"config": self._config} if self._config else {}),
        }

    def outside(self) -> Mapping[str, Any]:
        """Where it lies, how long it may take, and what the digest is made of."""
        return {
            "folder": str(self._folder),
            "timeout": self._declared_timeout,
            "files": self._files,
            **({} if self._inputs is None else {"inputs": self._inputs}),
            **({"outputs": self._outputs} if self._outputs else {}),
            **({"identity": self._identity} if self._identity else {}),
            **({"output": self._output} if self._output else {}),
        }

    def check_subset(self, subset: str) -> str | None:
        return None  # the script alone knows which there are

    def data_digest(self, subset: str | None) -> str:
        """The digest of the files named in `files` and in `argv`, or the declared identity. Raises
        ValueError where one, the command or its script is not there."""
        if not self._working_folder.is_dir():
            raise ValueError(f"cwd: folder {self._working_folder} not found")
        self._check_command()
        if self._aggregate:
            self._aggregate.check()
        if self._config and not (self._working_folder / self._config).is_file():
            raise ValueError(f"config: file {self._working_folder / self._config} not found")
        return self._identity or source_digest(self._folder, self._own_files())

    def files(self, subset: str | None) -> Sequence[Path]:
        """The files that the digest is made of, and the folder that the command runs in."""
        return [*self._own_files(), self._working_folder]

    def run(self, session: Session) -> Score:
        scratch = session.scratch.absolute()
        request, result = scratch / "request.json", scratch / "result.json"
        request.write_text(json.dumps(self._request(session, scratch, result), indent=2) + "\n")
        fields = {
            "config": self._working_folder / self._config if self._config else request,
            "config_name": session.config.name,
            "benchmark": self.name,
            "result": result,
            "model": session.model.name,
            "model_path": session.model_path,
            "subset": _or_empty(session.subset),
            "repeat": session.repeat,
            "seed": session.seed,
            "limit": _or_empty(session.limit),
            "scratch": scratch,
        }
        output = self._folder / filled(self._output, fields) if self._output else None
        with alone_with(output, session.check_stop):
            before = _stamp(output)
            own = {name: filled(value, fields) for name, value in self._environment.items()}
            try:
                stdout = run_process(
                    [filled(part, fields) for part in self._argv],
                    folder=self._working_folder,
                    # The handler prints the stack of a Python script that crashes.
                    environment={"PYTHONFAULTHANDLER": "1", **os.environ, "PATH": _path(), **own},
                    timeout=self._timeout,
                    check_stop=session.check_stop,
                )
                if output is not None and not result.exists() and _stamp(output) != before:
                    result.write_bytes(output.read_bytes())  # it wrote there by itself
                reported = find_report(result, scratch, stdout)
                report = self._read(reported)
                if output is not None and _stamp(output) == before:
                    _leave(reported, output)
            finally:
                rename_reserved_files(scratch)
        return report.record(session)

    def _read(self, reported: Any) -> Report:
        if self._aggregate is None:
            return read_report(reported, metric=self._metric)
        with importable(self._aggregate.path):
            return read_report(reported, metric=None, aggregate=self._aggregate.load())

    def _request(self, session: Session, scratch: Path, result: Path) -> dict[str, Any]:
        """The content of ``request.json``: the script's cell."""
        model, config = session.model, session.config
        return {
            "model": {
                "name": model.name,
                "path": session.model_path,
                "adapter": model.adapter,
                "model_kwargs": dict(model.kwargs),
                "tokenizer_kwargs": dict(model.tokenizer_kwargs),
            },
            "config": {
                "name": config.name,
                "attention": [{step.name: dict(step.params)} for step in config.attention],
                "everywhere": config.everywhere,
                "settings": dict(config.settings),
            },
            "benchmark": self.name,
            "subset": session.subset,
            "repeat": session.repeat,
            "seed": session.seed,
            "limit": session.limit,
            "batch_size": session.batch_size,
            "generation": dict(session.generation),
            "scratch": str(scratch),
            "result": str(result),
        }

    @property
    def _working_folder(self) -> Path:
        return self._folder / self._cwd

    def _check_command(self) -> None:
        import shutil  # seldom needed, and slow to import

        command = self._argv[0]
        path = str(self._working_folder / command) if "/" in command else command
        if not has_field(command) and shutil.which(path, path=_path()) is None:
            raise ValueError(f"argv: command {command!r} not found on this machine")
        if script := missing_script(self._argv, self._working_folder):
            raise ValueError(
                f"argv: script {script!r} not found in {self._working_folder}; correct its path"
            )

    def _own_files(self) -> list[Path]:
        inputs = (
            self._named_files()
            if self._inputs is None
            else matching_files(self._folder, self._inputs, key="inputs")
        )
        own = self._aggregate.files() if self._aggregate else []
        files = [*matching_files(self._folder, self._files), *inputs, *own]
        return [file for file in files if not self._is_output(file)]

    def _is_output(self, file: Path) -> bool:
        name = Path(os.path.relpath(file, self._folder)).as_posix()
        patterns = [*self._outputs, *([self._output] if self._output else [])]
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    def _named_files(self) -> list[Path]:
        """The files of the campaign's folder that `argv` names, as ``eval.py`` or ``--x=y.py``."""
        root = self._folder.resolve()
        own = [self._config] if self._config else []
        words = [
            *own,
            *(word for part in self._argv for word in {part, part.partition("=")[2]} if word),
        ]
        paths = [self._working_folder / word for word in words if len(word) < 1024]
        return [
            path for path in paths if os.path.isfile(path) and path.resolve().is_relative_to(root)
        ]


def _environment(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError(f"environment must be a mapping of names to text, not {value!r}")
    for name in value:
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise ValueError(f"environment: {name!r} cannot name a variable")
    return {name: text_or_number(f"environment.{name}", item) for name, item in value.items()}


def _stamp(file: Path | None) -> tuple[int, ...]:
    """Changes whenever the file is written."""
    try:
        seen = os.stat(file) if file is not None else None
    except OSError:
        return ()
    return (seen.st_ino, seen.st_mtime_ns, seen.st_size) if seen else ()


def _leave(report: Any, output: Path) -> None:
    """Leave the report where people look for it; the results have it anyway."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        draft = output.with_name(f".{output.name}.{os.getpid()}")
        draft.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        os.replace(draft, output)
    except OSError as error:
        print(f"benchfleet: {output} could not be written: {error}", file=sys.stderr)


def _or_empty(value: Any) -> Any:
    return "" if value is None else value


def _path() -> str:
    """The search path of commands: ``python`` is the slot's own interpreter."""
    return os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))
