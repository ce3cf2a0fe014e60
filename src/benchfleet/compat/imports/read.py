"""Find the results of other harnesses below a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchfleet.errors import BenchfleetError

from .attention_hub import attention_hub_files, read_attention_hub
from .inspect_logs import inspect_files, read_inspect
from .lm_eval import lm_eval_files, read_lm_eval
from .result import ForeignResult, UnreadableResult
from .serving_tools import aiperf_files, guidellm_files, read_aiperf, read_guidellm

Reader = Callable[[Path], Iterator[ForeignResult | UnreadableResult]]
FORMATS: dict[str, tuple[Callable[[Path], list[Path]], Reader]] = {
    "lm-eval": (lm_eval_files, read_lm_eval),
    "inspect": (inspect_files, read_inspect),
    "sparse-attention-hub": (attention_hub_files, read_attention_hub),
    "guidellm": (guidellm_files, read_guidellm),
    "aiperf": (aiperf_files, read_aiperf),
}


def read_results(folder: Path) -> tuple[Sequence[ForeignResult], Sequence[str]]:
    """All results below a folder, of every format, and what could not be read.

    Raises BenchfleetError where there is nothing of any format.
    """
    if not folder.is_dir():
        raise BenchfleetError(f"{folder} is no folder; name the one that the harness wrote")
    results: list[ForeignResult] = []
    problems: list[str] = []
    for find, read in FORMATS.values():
        for file in find(folder):
            try:
                for one in read(file):
                    if isinstance(one, UnreadableResult):
                        problems.append(str(one))
                    else:
                        results.append(one)
            except UnreadableResult as error:
                problems.append(str(error))
    if not results and not problems:
        names = ", ".join(FORMATS)
        raise BenchfleetError(f"{folder} holds no results of {names}")
    return results, problems
