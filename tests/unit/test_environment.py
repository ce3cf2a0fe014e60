"""What is read of the environment, and what is taken out of messages; reads a temporary folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.environment import (
    datasets_cache,
    host_name,
    hub_cache,
    hub_token,
    lease_seconds,
    offline,
    without_token,
)

TOKEN = "hf_secretsecret"  # noqa: S105 - nobody's


@pytest.mark.parametrize(
    ("environ", "hub", "datasets"),
    [
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub", "/c/huggingface/datasets"),
        ({"HF_HOME": "/h", "XDG_CACHE_HOME": "/c"}, "/h/hub", "/h/datasets"),
        ({"HF_HOME": "/h", "HF_HUB_CACHE": "/x"}, "/x", "/h/datasets"),
        ({"HF_HOME": "/h", "HF_DATASETS_CACHE": "/y"}, "/h/hub", "/y"),
    ],
)
def test_caches_lie_where_the_libraries_look(
    environ: dict[str, str], hub: str, datasets: str
) -> None:
    assert (str(hub_cache(environ)), str(datasets_cache(environ))) == (hub, datasets)


def test_what_forbids_the_hub_is_named_and_some_forbid_data_sets_alone() -> None:
    assert offline({"HF_HUB_OFFLINE": "1"}) == "HF_HUB_OFFLINE"
    assert offline({"TRANSFORMERS_OFFLINE": "yes"}) == "TRANSFORMERS_OFFLINE"
    assert offline({"HF_HUB_OFFLINE": "0"}) == offline({"HF_DATASETS_OFFLINE": "1"}) == ""
    assert offline({"HF_DATASETS_OFFLINE": "true"}, datasets=True) == "HF_DATASETS_OFFLINE"


def test_a_token_is_one_line_wherever_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert hub_token({"HF_TOKEN_PATH": str(file)}) == TOKEN
    assert hub_token({"HF_TOKEN": f" {TOKEN[:6]}\r\n{TOKEN[6:]}\n"}) == TOKEN
    assert hub_token({"HF_TOKEN": "", "HUGGING_FACE_HUB_TOKEN": TOKEN}) == TOKEN
    assert hub_token({"HF_HOME": str(tmp_path / "nothing")}) == ""


@pytest.mark.parametrize(
    "token", [TOKEN, f"\x1b[200~{TOKEN}", f"{TOKEN[:6]}\n{TOKEN[6:]}", f"{TOKEN}\u2026"]
)
def test_a_token_is_taken_out_however_it_is_written(token: str) -> None:
    environ = {"HF_TOKEN": token, "HF_HOME": "/nothing"}
    for form in (token, repr(token), repr(token.encode()), f"Bearer {token.strip()}"):
        assert without_token(f"header {form} cannot be sent", environ).count("[token]") == 1
        assert TOKEN[6:] not in without_token(form, environ)


def test_a_text_without_a_token_stays_as_it_is(tmp_path: Path) -> None:
    text = "a message"
    for environ in ({}, {"HF_TOKEN": ""}, {"HF_TOKEN": "a"}):
        assert without_token(text, {**environ, "HF_HOME": str(tmp_path)}) == text


def test_leases_last_as_long_as_the_environment_says_and_else_as_usual() -> None:
    assert lease_seconds({}) is None
    assert lease_seconds({"BENCHFLEET_LEASE_SECONDS": " "}) is None
    assert lease_seconds({"BENCHFLEET_LEASE_SECONDS": "2.5"}) == 2.5


@pytest.mark.parametrize("output", ["soon", "1", "-5", "nan", "inf", "1e9"])
def test_a_length_of_leases_that_cannot_be_is_refused(output: str) -> None:
    with pytest.raises(ValueError, match="use seconds from 2 to 86400"):
        lease_seconds({"BENCHFLEET_LEASE_SECONDS": output})


def test_a_host_has_the_configured_name_or_else_that_of_its_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, campaign = tmp_path / "here", tmp_path / "campaign"
    here.mkdir()
    campaign.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr("socket.gethostname", lambda: "board.lan")
    assert host_name(campaign, {}) == "board.lan"
    (campaign / "runner_hostname.txt").write_text("machine-b\n")
    assert host_name(campaign, {}) == "machine-b"
    assert host_name(None, {}) == "board.lan"
    (here / "runner_hostname.txt").write_text("\ufeffmachine-a\r\n", "utf-8")
    assert host_name(campaign, {}) == "machine-a"
    assert host_name(campaign, {"BENCHFLEET_HOST": " lab 2 "}) == "lab_2"
    (here / "runner_hostname.txt").write_text("\n")  # says nothing
    assert host_name(campaign, {}) == "machine-b"


@pytest.mark.parametrize(
    ("output", "name"),
    [
        ("../etc/passwd", "etc_passwd"),
        ("a..b~1:x", "a.b_1_x"),
        ("-rf .", "rf"),
        ("Jürgen", "Jürgen"),
    ],
)
def test_a_hosts_name_can_be_a_file_and_a_branch(output: str, name: str) -> None:
    assert host_name(None, {"BENCHFLEET_HOST": output}) == name


@pytest.mark.parametrize("output", ["//", "..", "x" * 101, "a.lock"])
def test_an_invalid_host_name_is_reported(output: str) -> None:
    with pytest.raises(ValueError, match="invalid host name"):
        host_name(None, {"BENCHFLEET_HOST": output})
