"""Files of ours in each other's place: told by name, whoever reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from tests.cli_helpers import voiceid
from tests.vault_helpers import NONCE, RP, Party
from tests.words_helpers import CODEBOOK, HASH, spell
from tools.evaluation import det
from voiceid.cli.exit_codes import ExitCode
from voiceid.credentials.envelope import Envelope
from voiceid.enrolment.backup import Backup
from voiceid.errors import EnvelopeError
from voiceid.file_kind import FileKind, kind_of
from voiceid.models.store import shipped_folder
from voiceid.relying_party import Registration, verify_registration
from voiceid.understanding.grammar import SHIPPED


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[FileKind, Path]:
    """One real file of each kind; the names say nothing of it."""
    folder = tmp_path_factory.mktemp("files")
    party = Party(folder / "vault")
    response = party.registered.response
    units = {"codebook": CODEBOOK, "codebook_hash": HASH.hex(), "merged": list(spell("brew a mocha").units)}
    soundfile.write(folder / "sound.wav", np.zeros(1600, np.float32), 16_000)
    contents = {
        FileKind.RECORDING: (folder / "sound.wav").read_bytes(),
        FileKind.PICTURE: b"\x89PNG\r\n\x1a\n",
        FileKind.ENVELOPE: party.authenticate().to_bytes(),
        FileKind.REGISTRATION: json.dumps(response).encode(),
        FileKind.KEPT_REGISTRATION: json.dumps(party.registration.to_json()).encode(),
        FileKind.UNITS: json.dumps(units).encode(),
        FileKind.DECISION: json.dumps({"name": "ada", "outcome": "accepted", "reasons": []}, indent=2).encode(),
        FileKind.REPORT: json.dumps({"schema": 1, "runs": [], "cold_start": {}}).encode(),
        FileKind.BACKUP: Backup.of(party.vault.contents()).seal("five words taken at random"),
        FileKind.VAULT: (folder / "vault" / "format").read_bytes(),
        FileKind.CARD: (shipped_folder() / "guard.json").read_bytes(),
        FileKind.MODEL: (shipped_folder() / "guard.onnx").read_bytes(),
        FileKind.GRAMMAR: (SHIPPED / "coffee.toml").read_bytes(),
        FileKind.CONFIGURATION: b"# mine\n[paths]\nvault = '/v'\n",
    }
    for kind, data in contents.items():
        (folder / f"{kind.name.lower()}.toml").write_bytes(data)
    return {kind: folder / f"{kind.name.lower()}.toml" for kind in contents}


def test_every_kind_is_known_by_what_is_in_it(files: Mapping[FileKind, Path]) -> None:
    assert list(files) == list(FileKind)
    for kind, file in files.items():
        assert kind_of(file.read_bytes()) is kind
    answer = {"registration": json.loads(files[FileKind.REGISTRATION].read_bytes()), "output": None}
    assert kind_of(json.dumps(answer).encode()) is FileKind.REGISTRATION
    for other in (b"", b"{", b"{}", b"[" * 100_000, b"{" + b'"a":[' * 100_000, b"text\n", bytes(32), b"\xa0"):
        assert kind_of(other) is None


@given(st.binary(max_size=100))
def test_anything_can_be_looked_at(data: bytes) -> None:
    assert kind_of(data) is None or isinstance(kind_of(data), FileKind)
    assert kind_of(b"{" + data) is None or kind_of(b"{" + data) in FileKind


READERS = {
    "understand": (("understand", "FILE"), {FileKind.ENVELOPE, FileKind.UNITS}, ExitCode.ENVELOPE),
    "grammar": (("understand", "UNITS", "--grammar", "FILE"), {FileKind.GRAMMAR}, ExitCode.GRAMMAR),
    "model": (("understand", "UNITS", "--model", "FILE"), {FileKind.CARD}, ExitCode.MODEL),
    "models use": (("models", "use", "FILE"), {FileKind.CARD}, ExitCode.MODEL),
    "restore": (("backup", "restore", "FILE"), {FileKind.BACKUP}, ExitCode.BACKUP),
    "configuration": (("config", "show", "--config", "FILE"), {FileKind.CONFIGURATION}, ExitCode.SETTINGS),
    "compare": (("benchmark", "x.wav", "--compare", "FILE"), {FileKind.REPORT}, ExitCode.SETTINGS),
    "units": (("units", "FILE"), {FileKind.RECORDING}, ExitCode.AUDIO),
    "enroll": (("enroll", "ada", "FILE"), {FileKind.RECORDING}, ExitCode.AUDIO),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_file_in_the_place_of_another_is_told_by_name(
    files: Mapping[FileKind, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    monkeypatch.setenv("VOICEID_CONFIG", "/dev/null" if reader == "configuration" else str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").touch()
    command, right, code = READERS[reader]
    for kind, file in files.items():
        if kind in right:
            continue
        places = {"FILE": str(file), "UNITS": str(files[FileKind.UNITS])}
        ran = voiceid(*(places.get(word, word) for word in command), "--vault", tmp_path / "vault", "--json")
        message = ran.error["message"]
        assert ran.code is code and ran.out == "", (kind, message)
        if (reader, kind) == ("understand", FileKind.RECORDING):
            assert "audio; make units of it first" in message
        else:
            assert f"this is {kind}" in message, kind
        assert reader == "restore" or str(file) in message
        assert "Error" not in message and "Invalid" not in message, message
    assert not (tmp_path / "vault").exists()


def test_units_without_a_key_are_told_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "units.json").write_text('{"codebook": 50, "merged": [1, 2]}')
    ran = voiceid("understand", tmp_path / "units.json", "--json")
    assert ran.code is ExitCode.ENVELOPE and ran.error["message"].endswith("--json': it has no 'codebook_hash'")


@pytest.mark.parametrize(
    ("read", "wanted"),
    [
        (Envelope.from_bytes, FileKind.ENVELOPE),
        (lambda data: Registration.from_json(json.loads(data)), FileKind.KEPT_REGISTRATION),
        (
            lambda data: verify_registration(data.decode(), expected_challenge=NONCE, expected_rp_id=RP),
            FileKind.REGISTRATION,
        ),
    ],
)
def test_a_service_is_told_too(files: Mapping[FileKind, Path], read: Callable[[bytes], Any], wanted: FileKind) -> None:
    for kind in {FileKind.REGISTRATION, FileKind.KEPT_REGISTRATION, FileKind.UNITS} - {wanted}:
        with pytest.raises(EnvelopeError, match=f"; this is {kind}$"):
            read(files[kind].read_bytes())


def test_the_tool_that_draws_is_told_too(
    files: Mapping[FileKind, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in (FileKind.CARD, FileKind.RECORDING, FileKind.REPORT):
        with pytest.raises(SystemExit) as caught:
            det.main([str(files[kind]), str(tmp_path / "out.svg")])
        assert caught.value.code == 2 and f"this is {kind}" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        det.main([str(tmp_path / "none.json"), str(tmp_path / "out.svg")])
    assert "none.json: cannot be read (No such file" in capsys.readouterr().err
