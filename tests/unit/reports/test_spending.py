"""What a campaign took covers all attempts, and reports name what is not known."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from rich.console import Console

from benchfleet.domain.rental import RentalCost
from benchfleet.domain.usage import Usage, UsageTotal
from benchfleet.reports import html, markdown, spending
from benchfleet.reports.exports import to_csv
from benchfleet.reports.tables import Comparison, compare
from benchfleet.reports.terminal import ComparisonView
from benchfleet.results.read import SampleScores

from .conftest import Study


def bill(*used: Usage | None) -> UsageTotal:
    found = UsageTotal()
    for one in used:
        found.add(one)
    return found


HOUR = Usage(seconds=3600, gpus=1, joules=720_000, cost=1.25, currency="$")


def printed(comparison: Comparison) -> str:
    """The report as a terminal of 100 columns shows it."""
    console = Console(file=io.StringIO(), width=100)
    with console.capture() as capture:
        console.print(ComparisonView(comparison=comparison, title="t"))
    return capture.get()


def compared(study: Study, *bills: UsageTotal) -> Comparison:
    names = [cell.fingerprint for cell in study.cells]
    return compare(
        study.records,
        study.cells,
        lambda record: SampleScores(scores=study.samples[record.fingerprint]),
        bills=dict(zip(names, bills, strict=False)),
    )


@pytest.mark.parametrize(
    ("used", "output"),
    [
        ([], ""),
        ([Usage(seconds=5)], "1 attempt"),
        ([HOUR], "1 attempt · 1.00 GPU-hours · 200 Wh · $1.25"),
        ([HOUR] * 12, "12 attempts · 12.0 GPU-hours · 2.40 kWh · $15.00"),
        ([Usage(seconds=36, gpus=0.5, joules=90)], "1 attempt · 0.005 GPU-hours · 90 J"),
        ([HOUR, Usage(seconds=3600, gpus=1)], "2 attempts · 2.00 GPU-hours · ≥ 200 Wh · $1.25"),
        (
            [HOUR, Usage(seconds=1, cost=0.0123, currency="EUR"), Usage(seconds=1, cost=0.5)],
            "3 attempts · 1.00 GPU-hours · 200 Wh · $1.25 + 0.012 EUR + 0.500",
        ),
    ],
)
def test_a_bill_reads_in_one_line(used: list[Usage], output: str) -> None:
    assert spending.in_all(bill(*used)) == output


def test_what_a_bill_lacks_is_reported() -> None:
    assert spending.remarks(bill(HOUR)) == []
    unrecorded, unpriced, unmeasured = spending.remarks(
        bill(HOUR, Usage(seconds=3600, gpus=1), None)
    )
    assert unrecorded.startswith("Of 1 of 3 attempts")
    assert unpriced.startswith("1 of 3 attempts ran where no price is known")
    assert unmeasured.startswith("The energy is that of 50 % of the GPU time")


def test_attempts_of_all_repeats_are_counted_by_model_and_config(study: Study) -> None:
    study.done("dense", [1, 1], repeat=0)
    study.done("dense", [1, 1], repeat=1)
    study.done("window", [0, 1], repeat=0)
    found = compared(study, bill(HOUR, HOUR), bill(HOUR))
    (dense,) = found.spent
    assert (dense.config, dense.bill.attempts, dense.bill.costs) == ("dense", 3, {"$": 3.75})
    text = markdown.render(found, title="t")
    assert r"In all: 3 attempts · 3.00 GPU-hours · 600 Wh · \$3.75." in text
    assert r"| tiny | dense | 3 | 3.00 | 600 Wh | \$3.75 |" in text
    assert dict(found.values())["spent_in_all"]["gpu_hours"] == 3


def test_rented_machines_are_named_beside_the_attempts_that_they_ran(study: Study) -> None:
    """As of a provider that bills 0.00028 USD with setup, for attempts of 0.0000039 USD."""
    used = Usage(seconds=1, cost=3.9e-06, currency="USD")
    rented = RentalCost(currency="USD", cost=0.00028, attempts=3.9e-06)
    study.done("dense", [1, 1])
    found = replace(compared(study, bill(used)), rentals=(rented,))
    text = "Rented machines: 0.00028 USD, of which attempts 3.9e-06 USD."
    assert f"In all: 1 attempt · 3.9e-06 USD. {text}" in markdown.render(found, title="t")
    assert text in printed(found)
    assert text in html.render(found, title="t")
    assert dict(found.values())["rentals"] == [
        {"currency": "USD", "cost": 0.00028, "attempts": 3.9e-06}
    ]


def test_rentals_on_which_nothing_ran_are_named_all_the_same(study: Study) -> None:
    study.cell("dense")
    rented = RentalCost(currency="USD", cost=0.5, attempts=0.0)
    found = replace(compared(study), rentals=(rented,))
    text = "Rented machines: 0.500 USD, of which attempts 0.00 USD."
    assert f"## What it took\n\nIn all: {text}" in markdown.render(found, title="t")
    assert text in printed(found)


def test_csv_has_money_in_the_one_currency_that_there_is(study: Study) -> None:
    study.done("dense", [1, 1])
    study.done("window", [0, 1])
    mixed = bill(HOUR, Usage(seconds=1, cost=1, currency="EUR"))
    dense, window = csv.DictReader(io.StringIO(to_csv(compared(study, bill(HOUR), mixed))))
    assert (dense["cost"], dense["currency"], dense["energy_joules"]) == ("1.25", "$", "720000.0")
    assert (window["cost"], window["currency"], window["attempts"]) == ("", "several", "2")


def test_a_campaign_that_nothing_was_billed_of_has_no_such_section(study: Study) -> None:
    study.done("dense", [1, 1])
    assert "What it took" not in markdown.render(compared(study), title="t")
