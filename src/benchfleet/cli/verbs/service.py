"""``benchfleet service``: a systemd unit of the user that runs a campaign, also after a restart."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchfleet.cli.shared import options
from benchfleet.cli.shared.detach import own_command
from benchfleet.cli.shared.fleet import machines
from benchfleet.cli.shared.unit_variables import (
    SECRETS_FILE,
    named_variables,
    passed_variables,
    secret_variables,
    variables_in_file,
)
from benchfleet.cli.text.output import confirm, print_json, say
from benchfleet.cli.text.terminal import display_path, printable
from benchfleet.cli.verbs import work
from benchfleet.errors import BenchfleetError, wrong_option
from benchfleet.ledger.addresses import display_url

_MARK = "# Written by `benchfleet service`"
_OWN = {"--install", "--yes", "--json", "--worker"}  # options of this verb, and no run's
_STOP_S, _RENTED_STOP_S = 120, 900  # to end; rented machines need a proof that they are gone
_UNIT = """\
{mark}; how to use it: docs/background.md
[Unit]
Description=benchfleet: {name}
# Any number of starts: a server may be away for hours, and RestartSec bounds how often.
StartLimitIntervalSec=0

[Service]
Type=exec
WorkingDirectory={folder}
ExecStart={command}
{environment}\
# Secrets, if any are needed: a file of mode 600 with lines such as HF_TOKEN=… or PGPASSWORD=…
EnvironmentFile=-%h/{secrets_file}
# The first signal has running cells stop after the sample at hand, as Ctrl-C does; only the runner
# receives it, which ends its slots. What takes longer is killed and resumes after its last sample.
KillMode=mixed
KillSignal=SIGTERM
TimeoutStopSec={stop_limit}
# Not again: after 1 (some cells did not succeed), 2 (the campaign is wrong), 130 (it was stopped).
# Again: after a ledger that could not be reached (3), and where it was killed.
Restart=on-failure
RestartPreventExitStatus=1 2 130
RestartSec=30

[Install]
WantedBy=default.target
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument(
        "sweep",
        type=Path,  # a campaign file, where it is not that word
        nargs="?",
        help="the word `sweep`: the service returns machines of runs that died, by `sweep-orphans`",
    )
    example = "benchfleet service study.yaml --gpus 0,1 --install"
    options.optional_campaign(parser, example=f"{example}\n(takes the options of run and work)")
    work.add_worker_options(parser)
    parser.add_argument(
        "--worker",
        action="store_true",
        help="of `benchfleet work`, which needs no campaign file, rather than of `run`",
    )
    parser.add_argument(
        "--install", action="store_true", help="put it where systemd looks for your units"
    )


