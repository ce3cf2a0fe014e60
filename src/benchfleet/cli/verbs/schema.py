"""``benchfleet schema``: the JSON Schema of a campaign file, an inventory or a report."""

from __future__ import annotations

import argparse
import json

from benchfleet.campaign.inventory import inventory_schema
from benchfleet.campaign.schema import campaign_schema
from benchfleet.machines.probe.schema import report_schema


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = (
        "example: benchfleet schema > campaign.schema.json\n"
        "then begin a YAML campaign with  # yaml-language-server: $schema=campaign.schema.json\n"
        "and one in TOML with             #:schema ./campaign.schema.json"
    )
    parser.add_argument(
        "--machines", action="store_true", help="that of an inventory of machines instead"
    )
    parser.add_argument(
        "--report", action="store_true", help="that of a capability report, as probe writes it"
    )
    parser.add_argument("--json", action="store_true", help="no effect: the schema is JSON")


def main(arguments: argparse.Namespace) -> int:
    """Print the schema."""
    build_schema = inventory_schema if arguments.machines else campaign_schema
    schema = report_schema() if arguments.report else build_schema()
    print(json.dumps(schema, indent=2, ensure_ascii=False))
    return 0
