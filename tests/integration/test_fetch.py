"""Fetching models from a hub on loopback, by processes that share a host."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchfleet.errors import CellFailure
from benchfleet.models.fetch import declared_digest, fetched_folder, needed_files
from hubs import COMMIT, FILES, TOKEN, ModelHub, client_of, commit_of, serving

NEEDED = ["config.json", "model.safetensors", "tokenizer.json"]


@pytest.fixture
def hub() -> Iterator[ModelHub]:
    hub = ModelHub()
    with serving(hub):
        yield hub


@pytest.fixture
def environ(hub: ModelHub, tmp_path: Path) -> dict[str, str]:
    return client_of(hub, tmp_path)


FETCH = """\
import sys
from benchfleet.errors import CellFailure
from benchfleet.models.fetch import fetched_folder
try:
    print(fetched_folder(sys.argv[1], sys.argv[2]))
except (ValueError, CellFailure) as error:
    print(type(error).__name__, error, file=sys.stderr)
    sys.exit(1)
"""


def _start(environ: dict[str, str], source: str = "org/tiny") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, source, COMMIT],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, complained = process.communicate(timeout=120)
    return process.returncode, output, complained


def _fetch(environ: dict[str, str], source: str = "org/tiny") -> tuple[int, str, str]:
    return _end(_start(environ, source))


def _fetched(process: subprocess.Popen[str]) -> Path:
    """The folder of the model, which is whole, where the process ends well."""
    code, output, complained = _end(process)
    assert code == 0, complained
    folder = Path(output.strip())
    assert sorted(file.name for file in folder.iterdir()) == NEEDED
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    return folder


def test_a_name_is_resolved_without_fetching_and_then_fetched_once(
    hub: ModelHub, environ: dict[str, str]
) -> None:
    assert declared_digest("org/tiny", environ=environ) == COMMIT
    assert hub.fetched("model.safetensors") == 0
    folder = _fetched(_start(environ))
    assert _fetched(_start(environ)) == folder
    assert {name: hub.fetched(name) for name in FILES} == {
        name: int(name in NEEDED) for name in FILES
    }


def test_what_was_fetched_is_found_offline_by_its_name(
    hub: ModelHub, environ: dict[str, str]
) -> None:
    folder = _fetched(_start(environ))
    hub.asked.clear()
    alone = {**environ, "HF_HUB_OFFLINE": "1"}
    assert declared_digest("org/tiny", environ=alone) == COMMIT
    assert fetched_folder("org/tiny", COMMIT, environ=alone) == folder
    assert not hub.asked


def test_one_fetches_while_the_others_wait(hub: ModelHub, environ: dict[str, str]) -> None:
    hub.hold.clear()
    several = [_start(environ) for _ in range(3)]
    assert hub.holding.wait(60)
    hub.hold.set()
    assert len({_fetched(process) for process in several}) == 1
    assert hub.fetched("model.safetensors") == hub.fetched("tokenizer.json") == 1


def test_where_the_one_who_fetches_dies_the_next_takes_over(
    hub: ModelHub, environ: dict[str, str]
) -> None:
    hub.hold.clear()
    first = _start(environ)
    assert hub.holding.wait(60)
    second = _start(environ)
    first.kill()
    first.communicate(timeout=60)
    hub.hold.set()
    _fetched(second)


def test_a_connection_that_breaks_off_in_the_middle_leaves_no_broken_model(
    hub: ModelHub, environ: dict[str, str]
) -> None:
    hub.break_off = 1
    code, _, complained = _fetch(environ)
    if code:
        assert "CellFailure fetching org/tiny from the hub broke off" in complained
        code, _, complained = _fetch(environ)
    assert code == 0, complained
    assert hub.fetched("model.safetensors") == 2
    folder = fetched_folder("org/tiny", COMMIT, environ=environ)
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]


def test_a_gated_model_needs_a_token_which_is_never_printed(
    hub: ModelHub, environ: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match=r"org/gated is gated: ask for access .* set HF_TOKEN"):
        declared_digest("org/gated", environ=environ)
    wrong = {**environ, "HF_TOKEN": "hf_wrongwrong"}
    with pytest.raises(ValueError, match="as the user whose HF_TOKEN is set") as caught:
        declared_digest("org/gated", environ=wrong)
    assert "hf_wrong" not in str(caught.value)
    code, _, complained = _fetch(wrong, "org/gated")
    assert (code, "org/gated is gated" in complained) == (1, True), complained
    assert "hf_wrong" not in complained

    right = {**environ, "HF_TOKEN": TOKEN}
    assert declared_digest("org/gated", environ=right) == commit_of("org/gated")
    code, output, complained = _fetch(right, "org/gated")
    assert code == 0, complained
    assert TOKEN not in output + complained
    kept = [file for top in ("HF_HOME", "XDG_CACHE_HOME") for file in Path(right[top]).rglob("*")]
    assert not [file for file in kept if file.is_file() and TOKEN.encode() in file.read_bytes()]


def test_a_token_that_was_pasted_with_a_line_break_is_used_and_not_printed(
    environ: dict[str, str],
) -> None:
    broken = {**environ, "HF_TOKEN": f"{TOKEN[:9]}\n{TOKEN[9:]}"}
    assert declared_digest("org/gated", environ=broken) == commit_of("org/gated")


def test_a_token_left_by_a_login_is_honoured(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_text(TOKEN + "\n")
    assert declared_digest("org/gated", environ=environ) == commit_of("org/gated")


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("org/none", "the hub has no model org/none; if it is private, set HF_TOKEN"),
        ("org/tiny@v9", "the hub has no revision 'v9' of org/tiny"),
    ],
)
def test_what_the_hub_does_not_have_is_reported_when_the_campaign_is_read(
    environ: dict[str, str], source: str, output: str
) -> None:
    with pytest.raises(ValueError, match=output):
        declared_digest(source, environ=environ)


def test_offline_the_remedy_is_printed(hub: ModelHub, environ: dict[str, str]) -> None:
    alone = {**environ, "HF_HUB_OFFLINE": "1"}
    with pytest.raises(ValueError, match=r"hf download org/tiny \(.*HF_HUB_OFFLINE is set\)"):
        declared_digest("org/tiny", environ=alone)
    with pytest.raises(ValueError, match=r"hf download org/tiny .*HF_HUB_OFFLINE is set"):
        fetched_folder("org/tiny", COMMIT, environ=alone)
    assert not hub.asked


@pytest.mark.parametrize(
    ("endpoint", "printed"),
    [
        ("http://127.0.0.1:9", "127.0.0.1 cannot be reached"),
        ("ftp://127.0.0.1", "HF_ENDPOINT is not a web address: ftp://127.0.0.1"),
        ("nonsense", "HF_ENDPOINT is not a web address: nonsense"),
    ],
)
def test_without_a_network_the_remedy_is_printed(
    environ: dict[str, str], endpoint: str, printed: str
) -> None:
    lost = {**environ, "HF_ENDPOINT": endpoint}
    output = rf"hf download org/tiny \(the hub could not be asked: {printed}\)"
    with pytest.raises(ValueError, match=output):
        declared_digest("org/tiny", environ=lost)


def test_a_hub_that_answers_strangely_is_worth_another_try(environ: dict[str, str]) -> None:
    code, _, complained = _fetch(environ, "org/odd")
    assert code == 1
    assert "CellFailure fetching org/odd from the hub broke off" in complained


def test_a_fetch_cut_short_is_not_taken_for_a_model(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """All the weights came, and then the process died before the tokenizer did."""
    folder = Path(environ["HF_HOME"]) / "hub" / "models--org--tiny" / "snapshots" / COMMIT
    calls = []

    def dies(name: str, commit: str, cache: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for file in ("config.json", "model.safetensors"):
            (folder / file).write_bytes(FILES[file])
        raise CellFailure(stage="load", kind="error", message="cut")

    def ends_well(name: str, commit: str, cache: Path) -> None:
        calls.append((name, commit))

    with pytest.raises(CellFailure, match="cut"):
        fetched_folder("org/tiny", COMMIT, environ=environ, download=dies)
    for _ in range(2):
        found = fetched_folder("org/tiny", COMMIT, environ=environ, download=ends_well)
        assert found == folder
    assert calls == [("org/tiny", COMMIT)]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (list(FILES), NEEDED),
        (["config.json", "pytorch_model.bin"], ["config.json", "pytorch_model.bin"]),
        (
            ["model-1.safetensors", "consolidated.safetensors", "model.safetensors.index.json"],
            ["model-1.safetensors", "model.safetensors.index.json"],
        ),
        (["consolidated.safetensors"], ["consolidated.safetensors"]),
        (
            ["additional_chat_templates/x.jinja", "onnx/config.json", "a.gguf", "m.safetensors"],
            ["additional_chat_templates/x.jinja", "m.safetensors"],
        ),
    ],
)
def test_one_format_of_weights_is_wanted_and_all_that_describes_them(
    files: list[str], expected: list[str]
) -> None:
    assert needed_files(files) == expected
