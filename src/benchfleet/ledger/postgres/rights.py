"""What a role may do with a campaign's ledger on a server, as SQL: no more than it must."""

from __future__ import annotations

from benchfleet.ledger.addresses import schema_of

_RUNS = """\
grant usage on schema "{schema}" to {role};
grant select, insert, update on "{schema}".cell, "{schema}".spec to {role};
grant select, insert on "{schema}".identity, "{schema}".lane to {role};
grant select, insert on "{schema}".event, "{schema}".ended to {role};
grant select on "{schema}".history to {role};
grant usage on sequence "{schema}".event_seq_seq, "{schema}".ended_number_seq to {role};
grant select, update on "{schema}".meta to {role};
"""
_LOOKS = """\
grant usage on schema "{schema}" to {role};
grant select on all tables in schema "{schema}" to {role};
"""


def to_run(campaign: str, role: str) -> str:
    """What lets a role run, retry and cancel; nothing is ever deleted, and no table made."""
    return _RUNS.format(schema=schema_of(campaign), role=role)


def to_look(campaign: str, role: str) -> str:
    """What lets a role see status and reports alone."""
    return _LOOKS.format(schema=schema_of(campaign), role=role)
