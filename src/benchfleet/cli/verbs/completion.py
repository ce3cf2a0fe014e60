"""``benchfleet completion``: the script with which a shell completes verbs, options and files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from benchfleet.errors import MissingExtra

SHELLS = ("bash", "zsh", "fish")


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = (
        "examples:\n"
        "  benchfleet completion bash > ~/.local/share/bash-completion/completions/benchfleet\n"
        "  benchfleet completion zsh > ~/.zfunc/_benchfleet    # with fpath+=~/.zfunc in ~/.zshrc\n"
        "  benchfleet completion fish > ~/.config/fish/completions/benchfleet.fish"
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")


def main(arguments: argparse.Namespace) -> int:
    """Print the script."""
    if find_spec("shtab") is None:
        raise MissingExtra("completion needs shtab; pip install 'benchfleet[completion]'")
    import shtab

    from benchfleet.cli.main import parser_of_all_verbs

    parser = parser_of_all_verbs()
    for action in _actions(parser):
        if action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, arguments.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for own in action.choices.values():
                yield from _actions(own)
