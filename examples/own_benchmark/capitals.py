"""A benchmark of your own: a function that asks the model and returns what it measured."""

CAPITALS = {
    "europe": {"France": "Paris", "Norway": "Oslo", "Italy": "Rome"},
    "africa": {"Kenya": "Nairobi", "Egypt": "Cairo"},
}


def capitals(adapter, subset, polite=False):
    """Ask for each capital; a mapping of numbers and samples is a whole report."""
    rows = CAPITALS[subset]
    please = "Please say: " if polite else ""
    prompts = [f"{please}The capital of {land} is" for land in rows]
    answers = adapter.generate(prompts, max_new_tokens=4)
    samples = [
        {"id": land, "score": int(city in answer), "predicted_answer": answer, "target": city}
        for (land, city), answer in zip(rows.items(), answers, strict=True)
    ]
    return {"accuracy": sum(one["score"] for one in samples) / len(samples), "samples": samples}
