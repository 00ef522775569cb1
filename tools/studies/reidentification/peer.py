"""SpeechBrain's PLDA, to compare with."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np

from tools.studies.reidentification.plda import Floats, Plda
from voiceid.errors import MissingPackageError


def load_peer() -> ModuleType:
    """``speechbrain.processing.PLDA_LDA`` by itself: it needs NumPy and SciPy only, the package torchaudio too.

    Raises:
        MissingPackageError: SpeechBrain is not installed.
    """
    package = importlib.util.find_spec("speechbrain")
    if package is None or not package.submodule_search_locations:
        raise MissingPackageError("comparing needs SpeechBrain: pip install speechbrain")
    path = Path(package.submodule_search_locations[0]) / "processing" / "PLDA_LDA.py"
    found = importlib.util.spec_from_file_location("speechbrain_plda", path)
    if found is None or found.loader is None:
        raise MissingPackageError(f"{path}: this version of SpeechBrain has no PLDA")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def statistics(peer: ModuleType, names: Sequence[str], embeddings: Floats) -> object:
    """Embeddings as SpeechBrain takes them."""
    ids, nothing = np.array(names, dtype="|O"), np.array([None] * len(names))
    return peer.StatObject_SB(
        modelset=ids, segset=ids, start=nothing, stop=nothing, stat0=np.ones((len(ids), 1)), stat1=embeddings.copy()
    )


def train(peer: ModuleType, embeddings: Floats, speakers: Sequence[str], rank: int, iterations: int) -> Plda:
    """Its training."""
    model = peer.PLDA(rank_f=rank, nb_iter=iterations)
    model.plda(statistics(peer, speakers, embeddings))
    return Plda(model.mean, model.F, model.Sigma)


def scores(peer: ModuleType, plda: Plda, known: Floats, unknown: Floats, p_known: float) -> Floats:
    """Its open-set scores, (known, unknown)."""
    rows, columns = ([f"{letter}{i:08d}" for i in range(len(x))] for letter, x in (("k", known), ("u", unknown)))
    trials = peer.Ndx(models=np.array(rows, dtype="|O"), testsegs=np.array(columns, dtype="|O"))
    found: Floats = peer.fast_PLDA_scoring(
        statistics(peer, rows, known),
        statistics(peer, columns, unknown),
        trials,
        plda.mean,
        plda.loadings,
        plda.residual,
        p_known=p_known,
    ).scoremat
    return found
