"""Verbs with actions, such as ``benchfleet gate show``: each action has its own options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

Options = Callable[[argparse.ArgumentParser], None]
Action = tuple[str, Callable[..., int], Options | None]  # its help, its main, and its own options


def add_actions(
    parser: argparse.ArgumentParser, actions: Mapping[str, Action], options: Options
) -> None:
    """Add actions to a verb, each with these options and its own. Arguments have the main of the
    chosen one as `do`."""
    added = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    for name, (help, main, own_options) in actions.items():
        action_parser = added.add_parser(
            name, help=help, description=help.capitalize(), allow_abbrev=False
        )
        options(action_parser)
        if own_options is not None:
            own_options(action_parser)
        action_parser.add_argument("--debug", action="store_true", help="show an error's traceback")
        action_parser.set_defaults(do=main)
