"""Running ``voiceid`` in this process, and small bad files for it."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from voiceid.cli.exit_codes import ExitCode
from voiceid.cli.main import app
from voiceid.models.card import ROLES
from voiceid.models.store import shipped_folder
from voiceid.settings import ModelSettings


@dataclass(frozen=True)
class Ran:
    """What a run came to."""

    code: ExitCode
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which must be one JSON document and nothing else."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The JSON object on standard error."""
        return json.loads(self.err.strip().splitlines()[-1])["error"]


def voiceid(*arguments: object, stdin: str | None = None) -> Ran:
    """Run one command."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, prog_name="voiceid")
    assert "Traceback" not in result.output
    return Ran(ExitCode(result.exit_code), result.stdout, result.stderr)


def need_shipped_models() -> None:
    """Skip where the default cards are not there yet."""
    settings = ModelSettings()
    missing = [role for role in ROLES if not (shipped_folder() / f"{getattr(settings, role)}.json").exists()]
    if missing:
        pytest.skip(f"no shipped card for {', '.join(missing)} in {shipped_folder()}")


def recordings_of(corpus: Path, speakers: Sequence[str], count: int) -> dict[str, list[Path]]:
    """``count`` recordings of three to nine seconds by each of ``speakers``; skips where there are fewer."""
    need_shipped_models()
    found = {}
    for speaker in speakers:
        files = sorted((corpus / "opus" / "ls-test-clean" / speaker).glob("*.opus"))
        found[speaker] = [file for file in files if 3.5 < soundfile.info(file).duration < 9][:count]
        if len(found[speaker]) < count:
            pytest.skip(f"the corpus has too few recordings of {speaker}")
    return found


def write_sparse_hour(path: Path) -> Path:
    """An hour of 16 kHz silence as WAV whose samples take no disk space."""
    size = 3600 * 16_000 * 2
    header = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + size, b"WAVE", b"fmt ", 16, 1, 1, 16_000, 32_000, 2, 16, b"data", size
    )
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + size)
    return path


def write_nan(path: Path) -> Path:
    """One second of float WAV with a NaN in it."""
    samples = np.zeros(16_000, np.float32)
    samples[5000] = np.nan
    soundfile.write(path, samples, 16_000, subtype="FLOAT")
    return path
