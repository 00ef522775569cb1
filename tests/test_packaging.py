"""What an installation brings: no training libraries at run time, and the models inside the wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
OFFLINE = {"torch", "librosa", "numba", "sklearn", "skl2onnx", "scipy", "onnx", "matplotlib", "h5py"}
AUDIO = {"onnxruntime", "sounddevice", "soundfile", "soxr", "webrtcvad"}
TOP_LEVEL = "import json, sys; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"


def imported(statement: str) -> set[str]:
    """Top-level packages in a fresh interpreter after ``statement``."""
    run = subprocess.run(
        [sys.executable, "-c", f"{statement}\n{TOP_LEVEL}"], check=True, capture_output=True, text=True
    )
    return set(json.loads(run.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "statement",
    [
        "import voiceid",
        "import voiceid.pipeline",
        "import voiceid.cli.main",
        "import importlib; from voiceid.cli.group import COMMANDS; "
        "[importlib.import_module(f'voiceid.cli.{name}') for name in COMMANDS]",
    ],
)
def test_the_agent_imports_no_training_library(statement):
    modules = imported(statement)
    assert "voiceid" in modules
    assert not modules & OFFLINE


def test_the_relying_party_needs_no_models_and_no_audio():
    modules = imported("import voiceid.relying_party")
    assert {"voiceid", "fido2"} <= modules
    assert not modules & (OFFLINE | AUDIO)


def test_understanding_needs_onnx_runtime_only_for_its_recogniser():
    parts = ("decoder", "grammar", "language", "understand")
    modules = imported("; ".join(f"import voiceid.understanding.{part}" for part in parts))
    assert "numpy" in modules and not modules & (OFFLINE | AUDIO)


def test_the_demo_needs_no_training_library():
    modules = imported("import tools.demo.__main__")
    assert not modules & (OFFLINE - {"matplotlib"})


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the package as installed from a wheel."""
    wheels, target = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("target")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(build, check=True, cwd=CHECKOUT, capture_output=True)
    (wheel,) = wheels.glob("voiceid-*.whl")
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target", str(target)]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    return target


def test_an_installed_wheel_finds_the_models_inside_itself(installed, tmp_path):
    code = (
        "import json, voiceid\n"
        "from voiceid.models.store import shipped_cards, verify_model\n"
        "from voiceid.models.card import read_card\n"
        "paths = shipped_cards()\n"
        "roles = [verify_model(read_card(path), path.parent).card.role for path in paths]\n"
        "print(json.dumps([voiceid.__file__, [str(path) for path in paths], roles]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    environment.pop("VOICEID_MODELS", None)
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    package, paths, roles = json.loads(run.stdout)
    assert Path(package).is_relative_to(installed)
    assert all(Path(path).parent == installed / "voiceid" / "_models" for path in paths)
    assert set(roles) >= {"identity", "spoofing", "liveness", "fusion", "units"}
    assert sorted(Path(path).name for path in paths) == sorted(
        path.name for path in (CHECKOUT / "models").glob("*.json")
    )


def test_the_wheel_holds_no_tools_and_no_tests(installed):
    assert (installed / "voiceid" / "relying_party").is_dir()
    assert (installed / "voiceid" / "understanding" / "grammars" / "coffee.toml").is_file()
    assert not (installed / "tools").exists()
    assert not (installed / "tests").exists()
