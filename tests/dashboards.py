"""A small campaign with every kind of cell, and its dashboard, without a server or a browser."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from benchfleet.dashboard.app import application
from benchfleet.dashboard.campaigns import Campaigns, campaigns_of_ledger
from benchfleet.dashboard.security import allowed_hosts
from benchfleet.dashboard.server import listen, serving
from benchfleet.dashboard.stream import Streams
from benchfleet.dashboard.tokens import Tokens
from benchfleet.dashboard.watcher import Watcher
from benchfleet.domain.attempt import CellRecord, Claim, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.failure import Failure
from benchfleet.domain.slots import BEGAN
from benchfleet.domain.worker_progress import SlotProgress, WorkerProgress
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.testing import sample_cell

PORT = 8050
ORIGIN = f"http://127.0.0.1:{PORT}"
NAME = "study"
RUNNER = RunnerId("11111111-2222-3333-4444-555555555555")
KEY = b"k" * 32
MEASURED: Mapping[str, float] = {"prompt_tokens": 9, "completion_tokens": 3, "seconds": 0.5}
TABS = ("log", "samples", "side", "metrics", "telemetry", "stack", "events")


class DashboardCampaign:
    """A campaign in a folder whose ledger a test writes as runners do."""

    def __init__(self, root: Path) -> None:
        self.folder = root / NAME
        self.folder.mkdir(parents=True)
        self.layout = Layout(self.folder)
        self.ledger = SqliteLedger(self.layout.ledger, campaign=NAME)
        weakref.finalize(self, self.ledger.close)
        self.url = f"sqlite:///{self.layout.ledger}"

    def begin(self, runner: RunnerId = RUNNER, host: str = "lab1") -> None:
        """A runner begins."""
        data = {"runner": runner, "machine": host, "process": "1@x", "host": host, "folder": ""}
        self.ledger.record(Event(kind=BEGAN, data=data))

    def claim(self, cell: Cell, runner: RunnerId = RUNNER) -> Claim:
        """A runner claims the cell."""
        self.ledger.enroll([cell])
        (claim,) = self.ledger.claim(runner, [cell.fingerprint])
        return claim

    def finish(
        self,
        cell: Cell,
        scores: tuple[float | None, ...] = (1.0, 0.0, 1.0),
        answer: str = "answer",
        measured: Mapping[str, float] = MEASURED,
        *,
        sample: str = "sample",
        overall: float | None = None,
    ) -> str:
        """A runner runs the cell to its end, with a result whose samples have what was measured;
        its path. The headline is the mean of the scores where it is not given."""
        claim = self.claim(cell)
        folder = AttemptFolder(self.layout.attempt(claim.lease))
        for index in range(len(scores)):
            record = {
                "index": index,
                "id": f"{sample}-{index}",
                "columns": {"reference": f"reference {index}"},
                "predicted_answer": f"{answer} {index}",
                **measured,
            }
            folder.record(json.dumps(record).encode() + b"\n")
        (folder.folder / "log.txt").write_text("it began\nit ended\n")
        if overall is None:
            known = [one for one in scores if one is not None]
            overall = sum(known) / len(known) if known else 0.5
        score = {"overall": overall, "per_sample": [*scores], "tasks": {}, "summary": {}}
        verdict = Verdict(score=score, seconds={"load": 1.0}, provenance={"host": "lab1"})
        sealed = folder.seal(cell, claim.path, verdict)
        outcome = Outcome(
            state="success",
            digest=sealed.digest,
            metrics=sealed.metrics,
            seconds={"load": 1.0, "benchmark": 2.0},
            host="lab1",
            device="gpu:0",
        )
        self.ledger.finish(claim.lease, outcome)
        folder.close()
        publish(folder.folder, self.layout.published(claim.path))
        return claim.path

    def fail(
        self,
        cell: Cell,
        message: str = "no memory left",
        kind: Any = "oom",
        host: str = "lab1",
        *,
        retry_in: float | None = None,
    ) -> str:
        """A runner fails the cell, for good unless it is retried in so many seconds; its path."""
        claim = self.claim(cell)
        folder = self.layout.attempt(claim.lease)
        folder.mkdir(parents=True)
        (folder / "log.txt").write_text("loading\n\x1b[31mout of memory\x1b[0m\n")
        failure = Failure(stage="load", kind=kind, message=message, log_tail="out of memory")
        outcome = Outcome(
            state="failed", failure=failure, host=host, device="gpu:0", retry_in=retry_in
        )
        self.ledger.finish(claim.lease, outcome)
        return claim.path

    def report(self, claim: Claim, done: int, runner: RunnerId = RUNNER) -> None:
        """The runner reports how far the cell is."""
        slot = SlotProgress(
            devices="gpu:0", cell=claim.path, stage="benchmark", done=done, total=100, seconds=5.0
        )
        self.ledger.report_progress(WorkerProgress(runner=runner, slots=(slot,), eta=60.0))

    def campaigns(self) -> Campaigns:
        """What a server shows of it."""
        return campaigns_of_ledger(self.url, None)


def every_kind_of_cell(root: Path) -> DashboardCampaign:
    """Two configs of one benchmark that are done, one cell that failed, one that runs, one that
    waits."""
    campaign = DashboardCampaign(root)
    campaign.begin()
    campaign.finish(sample_cell(1, config="dense"))
    campaign.finish(sample_cell(1, config="sparse"), scores=(0.0, 0.0, 1.0), answer="other")
    campaign.fail(sample_cell(2, config="dense"))
    campaign.report(campaign.claim(sample_cell(2, config="sparse")), 40)
    campaign.ledger.enroll([sample_cell(3)])
    return campaign


def read_all(campaigns: Campaigns) -> None:
    """Wait until all campaigns are read, so that the first page has their cells."""
    for slug in campaigns.names:
        campaign = campaigns.get(slug)
        assert campaign is not None
        campaign.view()


@contextmanager
def slow_reading(cells: int) -> Iterator[threading.Event]:
    """Ledgers whose first read stops after so many cells, until the event is set."""
    proceed = threading.Event()
    whole = Watcher._cells

    def slow(watcher: Watcher, ledger: Ledger) -> Iterator[tuple[Cell, CellRecord | None]]:
        for number, pair in enumerate(whole(watcher, ledger), 1):
            if number == cells:
                proceed.wait()
            yield pair

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watcher, "_cells", slow)
        try:
            yield proceed
        finally:
            proceed.set()


@contextmanager
def client_of(
    campaigns: Campaigns,
    *,
    session: bool = False,
    private: bool = False,
    stop: bool = True,
    read: bool = True,
) -> Iterator[TestClient]:
    """A client of the guarded application; with a session, one that may give orders. The campaigns
    are `read` before. The watchers `stop` with it, unless others use the campaigns too."""
    if read:
        read_all(campaigns)
    tokens = Tokens(KEY, PORT)
    hosts = allowed_hosts("127.0.0.1", PORT, ())
    app = application(campaigns, tokens, Streams(), hosts=hosts, private=private)
    client = TestClient(app, base_url=ORIGIN, follow_redirects=False)
    if session:
        client.cookies.set(tokens.cookie, tokens.session())
        client.headers["Origin"] = ORIGIN
    try:
        yield client
    finally:
        client.close()
        if stop:
            campaigns.stop()


def text_of(client: TestClient, page: str, **query: str) -> str:
    """A page of the campaign, which must be there."""
    answer = client.get(f"/c/{NAME}/{page}", params=query or None)
    assert answer.status_code == 200, answer.text
    return answer.text


@contextmanager
def served_campaign(campaign: DashboardCampaign, *, read: bool = True) -> Iterator[tuple[str, str]]:
    """A server of the campaign on a socket, in a thread; its address and one-time link. The
    campaign is `read` before."""
    campaigns, streams, listener = campaign.campaigns(), Streams(), listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    tokens, hosts = Tokens(KEY, port), allowed_hosts("127.0.0.1", port, ())
    app = application(campaigns, tokens, streams, hosts=hosts, private=False)
    address = f"http://127.0.0.1:{port}/"
    if read:
        read_all(campaigns)
    try:
        with serving(app, listener, stop=streams.stop):
            yield address, f"{address}?token={tokens.link()}"
    finally:
        campaigns.stop()
