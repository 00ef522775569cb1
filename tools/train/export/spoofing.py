"""Export of spoofing models to ONNX, with a parity check against torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import nn

from tools.train.networks.aasist import SAMPLES, SHAPES, Aasist, Committee, load_official

OPSET = 17
TOLERANCE = 1e-4
"""Largest difference of a logit that passes."""


def load_checkpoint(checkpoint: Path) -> Aasist:
    """The model of a checkpoint: one of this project's (it names its shape) or an official AASIST ``.pth``.

    Raises:
        SystemExit: the file is missing, holds more than tensors, or weights of another network.
    """
    try:
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise SystemExit(f"{checkpoint}: no such checkpoint") from None
    except Exception as error:  # torch raises many classes for damaged files
        raise SystemExit(f"{checkpoint}: not a checkpoint of plain tensors ({error})") from error
    try:
        if "shape" not in state:
            return load_official(state)
        model = Aasist(SHAPES[state["shape"]])
        model.load_state_dict(state["average"], strict=True)
        return model.eval()
    except (KeyError, RuntimeError, TypeError) as error:
        raise SystemExit(f"{checkpoint}: not the weights of an AASIST network ({error})") from error


def export(checkpoint: Path, output: Path, *others: Path, seed: int = 0) -> float:
    """Write ``checkpoint`` as ONNX: ``waveform`` (batch, 64600) to ``logits`` (batch, 2), bona fide second.

    With ``others``, all of light shapes, a committee that gives the mean of their logits.

    The length is fixed, since a trace freezes how many nodes the graph pools keep. Returns the largest absolute
    difference of logits between torch and ONNX Runtime over noise of several levels.

    Raises:
        SystemExit: the checkpoint cannot be used, or the difference exceeds 1e-4.
    """
    model: nn.Module = load_checkpoint(checkpoint)
    if others:
        model = Committee([load_checkpoint(member) for member in (checkpoint, *others)]).eval()
    example = torch.randn(2, SAMPLES, generator=torch.Generator().manual_seed(seed)) * 0.05
    output.parent.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        model,
        (example,),
        str(output),
        input_names=["waveform"],
        output_names=["logits"],
        dynamic_axes={"waveform": {0: "batch"}, "logits": {0: "batch"}},
        opset_version=OPSET,
        dynamo=False,
    )
    error = parity(model, output, seed=seed)
    if error > TOLERANCE:
        raise SystemExit(f"{output}: differs from torch by {error:.2e} (at most {TOLERANCE:.0e} allowed)")
    return error


def parity(model: nn.Module, onnx: Path, *, seed: int = 0) -> float:
    """Largest absolute difference of logits over three inputs of different level and batch size."""
    session = onnxruntime.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(seed)
    worst = 0.0
    for batch, level in ((1, 0.01), (3, 0.05), (2, 0.3)):
        waveform = (random.standard_normal((batch, SAMPLES)) * level).astype(np.float32)
        with torch.inference_mode():
            expected = model(torch.from_numpy(waveform)).numpy()
        (actual,) = session.run(["logits"], {"waveform": waveform})
        worst = max(worst, float(np.abs(actual - expected).max()))
    return worst
