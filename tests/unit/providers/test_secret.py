"""Keys are read from private places, and print nowhere."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from benchfleet import registry
from benchfleet.environment import child_environment
from benchfleet.providers.secret import Secret, SecretError, read_secret


def test_a_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER_KEY", " k3y\n")
    assert read_secret("env:PROVIDER_KEY").reveal() == "k3y"
    monkeypatch.delenv("PROVIDER_KEY")
    with pytest.raises(SecretError, match="set it"):
        read_secret("env:PROVIDER_KEY")


def test_a_key_comes_from_a_file_that_nobody_else_can_read(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("k3y\n")
    file.chmod(0o600)
    assert read_secret(f"file:{file}").reveal() == "k3y"
    file.chmod(0o640)
    with pytest.raises(SecretError, match="chmod 600"):
        read_secret(f"file:{file}")
    file.chmod(0o600)
    file.write_text("\n")
    with pytest.raises(SecretError, match="empty"):
        read_secret(f"file:{file}")
    with pytest.raises(SecretError, match="cannot be read"):
        read_secret(f"file:{tmp_path / 'absent'}")


@pytest.mark.parametrize("source", ["k3y", "env:", "http://x"])
def test_a_key_stands_nowhere_else(source: str) -> None:
    with pytest.raises(SecretError, match="env:NAME or file:PATH"):
        read_secret(source)


def test_a_key_neither_prints_nor_pickles() -> None:
    secret = Secret("k3y")
    assert "k3y" not in f"{secret} {secret!r} {[secret]}"
    assert secret.redact("Bearer k3y") == "Bearer <secret>"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_no_child_process_sees_the_usual_variable_of_a_provider() -> None:
    plugins = [registry.load("providers", name) for name in registry.names("providers")]
    variables = {plugin.key_variable for plugin in plugins if plugin.key_variable}
    assert "VAST_API_KEY" in variables
    assert child_environment(dict.fromkeys(variables, "k3y") | {"HOME": "/"}) == {"HOME": "/"}
