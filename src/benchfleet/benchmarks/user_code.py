"""A function or class of a user's own, named ``module:name``: found, checked and imported."""

from __future__ import annotations

import ast
import contextlib
import importlib
import re
import symtable
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchfleet.benchmarks.source_files import is_source
from benchfleet.errors import CellFailure
from benchfleet.hints import hint

_NAME = re.compile(
    r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<attribute>[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
)
_STAR = re.compile(r"^\s*from\s.+\simport\s+\*", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class UserCode:
    """What is called ``module:name`` in the folder `path`."""

    key: str  # the parameter that names it
    module: str
    attribute: str
    path: Path

    @classmethod
    def parse(cls, key: str, value: Any, path: Path) -> UserCode:
        """Read the value of the parameter `key`. Raises ValueError."""
        match = _NAME.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise ValueError(f"{key} must be module:name, such as my_eval:run, not {value!r}")
        return cls(key=key, module=match["module"], attribute=match["attribute"], path=path)

    @property
    def name(self) -> str:
        """``module:name``"""
        return f"{self.module}:{self.attribute}"

    @property
    def _file(self) -> Path:
        folder = self.path.joinpath(*self.module.split("."))
        return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")

    def files(self) -> list[Path]:
        """The module, or the whole package that it is in."""
        top = self.path / self.module.partition(".")[0]
        own = [top.with_suffix(".py")] if not top.is_dir() else sorted(top.rglob("*.py"))
        return [file for file in own if is_source(file.relative_to(self.path))]

    def check(self) -> None:
        """Raises ValueError if the module is not there or lacks the name, as far as its text
        tells."""
        file = self._file
        if not file.is_file():
            raise ValueError(f"{self.key}: module {self.module} not found in {self.path}")
        source, first = file.read_text("utf-8-sig"), self.attribute.partition(".")[0]
        try:
            table = symtable.symtable(source, str(file), "exec")
        except SyntaxError as error:
            message = f"{self.key}: {file.name}, line {error.lineno}: {error.msg}"
            raise ValueError(message) from error
        known_names = [
            s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()
        ]
        if first in known_names or _STAR.search(source) or "__getattr__" in known_names:
            return
        raise ValueError(f"{self.key}: {self.module} has no {first!r}; {hint(first, known_names)}")

    def arguments(self) -> dict[str, bool] | None:
        """The arguments that a function takes by name, each with whether it must be given. None
        where its text does not tell: of a class, or a function with ``**`` or a decorator."""
        tree = ast.parse(self._file.read_text("utf-8-sig"))
        bound = [one for one in ast.walk(tree) if _binds(one, self.attribute)]
        match bound:
            case [ast.FunctionDef(decorator_list=[], args=found)] if bound[0] in tree.body:
                pass
            case _:
                return None
        if found.kwarg:
            return None
        positional = [*found.posonlyargs, *found.args]
        optional = {one.arg for one in positional[len(positional) - len(found.defaults) :]}
        for one, default in zip(found.kwonlyargs, found.kw_defaults, strict=True):
            if default is not None:
                optional.add(one.arg)
        by_name = found.args if found.posonlyargs else found.args[1:]  # the first is the model
        named = [*by_name, *found.kwonlyargs]
        return {one.arg: one.arg not in optional for one in named}

    def load(self) -> Any:
        """Import it; inside `importable`. Raises CellFailure."""
        module = importlib.import_module(self.module)
        file = getattr(module, "__file__", None)
        if file is None or not Path(file).resolve().is_relative_to(self.path.resolve()):
            raise user_error(
                f"the name {self.module!r} is taken by {file or 'a module of Python itself'}; "
                "give your module another"
            )
        target: Any = module
        for part in self.attribute.split("."):
            if not hasattr(target, part):
                raise user_error(f"{self.module} has no {self.attribute!r}")
            target = getattr(target, part)
        return target


def _binds(node: ast.AST, name: str) -> bool:
    """Whether a module's name is given a value there."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return node.name == name
        case ast.Name(ctx=ast.Store()):
            return node.id == name
        case ast.alias():
            return (node.asname or node.name) in {name, "*"}
        case _:
            return False


def optional_aggregate(values: Mapping[str, Any], path: Path) -> UserCode | None:
    """The parameter `aggregate`; None if it is not set. Raises ValueError."""
    if values["aggregate"] is None:
        return None
    if values["metric"] is not None:
        raise ValueError("aggregate makes the headline, and metric names another; remove one")
    return UserCode.parse("aggregate", values["aggregate"], path)


@contextlib.contextmanager
def importable(path: Path) -> Iterator[None]:
    """Modules in `path` can be imported, as their files are now; afterwards none of them stays.

    No bytecode is written: Python compares only size and whole seconds to detect changes.
    """
    folder = str(path.resolve())
    known_modules = set(sys.modules)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
        with contextlib.suppress(ValueError):  # the user's code may have changed it
            sys.path.remove(folder)
        for name in set(sys.modules) - known_modules:
            file = getattr(sys.modules[name], "__file__", None)
            installed = name.split(".")[0] == "benchfleet" or "site-packages" in (file or "")
            if file and not installed and Path(file).is_relative_to(folder):
                del sys.modules[name]


def user_error(message: str) -> CellFailure:
    """The failure of a user's own code."""
    return CellFailure(stage="benchmark", kind="user_error", message=message)
