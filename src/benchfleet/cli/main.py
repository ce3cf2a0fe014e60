"""The command line: one verb a file, imported when it is asked for, and one way to end."""

from __future__ import annotations

import argparse
import gc
import io
import os
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

import benchfleet
from benchfleet.cli.text.terminal import printable
from benchfleet.errors import BenchfleetError, CampaignError, LedgerError

VERBS = {
    # describe
    "init": "write a campaign file for what this machine can run",
    "plan": "check a campaign and list its cells; runs nothing",
    "schema": "print the JSON Schema of a campaign file, for editors",
    # run
    "run": "run what is not done yet, and show what won",
    "attach": "see again what a run does, from any shell",
    "stop": "ask a run to end in good order",
    "slots": "what the slots of a run do; add, drain and remove devices while it runs",
    # share
    "work": "run what this host may of a shared ledger, until nothing is left",
    "phase": "lists of what phases have to do, in a git repository",
    "gate": "the gates between a campaign's phases: show, check, override",
    "probe": "see what this machine has and can do, and write its capability report",
    "assign": "share a campaign's cells out over machines, so that all are done soonest",
    "reassign": "give what a failed machine held to the others",
    "merge": "bring the results of all hosts into this one's folder, each checked",
    "hosts": "check the machines of an inventory, or bring benchfleet to them",
    "service": "write a systemd unit that runs a campaign, also after a restart",
    # look
    "status": "how far a campaign is, who runs what, and what failed",
    "report": "what won, by how much, and whether it is sure",
    "failures": "what failed and why, grouped, each with the way out",
    "logs": "what a cell printed, attempt by attempt",
    # care
    "retry": "give cells that ended badly another chance",
    "cancel": "end cells that are not wanted any more",
    "release": "give back cells that a runner holds",
    "reap": "take cells from runners that died",
    "rescore": "score again what was answered, without asking the model",
    "verify": "whether every result is there and as it was sealed; mends what is not",
    "archive": "pack old attempts, logs and raw files, or move them; never a result",
    "gc": "delete old attempts and logs; never a result",
    "ledger": "care for the ledger: make, check, copy or rebuild it",
    "doctor": "whether this machine, a campaign and its hosts are fit to run, and what to mend",
}
_RARELY = 100_000  # objects between two searches for cycles
_ENDINGS = """\
ends with 0 where all cells succeeded, 1 where some did not, 2 on bad usage or a bad campaign,
3 where the ledger cannot be used, 130 when it was interrupted"""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = sys.argv[1:] if words is None else words
    gc.set_threshold(_RARELY)  # what only looks is over before there is much to be found
    _tolerate_bad_streams()
    try:
        return _run(words)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader left; nothing more to say
        return 128 + signal.SIGPIPE
    except (BenchfleetError, OSError) as error:
        if "--debug" in words:
            raise
        told = f"benchfleet: {_plain(error)}"
        print(error if isinstance(error, CampaignError) else told, file=sys.stderr)
        return 3 if isinstance(error, LedgerError) else 2


def _plain(error: BenchfleetError | OSError) -> str:
    """What it says, without the system's number for it."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    where = f"{printable(str(error.filename))}: " if error.filename else ""
    return f"{where}{error.strerror}"


def _tolerate_bad_streams() -> None:
    """A closed stream swallows what is written, and one without ± still gets the rest."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as we run
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


class _Words(argparse.ArgumentParser):
    """Tells of a mistake without the password that an address among the words may hold."""

    def error(self, message: str) -> NoReturn:
        from benchfleet.ledger.addresses import redact  # only where there is a mistake

        super().error(redact(message))


class _Verb(_Words):
    """A verb whose options may stand between what it is about: ``gate show FILE --json PHASE``."""

    _within = False

    def add_subparsers(self, **how: Any) -> Any:
        self._within = True  # of a verb that has verbs of its own only these can do so
        return super().add_subparsers(**how)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        if self._within:
            return super().parse_known_args(args, namespace)
        self._within = True
        try:
            found, unknown = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._within = False
        if unknown:
            options = [word for word in self._option_string_actions if word.startswith("--")]
            near = get_close_matches(unknown[0].partition("=")[0], options, n=1, cutoff=0.75)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found, unknown


def _run(words: Sequence[str]) -> int:
    parser = parser_of(words)
    arguments = parser.parse_args(words)
    arguments.words = tuple(words)
    if not arguments.verb:
        parser.print_help()
        return 2
    return int(arguments.main(arguments))


def parser_of(words: Sequence[str]) -> argparse.ArgumentParser:
    """What reads a command line; it knows the options of the one verb that is asked for."""
    parser = _Words(
        prog="benchfleet",
        description="Run a matrix of LLM benchmarks, and never a cell twice.",
        epilog=_ENDINGS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="version", version=f"benchfleet {benchfleet.__version__}"
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", dest="verb", parser_class=_Verb)
    asked = next((word for word in words if not word.startswith("-")), "")
    if asked and asked not in VERBS:
        near = get_close_matches(asked, VERBS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(VERBS)}"
        parser.error(f"no verb {asked!r}; {hint}")
    begins = bool(asked) and words[0] == asked  # then nobody is shown the list of verbs
    for verb, help in {asked: VERBS[asked]}.items() if begins else VERBS.items():
        found = verbs.add_parser(verb, help=help, description=help.capitalize(), allow_abbrev=False)
        if verb == asked:
            found.formatter_class = argparse.RawDescriptionHelpFormatter
            module = import_module(f"benchfleet.cli.verbs.{verb}")
            module.configure(found)
            found.set_defaults(main=module.main)
            found.add_argument("--debug", action="store_true", help="show an error's traceback")
    return parser


if __name__ == "__main__":
    sys.exit(main())
