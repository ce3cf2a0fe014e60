"""What a task's keys say of data that come over the network; a temporary folder is the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchfleet.benchmarks.lm_eval.dataset import RemoteData, remote_data
from benchfleet.prefetch import Missing, missing_here

READERS = ("json", "csv")


def data(path: Any, config: Any = None, **kwargs: Any) -> RemoteData | None:
    return remote_data(path, config, kwargs, readers=READERS)


def test_repositories_and_files_elsewhere_are_remote(tmp_path: Path) -> None:
    assert str(data("allenai/ai2_arc", "ARC-Easy")) == "allenai/ai2_arc (config ARC-Easy)"
    assert str(data("org/rows", revision="v1")) == "org/rows (revision v1)"
    assert str(data("json", data_files="https://a/b.jsonl")) == "https://a/b.jsonl"
    for here in (data("json", data_files="b.jsonl"), data(str(tmp_path)), data(""), data(None)):
        assert here is None


def test_the_command_fetches_the_very_data() -> None:
    found = data("org/it's", "easy", revision="v1", token="hf_s", trust_remote_code=True)  # noqa: S106
    assert found is not None
    assert found.command() == (
        "python -c 'import datasets; "
        """datasets.load_dataset("org/it'"'"'s", "easy", revision="v1")'"""
    )


def test_the_same_data_in_the_same_cache_have_one_lock() -> None:
    def name(*given: Any, home: str = "/h", **kwargs: Any) -> str:
        found = data(*given, **kwargs)
        assert found is not None
        return found.lock_name({"HF_HOME": home})

    assert name("org/rows", "a") == name("org/rows", "a", token="hf_secret")  # noqa: S106
    names = {
        name("org/rows", "a"),
        name("org/rows", "b"),
        name("org/rows", "a", revision="v1"),
        name("org/rows", "a", home="/g"),
        name("org/more", "a"),
    }
    assert len(names) == 5


@pytest.mark.parametrize("kept", ["org___some_rows", "Org___SomeRows", "org___somerows"])
def test_data_are_lacking_offline_alone_and_where_the_cache_has_nothing_of_them(
    tmp_path: Path, kept: str
) -> None:
    found = data("Org/SomeRows")
    assert found is not None
    alone = {"HF_DATASETS_CACHE": str(tmp_path), "HF_DATASETS_OFFLINE": "1"}
    assert found.missing_message({**alone, "HF_DATASETS_OFFLINE": ""}) == ""
    output = found.missing_message(alone)
    assert output.startswith("the data set Org/SomeRows is not in this host's cache, and HF_DATASE")
    assert len(output) < 160
    (tmp_path / kept).mkdir()
    assert found.missing_message(alone) == ""
    elsewhere = data("Org/Others", cache_dir="/mnt")
    assert elsewhere is not None
    assert elsewhere.missing_message(alone) == ""


def test_without_a_network_what_is_missing_is_named(tmp_path: Path) -> None:
    rows = RemoteData(path="openai/gsm8k", config="main")
    environ = {"HF_HOME": str(tmp_path), "HF_ENDPOINT": "http://127.0.0.1:9"}
    output = rows.unreachable_message(environ)
    assert output.startswith("the data set openai/gsm8k is not in this host's cache")
    assert "127.0.0.1 cannot be reached: fetch it where there is a network" in output
    assert missing_here([rows], environ) == [
        Missing(kind="data set", name="openai/gsm8k", size=None)
    ]
    (tmp_path / "datasets" / "openai___gsm8k").mkdir(parents=True)
    assert rows.unreachable_message(environ) == ""
    assert missing_here([rows], environ) == []
