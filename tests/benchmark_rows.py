"""Rows of each data set, in the format in which the hub has it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LONG = "The lamp of Fallow Point burned whale oil. Ada Brandt kept it for years. "
Rows = Sequence[Mapping[str, Any]]
SUBJECTS = (
    "biology, business, chemistry, computer science, economics, engineering, health, history, law, "
    "math, other, philosophy, physics, psychology"
)
CHOICES = ["one", "two", "three", "four"]


def longbench(name: str) -> Rows:
    """As Xnhyacinth/LongBench has a config; the answers fit its metric."""
    plain = {"passage_count": "3", "passage_retrieval_en": "Paragraph 2"}
    plain |= {"passage_retrieval_zh": "段落2", "trec": "Location", "lsht": "体育"}
    return [
        {
            "question": f"Who kept the lamp {n}?",
            "context": LONG * (n + 2),
            "answers": [plain.get(name.removesuffix("_e"), f"Ada Brandt {n}")],
            "all_classes": ["Location", "Person", "体育", "Number of something"],
            "length": 3000 * (n + 1),
            "dataset": name,
            "language": "en",
            "_id": f"{name}-{n}",
        }
        for n in range(3)
    ]


def infinite_bench(name: str) -> Rows:
    """As xinrongzhang2022/InfiniteBench has a split."""
    inputs = {"code_run": "What is func_1(7)?", "math_find": "The largest number of the list is"}
    return [
        {
            "id": n,
            "context": LONG * (n + 2),
            "input": inputs.get(name, f"What is the pass key {n}?"),
            "answer": ["42"],
            "options": CHOICES,
        }
        for n in range(2)
    ]


def babilong() -> Rows:
    return [
        {"input": LONG * (n + 2), "question": "Where is Ada?", "target": "kitchen"}
        for n in range(2)
    ]


def longbench_v2() -> Rows:
    """As THUDM/LongBench-v2 has them."""
    return [
        {
            "_id": str(n),
            "domain": "d",
            "sub_domain": "s",
            "difficulty": ["easy", "hard"][n % 2],
            "length": ["short", "medium", "long"][n % 3],
            "question": "Who kept the lamp?",
            **{f"choice_{letter}": choice for letter, choice in zip("ABCD", CHOICES, strict=True)},
            "answer": "ABCD"[n % 4],
            "context": LONG * 3,
        }
        for n in range(6)
    ]


def loogle(name: str) -> Rows:
    """As bigai-nlco/LooGLE has a config: questions share their text."""
    answer: Any = ["Ada Brandt", "Fallow Point"] if name == "shortdep_cloze" else "Ada Brandt did"
    return [
        {
            "context": LONG * (2 + n // 2),
            "question": f"Who kept the lamp {n}?",
            "answer": answer,
            "evidence": [],
            "title": "t",
            "doc_id": f"doc{n // 2}",
            "id": f"q{n}",
        }
        for n in range(4)
    ]


DAILY: Mapping[str, tuple[str, Mapping[str, Rows]]] = {
    # the benchmark's name: its data set, and the rows of each file
    "aime2024": (
        "Maxwell-Jia/AIME_2024",
        {
            "train": [
                {"ID": f"2024-{n}", "Problem": f"What is {n} + 2?", "Answer": n + 2}
                for n in range(3)
            ]
        },
    ),
    "aime2025": (
        "math-ai/aime25",
        {"test": [{"id": n, "problem": f"What is {n}?", "answer": str(n)} for n in range(3)]},
    ),
    "gsm8k": (
        "openai/gsm8k",
        {
            f"main/{split}": [
                {"question": f"{n} + 1?", "answer": f"It is so. #### {n + 1}"} for n in range(6)
            ]
            for split in ("train", "test")
        },
    ),
    "gpqa": (
        "Idavidrein/gpqa",
        {
            "gpqa_diamond": [
                {
                    "Question": f"Which is {n}?",
                    "Correct Answer": str(n),
                    **{f"Incorrect Answer {k}": str(n + k) for k in (1, 2, 3)},
                }
                for n in range(3)
            ]
        },
    ),
    "mmlu_pro": (
        "TIGER-Lab/MMLU-Pro",
        {
            split: [
                {
                    "question_id": n,
                    "question": f"Which is {n}?",
                    "options": CHOICES,
                    "answer": "ABCD"[n % 4],
                    "answer_index": n % 4,
                    "cot_content": "A: Let's think step by step. The answer is (A).",
                    "category": category,
                    "src": "",
                }
                for n in range(6)
                for category in SUBJECTS.split(", ")
            ]
            for split in ("validation", "test")
        },
    ),
}


def write(folder: Path, files: Mapping[str, Rows], *, parquet: bool = False) -> Path:
    """The rows of each file below a folder, as JSON lines or as parquet."""
    for name, rows in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if parquet:
            import datasets

            datasets.Dataset.from_list([dict(row) for row in rows]).to_parquet(f"{file}.parquet")
        else:
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            file.with_name(f"{file.name}.jsonl").write_text(text, "utf-8")
    return folder
