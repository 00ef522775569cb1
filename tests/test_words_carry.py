"""From an exported recogniser to one of other units, to begin a training with."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tools.train.export.words import export  # noqa: E402
from tools.train.networks.words import WordNetwork  # noqa: E402
from tools.train.recognizer.carry import together, translated, unfold  # noqa: E402
from tools.train.recognizer.training import start_from  # noqa: E402


@pytest.fixture
def network():
    torch.manual_seed(0)
    return WordNetwork("units", 9, 24, 16, 5).eval()


def test_an_exported_network_unfolds_to_the_same_function(tmp_path, network):
    units = torch.randint(0, 9, (1, 40))
    expected = network(units)
    export(network, tmp_path / "words.onnx")
    torch.testing.assert_close(unfold(tmp_path / "words.onnx")(units), expected, atol=1e-5, rtol=1e-5)


def test_units_mean_what_was_heard_in_their_place():
    class Says:
        def __init__(self, units):
            self.units = units

        def encode(self, samples, codebook):
            return np.array(self.units)

    counts = together(Says([0, 0, 1, 2]), Says([2, 2, 2, 1]), 3, [np.zeros(640, np.float32)])
    np.testing.assert_array_equal(counts, [[0, 0, 0], [0, 0, 1], [2, 1, 0]])
    front = torch.tensor([[3.0, 0], [0, 3], [6, 6], [1, 1]])
    expected = torch.tensor([[0.0, 0], [6, 6], [2, 1], [1, 1]])
    torch.testing.assert_close(translated(front, counts), expected)


def test_a_network_on_mel_begins_with_all_behind_the_first_layers(network):
    mel = WordNetwork("mel", 40, 24, 16, 5)
    own = mel.front.weight.clone()
    start_from(mel, network.state_dict())
    torch.testing.assert_close(mel.context.weight_hh_l0, network.context.weight_hh_l0)
    torch.testing.assert_close(mel.front.weight, own)
    with pytest.raises(SystemExit, match="width"):
        start_from(WordNetwork("units", 9, 32, 24), network.state_dict())
