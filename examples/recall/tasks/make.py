"""Write the questions of the two tasks beside this file: texts of the recall benchmark, as rows."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

from benchfleet.benchmarks.recall import Recall

LENGTH, ROWS, SEED = "512", 60, 1

samples = islice(Recall({"samples": ROWS}).samples(LENGTH, seed=SEED), ROWS)
names = ("context", "question", "answer", "depth")
lines = [json.dumps({name: sample.columns[name] for name in names}) for sample in samples]
Path(__file__).with_name("recall.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
