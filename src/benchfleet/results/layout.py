"""Every path of a campaign's results folder.

::

    <root>/                                     <base_result_dir>/<campaign>
      execution_summary.json  <hostname>_summary.json  combined_results.json
      report.md  report.html  ledger.db
      slots.txt                                              orders to a run; gone once taken
      <model>/<config>/<benchmark>[_<subset>][/r<repeat>]/   published: complete by construction
      .attempts/<fingerprint>/<attempt>-<token>[.<n>]/       at work, or what a failed one left
      .slots/<slot>.log                                      what a slot printed between cells
      .runners/<run>.json                                    who runs, and how that stands
      .slurm/<job>_<task>.log                                what a pilot printed
      .folder                                                names this folder among hosts
      .outbox/<fingerprint>.json                             to be uploaded to the campaign's store
      .cache_outbox/<fingerprint>.json                       to be uploaded to its result cache
      .evidence/<moment>/<path>/                             what `verify --repair` took from there
      .archive/                                              what `archive` packed
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from benchfleet.domain.attempt import Lease
from benchfleet.domain.names import FOLDER_ID
from benchfleet.errors import ResultsError

FORMAT = 1  # of cell.json and its neighbours

CELL = "cell.json"
LEFT_OUT = "left_out.json"  # the files of a result that a repository was not given
SAMPLES = "samples.jsonl"
METRICS = "metrics.json"
RAW_RESULTS = "raw_results.csv"
CONFIG = "config.json"
LOG = "log.txt"
FAILURE = "failure.json"
TELEMETRY = "telemetry.jsonl"
REQUIRED_FILES = frozenset({CELL, SAMPLES, METRICS, RAW_RESULTS, CONFIG})  # never archived

RESCORED = "rescored-"  # how the folder of a scoring that begins no attempt is called

_CELL_PATH = re.compile(r"[^./\\\0][^/\\\0]*(/[^./\\\0][^/\\\0]*){2,3}")


def check_path(path: str) -> None:
    """Raises ResultsError for what is not a path of a cell below a results folder."""
    if not _CELL_PATH.fullmatch(path):
        raise ResultsError(f"{path!r} is not a path of a cell's results")


@dataclass(frozen=True)
class Layout:
    """Where things are in one campaign's results folder."""

    root: Path

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.db"

    @property
    def summary(self) -> Path:
        return self.root / "execution_summary.json"

    def host_summary(self, host: str) -> Path:
        """What one host did of the campaign."""
        return self.root / f"{host}_summary.json"

    @property
    def combined(self) -> Path:
        """What all hosts did of the campaign, by the name of each host's summary."""
        return self.root / "combined_results.json"

    @property
    def report(self) -> Path:
        return self.root / "report.md"

    @property
    def benchmark_report(self) -> Path:
        """Of speed, cost and failures on rented and other hardware."""
        return self.root / "BENCHMARK_REPORT.md"

    @property
    def report_page(self) -> Path:
        return self.root / "report.html"

    @property
    def orders(self) -> Path:
        """Where a person may write what a run is to do with its slots."""
        return self.root / "slots.txt"

    @property
    def _own_id(self) -> Path:
        return self.root / FOLDER_ID

    @property
    def has_own_id(self) -> bool:
        """Whether a run has used it as a results folder."""
        return self._own_id.exists()

    def own_id(self) -> str:
        """What names this folder among the hosts of a campaign: made once, and shared by all who
        see it. ``""`` where it cannot be written."""
        file = self._own_id
        for _ in range(2):
            try:
                return file.read_text("utf-8").strip()
            except FileNotFoundError:
                draft = file.with_name(f".folder.{os.urandom(16).hex()}")
            except (OSError, ValueError):
                return ""
            try:
                draft.write_text(os.urandom(16).hex(), "utf-8")
                os.link(draft, file)
            except FileExistsError:
                continue
            except OSError:
                return ""
            finally:
                draft.unlink(missing_ok=True)
        return ""

    @property
    def attempts(self) -> Path:
        return self.root / ".attempts"

    def attempts_of(self, fingerprint: str) -> Path:
        return self.attempts / fingerprint

    def attempt(self, lease: Lease) -> Path:
        return self.root / f".attempts/{lease.fingerprint}/{lease.attempt}-{lease.token}"

    def attempts_called(self, fingerprint: str, name: str) -> list[Path]:
        """The folders of attempts that are called ``<attempt>-<token>``, the last one first.
        There are several, with a number behind, if a ledger was created again or lost a claim."""
        above = self.attempts_of(fingerprint)
        folders = [folder for folder in above.glob(f"{name}.*") if folder.suffix[1:].isdecimal()]
        folders.sort(key=lambda folder: int(folder.suffix[1:]), reverse=True)
        return [*folders, *([above / name] if (above / name).exists() else [])]

    def published(self, path: str) -> Path:
        """The public folder of a cell, from the path that the ledger allotted to it. Raises
        ResultsError for one that leads elsewhere."""
        check_path(path)
        return self.root / path

    @property
    def outbox(self) -> Path:
        """Published results that are not in the campaign's store yet."""
        return self.root / ".outbox"

    @property
    def cache_outbox(self) -> Path:
        """Published results that are not in the campaign's result cache yet."""
        return self.root / ".cache_outbox"

    @property
    def arrivals(self) -> Path:
        """What came from elsewhere and was not looked at yet."""
        return self.root / ".arrivals"

    @property
    def runners(self) -> Path:
        return self.root / ".runners"

    @property
    def slurm(self) -> Path:
        """What pilots printed, and when more are submitted."""
        return self.root / ".slurm"

    @property
    def slots(self) -> Path:
        return self.root / ".slots"

    @property
    def evidence(self) -> Path:
        return self.root / ".evidence"

    @property
    def archive(self) -> Path:
        return self.root / ".archive"

    def slot_log(self, slot: str) -> Path:
        return self.slots / f"{slot}.log"
