"""Opens a campaign whose models are not here any more, by its ledger: its results are enough."""

from __future__ import annotations

import argparse
import copy
import sys

from benchfleet.cli.shared import options
from benchfleet.cli.text.output import say
from benchfleet.domain.cell import Cell
from benchfleet.errors import CampaignError, LedgerAbsent
from benchfleet.results.layout import Layout
from benchfleet.study import Study

_MODELS = "matrix.models["


def opened(arguments: argparse.Namespace) -> tuple[Study, list[Cell]]:
    """As `options.opened`. If all mistakes of the file are in its models, all cells of the ledger,
    with a note on stderr. Raises CampaignError where it has none."""
    try:
        return options.opened(arguments)
    except CampaignError as error:
        if error.results is None or not all(one.key.startswith(_MODELS) for one in error.mistakes):
            raise
        base = arguments.results or error.results.parent
        by_ledger = copy.copy(arguments)
        by_ledger.campaign, by_ledger.named = None, error.campaign
        by_ledger.results = base
        local = Layout(base.absolute() / error.results.name).ledger
        by_ledger.ledger = arguments.ledger or f"sqlite:{local}"
        try:
            study, cells = options.opened(by_ledger)
        except LedgerAbsent:
            raise error from None
        why = error.mistakes[0].message
        say(f"note: {why}; this has all cells of {study.ledger_text}", to=sys.stderr, flush=True)
        return study, cells
