"""``benchfleet slurm submit``: as many pilots as the campaign's cells need, and no more."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchfleet.cli.shared import next_command, option_types, options, slurm_locks
from benchfleet.cli.shared.detach import own_command
from benchfleet.cli.shared.slurm_work import (
    backoff_file,
    cell_ended,
    last_event,
    pilots_name,
    recorded_samples,
    work_of,
)
from benchfleet.cli.text.output import say
from benchfleet.cli.verbs.slurm_look import Look, tell, text_of
from benchfleet.domain.cell import Cell
from benchfleet.errors import BenchfleetError, wrong_option
from benchfleet.host_lock import lock_file, locked
from benchfleet.ledger.addresses import display_url
from benchfleet.ledger.sqlite import lock_test
from benchfleet.ledger.sqlite.shared_file import is_shared
from benchfleet.results.disk import make_folder
from benchfleet.runs.live_state import refuse_another
from benchfleet.slurm.commands import Slurm, SlurmAway
from benchfleet.slurm.demand import SubmitBackoff, missing_pilots
from benchfleet.slurm.script import TEMPLATE, PilotSpec, batch_script, in_container, time_limit_s
from benchfleet.study import Study

_IDLE_EXIT_S = 120.0  # seconds without a cell after which a pilot frees its node
_LOOK_EVERY_S = 60.0  # seconds between two looks of --keep
_MAX_LOOK_S = 600.0  # the same where the controller does not answer
_MAX_QUEUED = 10

EXAMPLE = (
    "benchfleet slurm submit study.yaml --workers 4 --partition gpu --gres gpu:1 --time 4:00:00"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """What to submit, and how much of it."""
    parser.epilog = f"example: {EXAMPLE}"
    options.choice(parser)
    amount = parser.add_argument_group("how many")
    amount.add_argument(
        "--workers",
        metavar="N",
        type=option_types.count,
        required=True,
        help="pilots in all, waiting and running; those that are there already count",
    )
    amount.add_argument(
        "--max-queued",
        metavar="N",
        type=option_types.count,
        default=_MAX_QUEUED,
        help=f"at most so many that wait in Slurm's queue ({_MAX_QUEUED})",
    )
    amount.add_argument(
        "--keep",
        action="store_true",
        help="stay, and submit more while cells wait; ends when no cell is left",
    )
    amount.add_argument(
        "--every",
        metavar="S",
        type=option_types.number(86_400, "number of seconds {}: use 1 to 86400"),
        default=_LOOK_EVERY_S,
        help=f"with --keep: seconds between two looks ({_LOOK_EVERY_S:g})",
    )
    amount.add_argument(
        "--now", action="store_true", help="although the last pilots achieved nothing"
    )
    job = parser.add_argument_group("each pilot")
    job.add_argument(
        "--time",
        metavar="LIMIT",
        type=_time,
        required=True,
        help="its time limit, such as 4:00:00 or 1-12; a pilot starts no cell that is expected to "
        "take longer",
    )
    job.add_argument("--partition", metavar="NAME", default="", help="the partition")
    job.add_argument("--gres", metavar="LIST", default="", help="GPUs, such as gpu:a100:1")
    job.add_argument(
        "--sbatch",
        metavar="OPTION",
        action="append",
        default=[],
        help="another option of sbatch, such as --sbatch=--account=lab; repeatable",
    )
    job.add_argument(
        "--work",
        metavar="OPTIONS",
        default="",
        help="options of `benchfleet work`, such as --work='--cpu-slots 2'",
    )
    job.add_argument(
        "--idle-exit",
        metavar="S",
        type=option_types.number(86_400, "number of seconds {}: use 1 to 86400"),
        default=_IDLE_EXIT_S,
        help=f"it ends after S seconds without a cell ({_IDLE_EXIT_S:g})",
    )
    script = parser.add_argument_group("its batch script")
    script.add_argument(
        "--module", metavar="NAME", action="append", default=[], help="load this module; repeatable"
    )
    script.add_argument(
        "--prelude", metavar="FILE", type=Path, help="lines of bash that run before the worker"
    )
    script.add_argument(
        "--container", metavar="IMAGE", default="", help="run the worker in it, by apptainer"
    )
    script.add_argument(
        "--container-option",
        metavar="OPTION",
        action="append",
        default=[],
        help="an option of `apptainer exec`, such as --container-option=--bind=/data; repeatable",
    )
    script.add_argument(
        "--template", metavar="FILE", type=Path, help="the whole script, with its placeholders"
    )
    script.add_argument(
        "--dry-run", action="store_true", help="print the batch script, and submit nothing"
    )


def main(arguments: argparse.Namespace) -> int:
    """Submit what is missing, once or for as long as cells are left."""
    if display_url(arguments.ledger) != arguments.ledger:
        message = "contains a password, which the script would show; use ~/.pgpass or PGPASSWORD"
        raise wrong_option("--ledger", message)
    study, cells = options.opened(arguments)
    name = pilots_name(study)
    spec, template = _spec(arguments, study, name), _template(arguments)
    script = batch_script(spec, template)
    if arguments.dry_run:
        print(script, end="")
        return 0
    study.home.refuse_second()
    refuse_another(study.layout, study.home.address)
    last_event(study)  # refuses a ledger that lacks the results here, before a job is queued
    make_folder(study.layout.slurm)
    if (file := study.home.file) is not None and not is_shared(file):
        python = "python" if arguments.container else sys.executable
        command = _contained(arguments, [python, "-m", lock_test.__name__])
        slurm_locks.share_ledger(file, replace(spec, command=command), template)
    if not arguments.keep:
        look = _look(arguments, study, cells, script)
        tell(arguments, study, look)
        return 0
    return _keep(arguments, study, cells, script)


def _keep(arguments: argparse.Namespace, study: Study, cells: Sequence[Cell], script: str) -> int:
    """Look again and again, until no cell is left."""
    printed, pause = "", arguments.every
    try:
        while True:
            try:
                look = _look(arguments, study, cells, script)
            except SlurmAway as away:
                pause = min(_MAX_LOOK_S, 2 * pause)
                say(f"{away}; looking again in {pause:g} s", to=sys.stderr, flush=True)
            else:
                pause = arguments.every
                text = text_of(arguments, study, look)
                if look.submitted or text != printed:
                    tell(arguments, study, look)
                printed = text
                if not look.work.remaining:
                    return 0
            time.sleep(pause)
    except KeyboardInterrupt:
        cancel = next_command.same_choice(arguments, "slurm cancel")
        say(f"no more pilots are submitted; those there are go on (end them: {cancel})")
        return 130


def _look(arguments: argparse.Namespace, study: Study, cells: Sequence[Cell], script: str) -> Look:
    """Submit the pilots that are missing. Raises SlurmAway where the queue cannot be read or an
    answer is missing; the next look sees in the queue what was submitted."""
    slurm, name = Slurm(), pilots_name(study)
    state = backoff_file(study)
    with locked(lock_file(f"slurm-{name}", os.environ)):  # of two, one submits
        work = work_of(study, cells, time_limit_s(arguments.time))
        pilots = slurm.pilots(name)
        look = Look(work=work, pilots=pilots)
        count = missing_pilots(
            work, pilots, workers=arguments.workers, max_queued=arguments.max_queued
        )
        backoff = SubmitBackoff.load(state)
        samples = recorded_samples(study, cells)
        progress = backoff.event >= 0 and (
            samples > backoff.samples or cell_ended(study, backoff.event)
        )
        backoff = backoff.after(progress, pilots, time.time())
        backoff.save(state)
        if not count:
            return look
        if backoff.not_before > time.time() and not arguments.now:
            return replace(look, paused_until=backoff.not_before)
        event = last_event(study)
        job = slurm.submit(script, count)
        backoff.submitted(event, samples).save(state)
        return replace(look, submitted=count, job=job)


def _spec(arguments: argparse.Namespace, study: Study, name: str) -> PilotSpec:
    return PilotSpec(
        name=name,
        command=_worker(arguments),
        folder=Path.cwd(),
        logs=study.layout.slurm.absolute(),
        time=arguments.time,
        partition=arguments.partition,
        gres=arguments.gres,
        options=arguments.sbatch,
        modules=arguments.module,
        prelude=_read(arguments.prelude, "--prelude") if arguments.prelude else "",
    )


def _worker(arguments: argparse.Namespace) -> list[str]:
    """The command of a worker, but for its end. Exits with 2 for wrong options in --work."""
    from benchfleet.cli.main import parser_of  # which imports this verb

    words = shlex.split(next_command.same_choice(arguments, "work"))[1:]
    words += [*shlex.split(arguments.work), f"--idle-exit={arguments.idle_exit:g}"]
    if parser_of(words).parse_args(words).detach:
        raise wrong_option("--work --detach", "would end the pilot at once; drop it")
    program = ["benchfleet"] if arguments.container else own_command()
    return _contained(arguments, [*program, *words])


def _contained(arguments: argparse.Namespace, command: Sequence[str]) -> list[str]:
    options = arguments.container_option
    return in_container(command, arguments.container, folder=Path.cwd(), options=options)


def _template(arguments: argparse.Namespace) -> str:
    return _read(arguments.template or TEMPLATE, "--template")


def _read(file: Path, option: str) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BenchfleetError(f"{option} {file} cannot be read: {reason}") from error


def _time(text: str) -> str:
    try:
        time_limit_s(text)
    except ValueError:
        message = f"invalid time limit {text!r}: use 90 (minutes), 4:00:00, or 1-12 (days-hours)"
        raise argparse.ArgumentTypeError(message) from None
    return text
