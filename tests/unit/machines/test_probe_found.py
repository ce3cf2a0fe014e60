from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from benchfleet.machines.probe import hardware
from benchfleet.machines.probe.compute import rate
from benchfleet.machines.probe.measure import disk_speed


class _Ollama(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answers = {
            "/api/version": {"version": "0.6.2"},
            "/api/tags": {
                "models": [
                    {
                        "name": "deepseek-r1:7b",
                        "size": 4_683_075_271,
                        "details": {"parameter_size": "7.6B", "quantization_level": "Q4_K_M"},
                    }
                ]
            },
        }
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answers[self.path]).encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Ollama) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{running.server_port}"
        running.shutdown()


def test_an_ollama_server_tells_its_models(server: str) -> None:
    output = hardware.ollama({"OLLAMA_HOST": server})
    assert output["answers"]
    assert output["version"] == "0.6.2"
    assert output["models"] == [
        {
            "name": "deepseek-r1:7b",
            "size": 4_683_075_271,
            "parameters": "7.6B",
            "quantization": "Q4_K_M",
        }
    ]


@pytest.mark.parametrize("host", ["127.0.0.1:9", "file:///etc/passwd", "http://[bad"])
def test_where_no_ollama_answers_the_reason_is_reported(host: str) -> None:
    output = hardware.ollama({"OLLAMA_HOST": host})
    assert not output["answers"]
    assert output["why"]
    assert output["models"] == []


@pytest.mark.parametrize(
    ("output", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),  # noqa: S104
        (":5000", "http://127.0.0.1:5000"),
        ("lab2:5000", "http://lab2:5000"),
        ("https://lab2/", "https://lab2:443"),
        ("[::1]", "http://[::1]:11434"),
    ],
)
def test_the_server_is_where_its_own_client_looks(output: str, url: str) -> None:
    assert hardware.ollama_url({"OLLAMA_HOST": output}) == url


def test_models_of_the_hub_are_found_with_their_sizes(tmp_path: Path) -> None:
    blobs = tmp_path / "models--org--tiny" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "a").write_bytes(b"x" * 700)
    output = hardware.models({"HF_HUB_CACHE": str(tmp_path), "OLLAMA_HOST": "127.0.0.1:9"})
    assert output["hub"] == [{"name": "org/tiny", "size": 700}]


def test_a_recorded_gpu_is_reported_with_driver_cuda_and_health(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = tmp_path / "gpus.json"
    gpus = [{"index": 0, "name": "H100", "memory": 8 * 10**10}, {"index": 1, "lost": "gone"}]
    recording.write_text(json.dumps({"driver": "550.54", "cuda": "12.4", "gpus": gpus}))
    monkeypatch.setenv("BENCHFLEET_NVML_RECORDING", str(recording))
    output = hardware.gpus()
    assert (output["driver"], output["cuda"], output["problem"]) == ("550.54", "12.4", "")
    assert [gpu["health"] for gpu in output["devices"]] == [
        "good",
        "it does not answer (NVML: gone)",
    ]


def test_the_disk_is_measured_and_left_as_it_was(tmp_path: Path) -> None:
    output = disk_speed(tmp_path, size=8 * 2**20, seconds=0.2)
    assert output["write"] > 0
    assert output["read"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_cannot_be_written_is_a_note() -> None:
    output = disk_speed(Path("/proc"), size=2**23, seconds=0.1)
    assert "was not measured" in output["notes"][0]


def test_a_rate_is_how_often_work_was_done() -> None:
    done: list[int] = []
    assert rate(lambda: done.append(1), 0.0) > 0
    assert len(done) == 2  # once to warm up
