"""The tools write over nothing that ``voiceid`` needs, and say so before the work is done."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from tools.evaluate import main
from tools.output import output, write_text


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """What must not be written over."""
    vault, config = tmp_path / "vault", tmp_path / "config.toml"
    vault.mkdir()
    (vault / "device.key").write_bytes(bytes(32))
    config.write_text(f'[paths]\nvault = "{vault}"\n', "utf-8")
    monkeypatch.setenv("VOICEID_CONFIG", str(config))
    return {"the device key": vault / "device.key", "the configuration": config, "in the vault": vault / "new.json"}


def test_what_voiceid_needs_is_refused(places: dict[str, Path], tmp_path: Path) -> None:
    for reason, path in places.items():
        with pytest.raises(argparse.ArgumentTypeError, match=f"{reason}; write to another file"):
            output(str(path))
    assert output(str(tmp_path / "new" / "folder" / "result.json")).name == "result.json"
    places["the configuration"].write_text("[paths]\nvolt = 1\n", "utf-8")
    with pytest.raises(argparse.ArgumentTypeError, match="unknown key 'volt'"):
        output(str(tmp_path / "result.json"))


def test_a_suffix_that_promises_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"result.png would hold neither sound nor a picture"):
        output(str(tmp_path / "result.png"))
    with pytest.raises(argparse.ArgumentTypeError, match=r"phones.pt cannot be written as .pt; use .npy"):
        output(str(tmp_path / "phones.pt"), (".npy",))
    assert output(str(tmp_path / "PHONES.NPY"), (".npy",)).name == "PHONES.NPY"


def test_a_result_that_cannot_be_written_is_told_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = tmp_path / "index.csv"
    index.write_text("path,speaker,kind\n", "utf-8")
    for bad in (tmp_path, index / "result.json", index / "no" / "where.json"):
        with pytest.raises(SystemExit) as caught:
            main(["spoofing", "--index", str(index), "--json", str(bad)])
        assert caught.value.code == 2 and f"'{bad}' cannot be written" in capsys.readouterr().err
    assert main(["spoofing", "--index", str(index), "--json", os.path.relpath(index)]) == 2
    assert "is the index; write to another file" in capsys.readouterr().err
    assert index.read_text("utf-8") == "path,speaker,kind\n"


def test_a_missing_folder_is_made_when_the_result_is_written(tmp_path: Path) -> None:
    path = output(str(tmp_path / "new" / "folder" / "result.json"))
    assert not (tmp_path / "new").exists()
    write_text(path, "{}\n")
    assert path.read_text("utf-8") == "{}\n"
