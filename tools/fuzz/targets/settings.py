"""The configuration: as a TOML file, or as the table that one comes to, in JSON."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from tools.fuzz.target import Target
from voiceid.errors import SettingsError
from voiceid.settings import Settings, load_settings
from voiceid.tables import from_table

EXAMPLES = Path(__file__).resolve().parents[3] / "deploy"


def make(folder: Path) -> Target:
    path = folder / "config.toml"

    def run(data: bytes) -> None:
        try:
            if data.startswith(b"{"):
                from_table(Settings, json.loads(data), where="table", error=SettingsError)
            else:
                path.write_bytes(data)
                load_settings(path)
        except (SettingsError, json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            return

    sections = {field.name: getattr(Settings(), field.name) for field in dataclasses.fields(Settings)}
    words = [*sections, *(field.name for section in sections.values() for field in dataclasses.fields(section))]
    seeds = (json.dumps(dataclasses.asdict(Settings()), default=str).encode(),)
    seeds += tuple(example.read_bytes() for example in sorted(EXAMPLES.rglob("*.toml")))
    return Target(run, seeds, 8192, tuple(words), json=True)
