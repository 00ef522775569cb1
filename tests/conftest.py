"""Fixtures: the corpus and the reference folder, found through the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


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
