"""A wider ResCNN gives what the narrower one gave, and its new channels learn."""

import pytest
import torch

from tools.train.networks.deep_speaker import DeepSpeaker, Shape
from tools.train.widen import widened

NARROW, WIDE = (3, 4, 6, 8), (4, 6, 6, 12)


@pytest.fixture
def narrow() -> DeepSpeaker:
    torch.manual_seed(4)
    network = DeepSpeaker(Shape(NARROW, 5, normalise_input=True, deviation=True))
    network.train()(torch.randn(8, 64, 64, 1))  # so that the norms have seen something
    return network.eval()


def test_embeddings_stay(narrow: DeepSpeaker) -> None:
    wide = widened(narrow, WIDE)
    features = torch.randn(2, 99, 64, 1)
    with torch.inference_mode():
        torch.testing.assert_close(wide(features), narrow(features), atol=1e-5, rtol=0)
    assert wide.shape.channels == WIDE
    assert not wide.training


def test_new_channels_are_taught(narrow: DeepSpeaker) -> None:
    wide = widened(narrow, WIDE).train()
    (wide(torch.randn(4, 64, 64, 1)) * torch.randn(4, 5)).sum().backward()
    heard = wide.affine.weight.grad.view(5, 2, 4, WIDE[-1])[..., NARROW[-1] :]  # type: ignore[union-attr]
    assert heard.abs().min() > 0


def test_narrower_is_refused(narrow: DeepSpeaker) -> None:
    with pytest.raises(SystemExit, match=r"a network of \(3, 4, 6, 8\) channels cannot start one of \(3, 4, 5, 8\)"):
        widened(narrow, (3, 4, 5, 8))
