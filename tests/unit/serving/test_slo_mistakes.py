"""An ``slo`` with a misspelt limit."""

from __future__ import annotations

import pytest

from benchfleet.benchmarks.serving.settings import read_slo


def test_a_misspelt_limit_is_named_with_the_right_one() -> None:
    with pytest.raises(ValueError, match=r"slo has no limit 'ttfft'; did you mean 'ttft'\?"):
        read_slo({"ttfft": "500ms", "tpot": "50ms"})
    with pytest.raises(ValueError, match="slo takes ttft, tpot, e2e and share, not '500ms'"):
        read_slo("500ms")
