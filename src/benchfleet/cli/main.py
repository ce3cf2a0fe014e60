"""The command line: one verb a file, imported when it is asked for, and one way to end."""

from __future__ import annotations

import argparse
import atexit
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
from benchfleet.cli.text.output import flush
from benchfleet.cli.text.terminal import printable
from benchfleet.errors import BenchfleetError, CampaignError, LedgerError, LedgerMisnamed

VERB_GROUPS = {
    "describe": {
        "init": "write a campaign file for this machine",
        "plan": "check a campaign and list its cells; runs nothing",
        "fetch": "bring the models and data sets to this host, or to others",
        "schema": "print the JSON Schema of a campaign file, for editors",
        "benchmarks": "list the benchmarks that a campaign may name",
        "models": "list the models in the Hugging Face cache of this host",
        "adapters": "list the adapters that open models",
        "attention": "list the attention configs that a campaign may name",
        "new": "write a plugin of your own: one file, its test and entry point",
        "completion": "print the completion script of a shell",
    },
    "run": {
        "run": "run the cells that are not done, and show the comparison",
        "attach": "show the live view of a run, from any shell",
        "stop": "stop a run; it keeps its samples and can continue later",
        "slots": "show the slots of a run; add, drain or remove devices",
    },
    "look": {
        "status": "progress of a campaign, its runners and its failures",
        "dashboard": "show a campaign in the browser, live",
        "report": "compare the configs: scores, differences, significance",
        "compare": "two campaigns, configs or models side by side; a verdict for CI",
        "export": "write the results for other tools, such as MLflow or Inspect",
        "failures": "failed cells, grouped by cause, each with a fix",
        "logs": "the output of a cell, attempt by attempt",
        "manifest": "every attempt and rental in one table, with its cost",
    },
    "share": {
        "work": "run the cells of a shared ledger that suit this host",
        "slurm": "submit workers to a Slurm cluster, list or cancel them",
        "import": "import results of lm-eval, Inspect or sparse-attention-hub",
        "merge": "fetch the results of all hosts, and check each",
        "offers": "list GPUs that can be rented now, cheapest first",
        "rent": "rent one machine by hand, and return it at Ctrl-C",
        "return": "return rented machines by name",
        "sweep-orphans": "return rented machines that nobody uses any more",
        "hosts": "check the machines of an inventory, or install benchfleet there",
        "service": "write a systemd unit that runs a campaign after each restart",
        "probe": "measure this machine and write its capability report",
        "assign": "distribute the cells over machines; minimizes the total time",
        "reassign": "move the cells of a failed machine to the others",
        "gate": "show, evaluate or override the gates between phases",
        "phase": "lists of unfinished results by phase, in a git repository",
    },
    "care": {
        "retry": "run failed or cancelled cells again",
        "cancel": "cancel cells; their samples are kept",
        "race": "stop configs that are surely worse than the one that leads",
        "release": "release the cells that a runner holds",
        "reap": "return the cells of dead runners",
        "rescore": "score the recorded answers again, without the model",
        "verify": "check every result against its seal; --repair fixes",
        "archive": "compress or move old attempts, logs and raw files",
        "gc": "delete old attempts and logs; never a result",
        "ledger": "create, check, copy or rebuild the ledger",
        "doctor": "check that a run would work here, and how to fix it",
    },
}
VERBS = {verb: text for group in VERB_GROUPS.values() for verb, text in group.items()}
_MODULES = {"import": "import_results", "return": "return_machines"}  # verbs that are keywords
_FIRST_VERBS = "start with: init, plan, run, status, report"
_GC_THRESHOLD = 100_000  # objects between two searches for cycles
_EXIT_CODES = """\
`benchfleet VERB --help` shows the options of a verb.
exit codes: 0 all cells succeeded, 1 some did not, 2 wrong usage or campaign,
            3 ledger unusable, 130 interrupted"""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = sys.argv[1:] if words is None else words
    gc.set_threshold(_GC_THRESHOLD)  # short commands end before a collection pays off
    _tolerate_bad_streams()
    try:
        code = _run(words)
        flush()
        return code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader left; nothing more to say
        return 128 + signal.SIGPIPE
    except (BenchfleetError, OSError) as error:
        if "--debug" in words:
            raise
        message = f"benchfleet: {_plain(error)}"
        print(error if isinstance(error, CampaignError) else message, file=sys.stderr)
        unusable = isinstance(error, LedgerError) and not isinstance(error, LedgerMisnamed)
        return 3 if unusable else 2


def command() -> NoReturn:
    """Run the command line as this process, and end it. Python restores the usual handlers while it
    shuts down, so that a late Ctrl-C would take the place of the exit code."""
    code = main()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: os._exit(code))  # threads that end too slowly
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # all memory goes now: Python would search it for cycles first
    sys.exit(code)


