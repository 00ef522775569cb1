"""Speaker embeddings (.npy) of recordings, by an identity card of this project or by ECAPA-TDNN."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.studies import cluster
from tools.studies.errors import StudyError
from tools.studies.reidentification.dataset import read_embedding
from tools.studies.reidentification.recordings import LONGEST, find_audio
from tools.studies.reidentification.scan import Apply
from tools.studies.results import claim, whole_file
from voiceid.audio import prepare, read_waveform
from voiceid.errors import AudioError, MissingPackageError
from voiceid.models.store import find_model
from voiceid.scoring.identity import IdentityModel
from voiceid.settings import ModelSettings
from voiceid.types import Waveform

Embed = Callable[[Waveform], NDArray[np.float32]]


class Model(Protocol):
    """What makes embeddings: a value that loads itself, once in each process."""

    def __hash__(self) -> int: ...

    def load(self) -> Embed: ...

    def describe(self) -> dict[str, Any]:
        """What tells its embeddings from those of another model."""
        ...


@dataclass(frozen=True, slots=True)
class IdentityCard:
    """An identity model of this project, by card name or path: embeddings of net speech, unit norm."""

    card: str

    def load(self) -> Embed:
        model = IdentityModel(find_model(self.card, "identity"))
        return lambda waveform: model.embed(prepare(waveform).net_speech())

    def describe(self) -> dict[str, Any]:
        return {"model": self.card, "sha256": find_model(self.card, "identity").card.sha256}


@dataclass(frozen=True, slots=True)
class Ecapa:
    """SpeechBrain's ECAPA-TDNN from a folder with hyperparams.yaml and its checkpoints: 192 values, not normalised.

    The YAML file can run code: use a folder you trust.
    """

    folder: Path

    def load(self) -> Embed:
        if not (self.folder / "hyperparams.yaml").is_file():
            raise StudyError(f"{self.folder}: no hyperparams.yaml; put the weights of ECAPA-TDNN there")
        try:
            import torch
            from speechbrain.inference.classifiers import EncoderClassifier
        except ImportError as error:
            raise MissingPackageError(f"ECAPA-TDNN needs speechbrain and torchaudio ({error})") from error
        model = EncoderClassifier.from_hparams(source=str(self.folder), savedir=str(self.folder))

        def embed(waveform: Waveform) -> NDArray[np.float32]:
            with torch.inference_mode():
                found = model.encode_batch(torch.from_numpy(waveform.samples)[None])
            result: NDArray[np.float32] = found.squeeze().numpy()
            return result

        return embed

    def describe(self) -> dict[str, Any]:
        return {"model": "ecapa-tdnn", "folder": str(self.folder.resolve())}


@lru_cache(maxsize=1)
def _loaded(model: Model) -> Embed:
    return model.load()


@dataclass(frozen=True, slots=True)
class Embedding:
    """Embeds one recording, named relative to ``source``; returns why it could not, or nothing."""

    source: Path
    target: Path
    model: Model

    def __call__(self, name: Path) -> str:
        path, output = self.source / name, (self.target / name).with_suffix(".npy")
        if self._done(path, output):
            return ""
        try:
            vector = _loaded(self.model)(read_waveform(path, max_seconds=LONGEST))
        except AudioError as error:
            return f"{path}: {error}" if str(path) not in str(error) else str(error)
        if not np.isfinite(vector).all():
            return f"{path}: the model gave an embedding that is not finite"
        with whole_file(output) as temporary, temporary.open("wb") as file:
            np.save(file, vector)
        return ""

    @staticmethod
    def _done(path: Path, output: Path) -> bool:
        try:
            read_embedding(output)
            return output.stat().st_mtime >= path.stat().st_mtime
        except (OSError, StudyError):
            return False


def embed_all(source: Path, target: Path, names: Sequence[Path], model: Model, apply: Apply = map) -> list[str]:
    """Embed recordings of ``source`` into ``target``, those there already left out; returns what failed, and why.

    Raises:
        StudyError: ``target`` holds embeddings of another model.
    """
    claim(target, model.describe())
    progress = tqdm(
        apply(Embedding(source, target, model), names), total=len(names), desc="embed", unit="file", disable=None
    )
    return sorted(reason for reason in progress if reason)


def report(failed: Sequence[str]) -> int:
    """Print what failed; exit status 1 if anything did."""
    for reason in failed:
        print(f"failed: {reason}", file=sys.stderr)
    return 1 if failed else 0


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """``--card`` and ``--ecapa``."""
    model = parser.add_mutually_exclusive_group()
    model.add_argument("--card", default=ModelSettings().identity, help="identity card (name or path)")
    model.add_argument("--ecapa", type=Path, metavar="FOLDER", help="ECAPA-TDNN of SpeechBrain instead")


def model_from(arguments: argparse.Namespace) -> Model:
    return Ecapa(arguments.ecapa) if arguments.ecapa else IdentityCard(arguments.card)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-i", "--input_dir", type=Path, required=True, help="folder of recordings")
    parser.add_argument("-s", "--save_dir", type=Path, required=True, help="folder for embeddings")
    parser.add_argument("--to_process", type=Path, metavar="TXT", help="only the recordings on the lines of this file")
    add_model_arguments(parser)
    cluster.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    names = find_audio(arguments.input_dir, arguments.to_process)
    with cluster.workers_for(arguments) as workers:
        failed = embed_all(arguments.input_dir, arguments.save_dir, names, model_from(arguments), workers)
    return report(failed)
