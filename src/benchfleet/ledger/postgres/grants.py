"""What a role may do with a campaign's ledger on a server, as SQL: no more than it must."""

from __future__ import annotations

from benchfleet.ledger.addresses import schema_name

_RUN = """\
grant usage on schema "{schema}" to {role};
grant select on "{schema}".meta to {role};
grant select, insert, update on "{schema}".cell, "{schema}".spec to {role};
grant select, insert on "{schema}".event to {role};
grant select, insert, update, delete on "{schema}".progress to {role};
grant usage on sequence "{schema}".event_seq to {role};
grant execute on all functions in schema "{schema}" to {role};
"""
_LOOK = """\
grant usage on schema "{schema}" to {role};
grant select on all tables in schema "{schema}" to {role};
"""


def runner_grants(campaign: str, role: str) -> str:
    """What lets a role run, retry and cancel; it can delete no cell and no event."""
    return _RUN.format(schema=schema_name(campaign), role=role)


def reader_grants(campaign: str, role: str) -> str:
    """What lets a role see status and reports, and nothing else."""
    return _LOOK.format(schema=schema_name(campaign), role=role)
