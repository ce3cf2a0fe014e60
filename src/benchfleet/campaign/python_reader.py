"""Reading a Python file that says what `campaign` is, with the lines of what stands literally.

The file is run: only one's own file on the local disk is ever read so.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from itertools import takewhile
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any

from .definitions import campaign_from_definitions
from .plain_data import to_plain_data
from .source import Flaw, KeyPath, Source, TooMuch

_NAME = "campaign"
_MODULE = "__benchfleet_campaign__"


def read_python(text: str, file: Path) -> Source:
    """What `campaign` in `text` is, or returns where it is a function; `file` is where it stands.
    A file may say `PHASES` instead (`campaign.definitions`).

    What the file prints goes to stderr. Modules beside the file can be imported by it, and are
    forgotten afterwards, as the file itself is.
    """
    try:
        tree = ast.parse(text, str(file))
    except (SyntaxError, ValueError) as error:
        return Source(flaws=(_not_python(error),))
    try:
        with _module(file) as module, redirect_stdout(sys.stderr):
            code = compile(tree, str(file), "exec", dont_inherit=True)
            exec(code, module.__dict__)  # noqa: S102 - a campaign in Python is code
            value = module.__dict__.get(_NAME)
            if callable(value):
                value = value()
            with _as_flaw():
                value = campaign_from_definitions({**module.__dict__, _NAME: value}, file) or value
            data, flaws = to_plain_data(value)
    except (TooMuch, _Undefinable) as error:
        return Source(flaws=(Flaw(message=str(error)),))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an error of the file's author
        return Source(flaws=(_flaw(error, file),))
    if value is None and _NAME not in module.__dict__:
        message = "says nowhere what 'campaign' is; write campaign = {...}, or a function of it"
        flaws = [Flaw(message=message)]
    lines: dict[KeyPath, int] = {}
    if (literal := _literal(tree)) is not None:
        _note_lines(literal, (), lines)
    return Source(data=data, lines=lines, flaws=tuple(flaws))


class _Undefinable(Exception):
    """What stands there cannot be a campaign."""


@contextmanager
def _as_flaw() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise _Undefinable(str(error)) from error


@contextmanager
def _module(file: Path) -> Iterator[ModuleType]:
    """A module for the file to run in, which is there as long as it runs."""
    module = ModuleType(_MODULE)
    module.__file__ = str(file)
    before, path = set(sys.modules), list(sys.path)
    sys.modules[_MODULE] = module
    sys.path.insert(0, str(file.parent))
    try:
        yield module
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - before:
            if name == _MODULE or _lies_beside(sys.modules[name], file):
                del sys.modules[name]


def _lies_beside(module: ModuleType, file: Path) -> bool:
    """Whether the module is there only for the file's folder; one below it may be anybody's."""
    file_of_module = Path(getattr(module, "__file__", None) or "/")
    package = module.__name__.partition(".")[0]
    return (
        file_of_module == file.with_name(f"{package}.py")
        or file.with_name(package) in file_of_module.parents
    )


def _not_python(error: SyntaxError | ValueError) -> Flaw:
    if isinstance(error, SyntaxError):
        return Flaw(message=f"is not Python: {error.msg}", line=error.lineno)
    return Flaw(message=f"is not Python: {error}")


def _flaw(error: BaseException, file: Path) -> Flaw:
    """The error with the last line of the file that had a hand in it."""
    lines = [
        line
        for frame, line in walk_tb(error.__traceback__)
        if frame.f_code.co_filename == str(file)
    ]
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return _not_python(error)
    if isinstance(error, SystemExit):
        message = f"ends itself (SystemExit: {error.code}); it must only say what 'campaign' is"
    else:
        message = f"raises {type(error).__name__}: {error}".rstrip(": ")
    return Flaw(message=message, line=lines[-1] if lines else None)


def _literal(tree: ast.Module) -> ast.expr | None:
    """The last expression that `campaign` is set to, or that the function of it returns."""
    literal: ast.expr | None = None
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            literal = node.value if _NAME in names else literal
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            literal = node.value if node.target.id == _NAME else literal
        elif isinstance(node, ast.FunctionDef) and node.name == _NAME:
            returned = [step.value for step in node.body if isinstance(step, ast.Return)]
            literal = returned[-1] if returned else None
    return literal


def _note_lines(node: ast.expr, path: KeyPath, lines: dict[KeyPath, int]) -> None:
    lines.setdefault(path, node.lineno)
    inside: list[tuple[Any, int, ast.expr]] = []  # key or place, its line, what stands there
    if isinstance(node, ast.Dict):
        inside = [
            (key.value, key.lineno, value)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant)
        ]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        inside = [(word.arg, word.lineno, word.value) for word in node.keywords]
    elif isinstance(node, (ast.List, ast.Tuple)):
        inside = [(index, item.lineno, item) for index, item in enumerate(node.elts)]
        inside = list(takewhile(lambda step: not isinstance(step[2], ast.Starred), inside))
    for key, line, value in inside:
        within = (*path, key)
        lines[within] = line
        _note_lines(value, within, lines)
