"""``benchfleet init``: write a campaign file for what this machine can run."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from benchfleet import registry
from benchfleet.cli.shared.options import DRAFT
from benchfleet.cli.text.campaign_template import CachedModel, MachineSummary, chosen_models, draft
from benchfleet.cli.text.output import print_json, say
from benchfleet.domain.names import path_part
from benchfleet.domain.resource import Device
from benchfleet.errors import CampaignError, DeviceError, MissingExtra, Mistake
from benchfleet.machines.devices import cores, nvml_gpus
from benchfleet.machines.memory import available_memory, read_checkpoint
from benchfleet.models.digest import cached_models, model_folder

_SUFFIXES = (".yaml", ".yml")
_TOKENS = 2048  # of prompt and answer, for saying what a model takes
_LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel")


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = "example: benchfleet init study.yaml && benchfleet plan study.yaml"
    parser.add_argument(
        "file", metavar="FILE", type=Path, nargs="?", default=DRAFT, help=f"({DRAFT})"
    )
    parser.add_argument("--yes", action="store_true", help="overwrite the file if it is there")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """Write the file, and say what is in it and what comes next."""
    file: Path = arguments.file
    if file.suffix.lower() not in _SUFFIXES:
        raise _refused(file, f"init writes YAML; name a file that ends in {_SUFFIXES[0]}")
    machine = MachineSummary(gpus=_gpus(), cores=cores(), ram=available_memory())
    cached, no_models = _models(machine)
    name = shlex.quote(str(file))
    text = draft(file=name, name=_name(file), machine=machine, models=cached, no_models=no_models)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w" if arguments.yes else "x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        if isinstance(error, FileExistsError) and file.exists():
            raise _refused(file, "exists already; --yes overwrites it") from None
        raise _refused(file, f"cannot be written: {error.strerror}") from None
    sources = [model.source for model in chosen_models(machine, cached)] or ["mock"]
    if arguments.json:
        devices = [gpu.label for gpu in machine.gpus]
        print_json({"file": str(file), "models": sources, "gpus": devices})
        return 0
    say(f"wrote {file} for {machine}")
    say(f"models: {', '.join(sources)}")
    say(f"next: benchfleet plan {name}")
    return 0


def _gpus() -> tuple[Device, ...]:
    try:
        return nvml_gpus()
    except DeviceError:
        return ()  # a machine without a GPU runs on its CPU


def _models(machine: MachineSummary) -> tuple[list[CachedModel], str]:
    """The language models of the local cache, and why there is none that can be run."""
    try:
        registry.load("models", "transformers")
    except MissingExtra as error:
        return [], f"{error} for real models."
    cached = []
    for source in cached_models():
        try:
            checkpoint = read_checkpoint(model_folder(source))
            kinds = checkpoint.config.get("architectures") or []
            if any(str(kind).endswith(_LANGUAGE_MODELS) for kind in kinds):
                estimate = checkpoint.estimate(
                    device="gpu" if machine.gpus else "cpu",
                    model_kwargs={},
                    batch=1,
                    length=_TOKENS,
                )
                cached.append(CachedModel(source=source, memory=estimate.total))
        except (ValueError, OSError):
            continue  # its memory is unknown, so it is left out
    if cached and not chosen_models(machine, cached):
        return cached, "No model of the Hugging Face cache fits here."
    return cached, "" if cached else "No language model is in the Hugging Face cache."


def _name(file: Path) -> str:
    """The campaign's name: the file's, where it can be a folder's."""
    try:
        path_part(file.stem)
    except ValueError:
        return "study"
    return file.stem


def _refused(file: Path, message: str) -> CampaignError:
    return CampaignError(str(file), [Mistake(key="", message=message)])
