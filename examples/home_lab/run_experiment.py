"""Runs one experiment by its config file, and prints its report as JSON: a stand-in."""

import argparse
import json
import random
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--experiment", required=True)
parser.add_argument("--config", required=True)
asked = parser.parse_args()
config = json.loads(Path(asked.config).read_text())

dice = random.Random(asked.experiment)
hits = sum(dice.random() < config["chance"] for _ in range(200))
report = {config["measure"]: hits / 200}
if "at_least" in config:
    report["passed"] = hits / 200 >= config["at_least"]
print(json.dumps(report))
