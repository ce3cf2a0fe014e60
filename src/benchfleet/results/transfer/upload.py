"""Putting what is published here to the campaign's place, beside the run and at its end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchfleet.domain.event import STORED, Event
from benchfleet.errors import LedgerError, ResultsError, StoreUnreachable
from benchfleet.ledger.base import Ledger
from benchfleet.results.disk import digest_of
from benchfleet.results.layout import CELL, Layout
from benchfleet.results.publish import Moves, PublishAll, publish_all
from benchfleet.results.read import is_published, published_folders, sealed
from benchfleet.results.stores.base import Place
from benchfleet.results.upload_queue import Entry, Outbox

_PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # seconds between tries; the last one stays


class Sender:
    """Empties the outbox of a results folder: each result is put to the place and told of in the
    ledger, as the event ``stored``. What could not be put stays, and goes first the next time."""

    def __init__(
        self,
        ledger: Ledger,
        layout: Layout,
        place: Place,
        *,
        host: str,
        publish_all: PublishAll = publish_all,
        say: Callable[[str], object] = lambda message: None,
    ) -> None:
        self._ledger, self._layout, self._place, self._host = ledger, layout, place, host
        self._outbox, self._publish_all = Outbox(layout), publish_all
        self._say, self._said = say, ""  # in words, while the run goes on; what was said last
        self._something = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_sending, name="sender", daemon=True)
        self.problem = ""  # why the last one that could not be put was not

    def publish_all(self, moves: Moves) -> Sequence[ResultsError | None]:
        """As `benchfleet.results.publish.publish_all`, with entries in the outbox first."""
        self._outbox.add([_entry(self._layout, folder, public) for folder, public in moves])
        wrong = self._publish_all(moves)
        self._something.set()
        return wrong

    def start(self) -> None:
        """Send in a thread from now on."""
        self._take_up()
        self._thread.start()

    def finish(self) -> None:
        """Send what is left, once, and end then; see `ended`."""
        self._over.set()
        self._something.set()

    @property
    def ended(self) -> bool:
        """Whether its thread is over."""
        return not self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Results that are not there yet."""
        return len(self._outbox)

    def _take_up(self) -> None:
        """All that lies here is to go there, where another place, or none, was named before."""
        if self._outbox.is_for(self._place.shown):
            return
        entries = []
        for folder in published_folders(self._layout.root):
            with contextlib.suppress(ResultsError):
                entries.append(_entry(self._layout, folder, folder))
        self._outbox.add(entries)
        self._outbox.begin(self._place.shown)

    def _keep_sending(self) -> None:
        tries = 0
        while True:
            over = self._over.is_set()
            self._something.clear()
            try:
                tries = 0 if self.send() else tries + 1
            except Exception as error:  # noqa: BLE001 - told at the end; the run goes on
                self.problem, tries = str(error) or type(error).__name__, tries + 1
            if over:
                return
            self._tell_problem()
            if tries:
                self._over.wait(_PAUSES[min(tries, len(_PAUSES)) - 1])
            else:
                self._something.wait()

    def _tell_problem(self) -> None:
        """Say once what keeps results from the place, and that they go there again."""
        if self.problem and not self._said:
            self._say(f"results wait here: {self.problem}")
        elif self._said and not self.problem:
            self._say(f"results go to {self._place.shown} again")
        self._said = self.problem

    def send(self) -> bool:
        """Put all that waits; whether nothing is left to be tried again."""
        entries = self._outbox.entries()
        self.problem = ""
        for entry in self._wanted(entries):
            try:
                self._place.put(self._layout.published(entry.path), entry.path, entry.digest)
                self._tell(entry)
            except (StoreUnreachable, LedgerError) as error:
                self.problem = str(error)
                return False
            except (ResultsError, OSError) as error:
                self.problem = str(error)
                continue
            self._outbox.drop(entry)
        return not self.problem

    def _wanted(self, entries: list[Entry]) -> Iterator[Entry]:
        """Those that the ledger calls done with that digest, and that lie here."""
        try:
            among = {entry.fingerprint for entry in entries}
            records = self._ledger.cells(states=["success"], among=among) if among else ()
            done = {str(r.fingerprint): r.outcome.digest for r in records if r.outcome}
        except LedgerError as error:
            self.problem = str(error)
            return
        for entry in entries:
            there = is_published(self._layout, entry.path, entry.digest)
            if there and done.get(entry.fingerprint) == entry.digest:
                yield entry
            elif entry.fingerprint in done if there else not self._may_come(entry):
                self._outbox.drop(entry)

    def _may_come(self, entry: Entry) -> bool:
        """Whether it may still be published."""
        return self._layout.attempts_of(entry.fingerprint).exists()

    def _tell(self, entry: Entry) -> None:
        data = {
            "place": self._place.shown,
            "path": entry.path,
            "digest": entry.digest,
            "host": self._host,
        }
        self._ledger.record(Event(kind=STORED, fingerprint=entry.fingerprint, data=data))


def _entry(layout: Layout, folder: Path, public: Path) -> Entry:
    content, _ = sealed(folder)
    return Entry(
        fingerprint=content["fingerprint"],
        path=public.relative_to(layout.root).as_posix(),
        digest=digest_of(folder / CELL),
    )
