"""What every daemon of the system tests uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli_helpers import recordings_of
from tests.system.daemon_helpers import OWNER, STRANGER


@pytest.fixture(scope="module")
def clips(corpus: Path) -> dict[str, list[Path]]:
    """Recordings of three to nine seconds by either speaker."""
    return recordings_of(corpus, (OWNER, STRANGER), 12)


@pytest.fixture(scope="module")
def environment(lenient_models: Path) -> dict[str, str]:
    """Every daemon here uses the lenient cards."""
    return {"VOICEID_MODELS": str(lenient_models)}
