"""Campaign files that tests write, and the mistakes that are found in one."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.errors import CampaignError, Mistake

GOOD = """\
campaign: attention/study
defaults:
  adapter: mock
  generation: {max_new_tokens: 32}
  limits: {cell: 6h, tries: 2}
  repeats: 2
matrix:
  models:
    - one
    - {name: two, model_kwargs: {answer: "7"}, generation: {temperature: 0.5}, priority: 4}
  configs:
    dense: null
    streaming: {attention: [{sink: 4}, {local: 32}]}
  benchmarks:
    - recall: {subsets: [128, 512], samples: 10, generation: {max_new_tokens: 3}}
    - mock_benchmark
  exclude:
    - {models: two, configs: "!dense"}
  include:
    - {models: one, configs: dense, benchmarks: mock_benchmark, repeats: 3}
"""


def write(folder: Path, text: str | bytes, name: str = "study.yaml") -> Path:
    """Text as a file, without the indentation of the test that it stands in."""
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else dedent(text).encode())
    return file


def mistakes_in(file: Path) -> list[Mistake]:
    """What loading the file finds wrong, which must be something."""
    with pytest.raises(CampaignError) as caught:
        load_campaign(file)
    assert caught.value.file == str(file)
    return caught.value.mistakes
