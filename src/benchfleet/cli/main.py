"""The command line: one verb a file, one way to end."""

from __future__ import annotations

import os
import signal
import sys

import typer

import benchfleet
from benchfleet.cli import ledger, plan, report, retry, run, status
from benchfleet.errors import BenchfleetError, LedgerError

app = typer.Typer(
    name="benchfleet",
    help="Run a matrix of LLM benchmarks, and never a cell twice.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("run")(run.run)
app.command("plan")(plan.plan)
app.command("status")(status.status)
app.command("report")(report.report)
app.command("retry")(retry.retry)
app.add_typer(ledger.app, name="ledger")


@app.callback(invoke_without_command=True)
def options(
    version: bool = typer.Option(False, "--version", help="Print the version and end."),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
) -> None:
    """What every verb knows."""
    if version:
        typer.echo(f"benchfleet {benchfleet.__version__}")
        raise typer.Exit
    if debug:
        os.environ["BENCHFLEET_DEBUG"] = "1"


def main() -> None:
    """Run the command line: 0 well, 1 some cells did not, 2 bad usage, 3 ledger, 130 interrupted."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader left; nothing more to say
        sys.exit(128 + signal.SIGPIPE)
    except BenchfleetError as error:
        if os.environ.get("BENCHFLEET_DEBUG"):
            raise
        print(f"benchfleet: {error}", file=sys.stderr)
        sys.exit(3 if isinstance(error, LedgerError) else 2)


if __name__ == "__main__":
    main()
