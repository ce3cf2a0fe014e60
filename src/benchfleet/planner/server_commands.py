"""The servers that cells start, each as its command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from benchfleet.domain.cell import Cell
from benchfleet.models.base import adapter_class


def server_commands(cells: Iterable[Cell]) -> Mapping[str, str]:
    """By the model's name, the command line of its server; ``{port}`` stands for a free port."""
    lines: dict[str, str] = {}
    for cell in cells:
        name = cell.model.name
        if name not in lines:
            command = adapter_class(cell.model.adapter).server_command(
                cell.model, gpus=cell.need.gpus
            )
            lines[name] = shlex.join(command).replace("'{port}'", "{port}")
    return {name: line for name, line in lines.items() if line}
