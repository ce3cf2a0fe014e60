"""The error messages in the source, read from its syntax: what a user may meet, and where."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "benchfleet"
GAP = "…"  # in place of what a message fills in
_OWN_ERROR_FILES = ("errors.py",)
# Errors of Python whose text benchfleet passes on to the user, beside its own classes.
_BUILTIN = {"ValueError", "ArgumentTypeError", "SystemExit", "HTTPException"}
_BUILDERS = {"wrong_option", "Mistake", "CellFailure", "Failure", "with_message"}  # make a message
_KEYWORDS = ("message", "detail", "reason")
_INTERNAL = ("testing/", "slot/", "cli/templates/")  # for authors, between processes, for copies


@dataclass(frozen=True, order=True)
class ErrorMessage:
    """One message with gaps, such as ``invalid port …: use 0 to 65535``."""

    text: str
    error: str  # the class that is raised, or Mistake
    module: str  # file below the package, such as cli/verbs/dashboard.py


@cache
def error_messages(source: Path = SOURCE) -> list[ErrorMessage]:
    """Every message of the package, each text once for each module."""
    files = {file.relative_to(source).as_posix(): file for file in sorted(source.rglob("*.py"))}
    modules = {name: _Module(ast.parse(file.read_text("utf-8"))) for name, file in files.items()}
    errors = _BUILTIN | _own_errors(modules.values())
    messages = {
        ErrorMessage(text, error, name)
        for name, module in modules.items()
        if not name.startswith(_INTERNAL)
        for error, text in module.messages(errors)
    }
    return sorted(messages)


def _own_errors(modules: Iterable[_Module]) -> set[str]:
    """The names of BenchfleetError and of all classes below it."""
    bases: dict[str, set[str]] = {}
    for module in modules:
        for node in module.classes:
            bases.setdefault(node.name, set()).update(map(_last_name, node.bases))
    own = {"BenchfleetError"}
    while more := {name for name, parents in bases.items() if parents & own} - own:
        own |= more
    return own


class _Module:
    """The messages of one module."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        nodes = list(ast.walk(tree))
        self.classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        self._functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}

    def messages(self, errors: Collection[str]) -> Iterator[tuple[str, str]]:
        """Each message with the name of its error, one of `errors` or a call that makes one."""
        for scope in (self._tree, *self._functions.values()):
            nodes = list(_own_nodes(scope))
            values = _assigned(nodes)
            for node in nodes:
                if isinstance(node, ast.Call) and (
                    (name := _last_name(node.func)) in errors or name in _BUILDERS
                ):
                    for argument in _message_arguments(node):
                        yield from ((name, text) for text in self._texts(argument, values))

    def _texts(self, node: ast.expr, values: dict[str, list[ast.expr]]) -> Iterator[str]:
        """What an expression may say: its own text, a variable's, or that of a function here."""
        if isinstance(node, ast.IfExp):
            yield from self._texts(node.body, values)
            yield from self._texts(node.orelse, values)
        elif isinstance(node, ast.Name):
            for value in values.get(node.id, ()):
                yield from self._texts(value, {})
        elif isinstance(node, ast.Call) and (
            function := self._functions.get(_last_name(node.func))
        ):
            for inner in _own_nodes(function):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    yield from self._texts(inner.value, {})
        elif (text := _text(node)) and any(c.isalpha() for c in text):
            yield " ".join(text.split())


def _message_arguments(call: ast.Call) -> list[ast.expr]:
    """The arguments that hold a message: the last one, and those named so."""
    named = [one.value for one in call.keywords if one.arg in _KEYWORDS]
    return named or ([] if call.keywords and not call.args else call.args[-1:])


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module or function, without those of functions inside it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef):
            waiting.extend(ast.iter_child_nodes(node))


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """What each variable of a scope may hold."""
    values: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                values.setdefault(target.id, []).append(node.value)
    return values


def _text(node: ast.expr) -> str:
    """A text with gaps; empty if nothing of it is known."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            parts = [one.value if isinstance(one, ast.Constant) else GAP for one in values]
            return "".join(map(str, parts))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            texts = _text(left), _text(right)
            return "".join(text or GAP for text in texts) if any(texts) else ""
        case _:
            return ""


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
