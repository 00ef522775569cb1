"""Fixtures: the corpus and the reference folder, found through the environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from voiceid.models.store import shipped_folder

# A busy machine is no failure: examples have no deadline, and may take long to make.
hypothesis.settings.register_profile(
    "untimed",
    parent=hypothesis.settings.default,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("untimed")


def _folder(variable: str, marker: str) -> Path:
    folder = Path(os.environ.get(variable, ""))
    if not os.environ.get(variable) or not (folder / marker).exists():
        pytest.skip(f"{variable} does not name a folder with {marker}")
    return folder


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The corpus of real speech and attacks."""
    return _folder("VOICEID_CORPUS", "index.csv")


@pytest.fixture(scope="session")
def reference() -> Path:
    """Official checkpoints and tables."""
    return _folder("VOICEID_REFERENCE", "aasist")


@pytest.fixture(scope="session")
def speech(corpus: Path) -> Path:
    """One clean utterance of several seconds."""
    return sorted((corpus / "ls-test-clean" / "ls121").iterdir())[0]


LENIENT = {"identity-pi": 0.0, "spoofing-pi": -20.0, "liveness": -20.0, "fusion": 0.0}
"""Thresholds by card: identity asks for more evidence for the speaker than against, the others let all speech pass."""


@pytest.fixture(scope="session")
def lenient_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped models behind cards with the thresholds of :data:`LENIENT`, for what follows an acceptance.

    How often the shipped thresholds refuse genuine speech is measured by the evaluation, not by these tests.
    """
    folder = tmp_path_factory.mktemp("lenient") / "models"
    shutil.copytree(shipped_folder(), folder)
    for name, value in LENIENT.items():
        path = folder / f"{name}.json"
        if not path.exists():
            pytest.skip(f"no shipped card {name}")
        card = json.loads(path.read_text("utf-8"))
        for threshold in card["thresholds"].values():
            threshold["value"] = value
        if consistency := card["parameters"].get("consistency"):
            for threshold in consistency["thresholds"].values():
                threshold["value"] = -20.0
        if owner := card["parameters"].get("owner"):
            for threshold in owner["thresholds"].values():
                threshold["value"] = value
        path.write_text(json.dumps(card), "utf-8")
    return folder


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a tmpfs needs root and mount(8)")
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no tmpfs here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)
