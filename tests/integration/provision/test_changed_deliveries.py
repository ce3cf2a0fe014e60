"""A host keeps no files but those that the campaign was read with."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.engines.bundles import Bundle, ProvisionFailed

from .conftest import MakeSync, cell_of, cell_of_script, without_rsync


@pytest.fixture(params=["rsync", "tar"])
def file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model that is one file, sent by rsync or as an archive."""
    if request.param == "tar":
        without_rsync(tmp_path / "bin", monkeypatch)
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF" * 1000)
    return file


def test_a_host_keeps_no_model_that_changed_since_the_campaign_was_read(
    file_sync: MakeSync, file: Path
) -> None:
    cell = cell_of(file)
    file.write_bytes(b"XGGU" * 1000)
    with pytest.raises(ProvisionFailed, match=r"tiny\.gguf has changed since the") as refused:
        file_sync().send(cell)
    assert refused.value.kind == "user_error"
    file.write_bytes(b"GGUF" * 1000)
    assert Path(file_sync().send(cell).model.source).read_bytes() == file.read_bytes()


def test_a_host_keeps_no_model_that_changes_while_it_is_sent(
    file_sync: MakeSync, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cell_of(file)
    check, checked = Bundle.check, list[str]()

    def changing(bundle: Bundle) -> None:
        check(bundle)
        if not checked:
            file.write_bytes(b"XGGU" * 1000)
        checked.append(bundle.name)

    monkeypatch.setattr(Bundle, "check", changing)
    with pytest.raises(ProvisionFailed, match=r"tiny\.gguf has changed since the"):
        file_sync().send(cell)
    file.write_bytes(b"GGUF" * 1000)
    assert Path(file_sync().send(cell).model.source).read_bytes() == file.read_bytes()


def test_a_script_that_was_edited_too_early_is_sent_once_it_is_put_right(
    file_sync: MakeSync, tmp_path: Path
) -> None:
    script = tmp_path / "measure.py"
    script.write_text("print(1)")
    cell = cell_of_script(script)
    script.write_text("print(2)")
    with pytest.raises(ProvisionFailed, match="command has changed since the campaign was read"):
        file_sync().send(cell)
    script.write_text("print(1)")
    folder = str(file_sync().send(cell).workload.outside["folder"])
    assert Path(folder, "measure.py").read_text() == "print(1)"


def test_a_full_disk_of_the_host_has_a_kind_of_its_own(
    file_sync: MakeSync, model: Path, tmp_path: Path
) -> None:
    python = tmp_path / "python-on-a-full-disk"
    python.write_text("#!/bin/sh\necho 'OSError: [Errno 28] No space left on device' >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(ProvisionFailed, match="No space left") as full:
        file_sync(python=str(python)).send(cell_of(model))
    assert full.value.kind == "disk_full"