def _plain(error: BenchfleetError | OSError) -> str:
    """Its message, without the system's error number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    where = f"{printable(str(error.filename))}: " if error.filename else ""
    return f"{where}{error.strerror}"


def _tolerate_bad_streams() -> None:
    """Discard output to a closed stream, and replace characters that a stream cannot encode."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as we run
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


class _Parser(argparse.ArgumentParser):
    """Begins an error with the line that matters, and hides the passwords of addresses in it."""

    def error(self, message: str) -> NoReturn:
        from benchfleet.ledger.addresses import redact  # imported for errors only

        if message.endswith("expected one argument"):
            message += "; one that begins with a dash goes behind =: --option=--value"
        text = f"{self.prog}: error: {redact(message)}\n{self.prog} --help shows all options\n"
        self.exit(2, text)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        if action.option_strings and not all(map(str.strip, arg_strings)):  # "$UNSET" in a script
            where = action.option_strings[-1]
            self.error(f"{where} is empty; give it a value, or leave the option out")
        return super()._get_values(action, arg_strings)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            if near := get_close_matches(str(value), map(str, action.choices or ()), n=1):
                error.message += f"; did you mean {near[0]!r}?"
            raise


class _VerbParser(_Parser):
    """A verb whose options may stand between its arguments: ``gate show FILE --json PHASE``."""

    _within = _has_actions = False

    def add_subparsers(self, **how: Any) -> Any:
        self._has_actions = True
        return super().add_subparsers(**how)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        if self._within:
            return super().parse_known_args(args, namespace)
        if self._has_actions:  # the parser of the action takes intermixed options, and all of them
            namespace_found, unknown = super().parse_known_args(args, namespace)
            if unknown:
                self.error(f"{' '.join(unknown)} stands before the action; write it after that")
            return namespace_found, unknown
        self._within = True
        try:
            namespace_found, unknown = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._within = False
        if unknown:
            options = [word for word in self._option_string_actions if word.startswith("--")]
            near = [
                match
                for word in unknown
                for match in get_close_matches(word.partition("=")[0], options, n=1, cutoff=0.75)
            ]
            hint = f"; did you mean {' and '.join(near)}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return namespace_found, unknown


def _run(words: Sequence[str]) -> int:
    parser = parser_of(words)
    arguments = parser.parse_args(words)
    arguments.words = tuple(words)
    if not arguments.verb:
        parser.print_help()
        return 2
    return int(arguments.main(arguments))


def parser_of(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of a command line, with the options of its verb only."""
    parser, verbs = _parser()
    requested = next((word for word in words if not word.startswith("-")), "")
    if requested and requested not in VERBS:
        near = get_close_matches(requested, VERBS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(VERBS)}"
        parser.error(f"unknown verb {requested!r}; {hint}")
    if requested:
        _add_verb(verbs, requested)
    return parser


def parser_of_all_verbs() -> argparse.ArgumentParser:
    """The parser with the options of every verb; it imports all their modules."""
    parser, verbs = _parser()
    verbs.help = None  # the overview lists them for --help; shells read them here
    for verb in VERBS:
        _add_verb(verbs, verb)
    return parser


def _parser() -> tuple[argparse.ArgumentParser, Any]:
    """The parser without verbs, and what verbs are added to."""
    parser = _Parser(
        prog="benchfleet",
        usage="benchfleet VERB [OPTION …]",
        description=_overview(),
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="version", version=f"benchfleet {benchfleet.__version__}"
    )
    verbs = parser.add_subparsers(
        prog="benchfleet",
        metavar="VERB",
        dest="verb",
        help=argparse.SUPPRESS,
        parser_class=_VerbParser,
    )
    return parser, verbs


def _add_verb(verbs: Any, verb: str) -> None:
    """Import the module of a verb, and add its options."""
    verb_parser = verbs.add_parser(
        verb,
        help=VERBS[verb],
        description=VERBS[verb].capitalize(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    name = _MODULES.get(verb, verb)
    module = import_module(f"benchfleet.cli.verbs.{name.replace('-', '_')}")
    module.configure(verb_parser)
    verb_parser.set_defaults(main=module.main)
    verb_parser.add_argument("--debug", action="store_true", help="show an error's traceback")


def _overview() -> str:
    """What the command does, and its verbs by group."""
    lines = ["Run a matrix of LLM benchmarks; every cell runs once.", "", _FIRST_VERBS]
    for group, verbs in VERB_GROUPS.items():
        lines += ["", f"{group}:", *(f"  {verb:<13}  {text}" for verb, text in verbs.items())]
    return "\n".join(lines)


if __name__ == "__main__":
    command()