def main(arguments: argparse.Namespace) -> int:
    """Check the campaign, and print or install the unit."""
    sweep = _is_sweep(arguments)
    if arguments.campaign is None and not arguments.worker:
        message = "is missing; only --worker (`work`) runs without it, from --ledger"
        raise wrong_option("CAMPAIGN", message)
    if not arguments.worker and (option := _of_work(arguments)):
        raise wrong_option(option, "is an option of `work`; add --worker")
    if display_url(arguments.ledger) != arguments.ledger:
        message = "contains a password, which the unit would show; use ~/.pgpass or PGPASSWORD"
        raise wrong_option("--ledger", message)
    if sweep and (arguments.machines is None or arguments.campaign is None):
        raise wrong_option("sweep", "needs a campaign and --machines, which names the providers")
    study, cells = options.opened(arguments)
    devices = options.requested_devices(arguments, study.campaign)
    machines(arguments, devices, study.campaign.engine)
    what = "-sweep" if sweep else ""
    name = f"benchfleet{what}-{re.sub(r'[^A-Za-z0-9_.-]', '-', study.campaign.name)}.service"
    words = [word for word in arguments.words[1:] if word not in _OWN]
    if sweep:
        command = [*own_command(), "sweep-orphans", *words[1:], "--forever"]
    else:
        command = [*own_command(), "work" if arguments.worker else "run", *words]
    if arguments.rent:
        command.append("--yes")  # nobody is there to answer
        say("note     the service rents machines without asking", to=sys.stderr)
    secrets = secret_variables(os.environ, named_variables(study, cells))
    if missing := [name for name in secrets if name not in variables_in_file()]:
        pronoun = "it" if len(missing) == 1 else "them"
        text = (
            f"the unit holds no secret: put {', '.join(missing)} into ~/{SECRETS_FILE} (mode 600)"
        )
        say(f"note     {text}, if the service needs {pronoun}", to=sys.stderr)
    limit = _RENTED_STOP_S if arguments.rent else _STOP_S
    text = unit(
        study.campaign.name, command, folder=Path.cwd(), environ=os.environ, stop_limit=limit
    )
    if not arguments.install:
        print(
            json.dumps({"name": name, "unit": text}, indent=2) if arguments.json else text, end=""
        )
        return 0
    file = _units() / name
    _install(file, text, replace=arguments.yes)
    if arguments.json:
        print_json({"name": name, "file": str(file), "unit": text})
        return 0
    say(f"wrote    {file}")
    print(
        printable(
            f"start    systemctl --user daemon-reload && systemctl --user enable --now {name}"
        )
    )
    print("stay     loginctl enable-linger   (otherwise it only runs while you are logged in)")
    watched = arguments.campaign or display_path(study.layout.root)
    say(f"watch    benchfleet attach {watched}")
    say(f"log      journalctl --user --unit {name}")
    say(f"remove   systemctl --user disable --now {name} && rm {file}")
    return 0


def _is_sweep(arguments: argparse.Namespace) -> bool:
    """Whether it is `service sweep`. Otherwise the word in its place is the campaign."""
    if arguments.sweep == Path("sweep"):
        if arguments.words[1] != "sweep":
            raise wrong_option("sweep", "is a word of `service` itself; write it right after that")
        return True
    if arguments.campaign is not None:
        message = f"is one file; remove {printable(str(arguments.campaign))}"
        raise wrong_option("CAMPAIGN", message)
    arguments.campaign = arguments.sweep
    return False


def _of_work(arguments: argparse.Namespace) -> str:
    """An option that only `work` takes; ``""`` where none is given."""
    name = {
        "--models": arguments.models,
        "--forever": arguments.forever,
        "--idle-exit": arguments.idle_exit,
        "--max-hours": arguments.max_hours,
        "--ends-at": arguments.ends_at,
        "--trust-campaign": arguments.trust_campaign,
    }
    return next((name for name, value in name.items() if value), "")


def unit(
    name: str,
    command: Sequence[str],
    *,
    folder: Path,
    environ: Mapping[str, str],
    stop_limit: int = _STOP_S,
) -> str:
    """The text of the unit that runs `command` in `folder`."""
    variables = [f"{name}={value}" for name, value in passed_variables(environ).items()]
    for text in (name, str(folder), *command, *variables):
        if any(ord(character) < 32 for character in text):
            raise BenchfleetError(
                f"{text!r} contains control characters, which a unit file cannot hold"
            )
    first = command[0]
    if "$" in first:  # systemd takes a variable's place in all words but the program's own
        command = ["/usr/bin/env", *command]
    program, *words = command
    return _UNIT.format(
        mark=_MARK,
        name=_literally(name),
        stop_limit=stop_limit,
        secrets_file=SECRETS_FILE,
        folder=_literally(str(folder)),
        command=" ".join([_quoted(program), *(_quoted(word).replace("$", "$$") for word in words)]),
        environment="".join(f"Environment={_quoted(word)}\n" for word in variables),
    )


def _literally(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    escaped = _literally(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _units() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home, "systemd", "user")


def _install(file: Path, text: str, *, replace: bool) -> None:
    if file.exists() and file.read_text("utf-8", "replace") != text and not replace:
        otherwise = f"{file} exists with other content; --yes replaces it"
        if not confirm(f"replace {file}?", otherwise=otherwise):
            raise BenchfleetError("nothing was written")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
