"""Generation kwargs of transformers in the words of a campaign."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WITHOUT_EFFECT = "pad_token_id"  # padding changes no answer


def campaign_generation(kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The same settings without `do_sample` and `pad_token_id`, and what is wrong with each.

    `do_sample` false is temperature 0. True is the temperature that is given, or 1.
    """
    generation = {key: value for key, value in kwargs.items() if key != _WITHOUT_EFFECT}
    if (sampled := generation.pop("do_sample", None)) is None:
        return generation, {}
    if not isinstance(sampled, bool):
        return generation, {"do_sample": f"must be True or False, not {sampled!r:.60}"}
    if not sampled:
        return {**generation, "temperature": 0}, {}
    temperature = generation.setdefault("temperature", 1.0)
    if temperature is None:
        generation["temperature"] = 1.0
    if temperature == 0:
        message = "samples, but temperature 0 does not; remove one of the two"
        return generation, {"do_sample": message}
    return generation, {}
