"""Plays one level with one model, and prints the scores as JSON. A stand-in for a real game."""

import argparse
import json
import random

parser = argparse.ArgumentParser()
for name in ("level", "model", "configuration", "rerun"):
    parser.add_argument(f"--{name}", required=True)
asked = parser.parse_args()

dice = random.Random(f"{asked.level} {asked.rerun}")
skill = 0.9 if asked.model.endswith("Q8") else 0.7
won = sum(dice.random() < skill for _ in range(20))
print(json.dumps({"success_rate": won / 20, "games": 20}))
