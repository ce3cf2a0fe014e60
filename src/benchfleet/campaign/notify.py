"""The ``notify`` of a campaign file: what it sends messages about, and to whom."""

from __future__ import annotations

from collections.abc import Mapping

from benchfleet.domain.notification import NOTIFICATION_KINDS, NotificationSettings
from benchfleet.hints import hint

from .entry import Entry, format_value
from .schema_types import TEXT, TIME, Shape, doc, either, listing, mapping, one_or_list

_SHARE: Shape = either(
    {"type": "string", "pattern": r"^\d+(\.\d+)? ?%$", "examples": ["10%"]},
    {"type": "number", "minimum": 0, "maximum": 1},
)
KEYS: Mapping[str, Shape] = {
    "to": doc(
        one_or_list(TEXT), "where addresses of Apprise are: env:NAME or file:PATH, each with some"
    ),
    "on": doc(listing({"enum": [*NOTIFICATION_KINDS]}, least=1), "which messages (all)"),
    "failures": doc(_SHARE, "the share of ended cells that may fail without a message (10%)"),
    "every": doc(TIME, "the shortest time between two messages (10m)"),
}
NOTIFY = doc(mapping(KEYS, required=("to",)), "messages of a run to chats, mail and others")


def read_notify(entry: Entry) -> NotificationSettings | None:
    """The settings; None where there are none, or a mistake."""
    if entry.absent:
        return None
    fields = entry.fields(KEYS)
    defaults = NotificationSettings(to=())
    sources = [_source(item) for item in fields["to"].items(single=True)]
    if not sources and entry.right:
        fields["to"].wrong("is missing; name the addresses as env:NAME or file:PATH")
    names = [(item.text(), item) for item in fields["on"].items(single=True)]
    kinds = [kind for kind in NOTIFICATION_KINDS if kind in {name for name, _ in names}]
    for name, item in names:
        if item.right and name not in NOTIFICATION_KINDS:
            item.wrong(f"no message {name!r}; {hint(name, NOTIFICATION_KINDS)}")
    return NotificationSettings(
        to=tuple(sources),
        on=tuple(kinds) or defaults.on,
        failures=_share(fields["failures"], defaults.failures),
        every=fields["every"].duration(defaults.every) or 0.0,
    )


def _source(item: Entry) -> str:
    source = item.text()
    kind, _, name = source.partition(":")
    if item.right and not (kind in ("env", "file") and name):
        item.wrong(  # an address holds secrets, so the message does not repeat it
            "is not env:NAME or file:PATH; keep the address in the environment or a private file"
        )
        return ""
    return source


def _share(entry: Entry, default: float) -> float:
    value = entry.value
    if value is None:
        return default
    if isinstance(value, str) and value.rstrip().endswith("%"):
        try:
            share = float(value.rstrip()[:-1]) / 100
        except ValueError:
            share = -1.0
    else:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        share = float(value) if is_number else -1.0
    if not 0 <= share <= 1:
        entry.wrong(f"invalid share {format_value(value)}: use 0% to 100%")
        return default
    return share
