"""How the address of an MLflow server is shown."""

from __future__ import annotations

import pytest

from benchfleet.exporters.mlflow_runs import MlflowExporter


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://me:secret@lab:5000/mlflow?token=x", "http://lab:5000/mlflow"),
        ("sqlite:////srv/ml.db", "sqlite:////srv/ml.db"),
        ("sqlite:///ml.db?mode=ro", "sqlite:///ml.db"),
    ],
)
def test_it_is_whole_but_for_passwords(address: str, shown: str) -> None:
    assert MlflowExporter(address, "study").where == shown
