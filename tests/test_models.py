"""Model cards, verification and sessions, on a tiny model made here."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tools.train.cards import write_card
from voiceid.errors import ModelError
from voiceid.models.card import Calibration, Card, Threshold, read_card
from voiceid.models.session import Session
from voiceid.models.store import find_model, shipped_cards, verify_model


def write_model(folder: Path, *, input_name: str = "features", width: int = 3) -> Path:
    """y = 2 x, x of shape (batch, width)."""
    graph = helper.make_graph(
        [helper.make_node("Mul", [input_name, "two"], ["score"])],
        "double",
        [helper.make_tensor_value_info(input_name, TensorProto.FLOAT, ["batch", width])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch", width])],
        [helper.make_tensor("two", TensorProto.FLOAT, [1], [2.0])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "tiny.onnx"
    onnx.save(model, str(path))
    return path


@pytest.fixture
def card(tmp_path: Path) -> Path:
    write_model(tmp_path)
    (tmp_path / "tiny.cohort.npy").write_bytes(b"cohort")
    draft = Card(
        schema=1,
        name="tiny",
        role="liveness",
        version="1.0",
        description="doubles",
        file="tiny.onnx",
        sha256="",
        inputs={},
        outputs={},
        sample_rate=16000,
        frontend="void-97",
        level_dbfs=-26.0,
        min_seconds=1.0,
        window_seconds=None,
        calibration=Calibration(2.0, 1.0, "nothing"),
        thresholds={"balanced": Threshold(0.5, "by hand")},
        training_data=[],
        metrics={},
        command="none",
        licence="MIT",
        assets={"tiny.cohort.npy": ""},
    )
    return write_card(draft, tmp_path)


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_written_card_is_found_verified_and_runs(card: Path) -> None:
    model = find_model(str(card), "liveness")
    assert model.card == read_card(card)
    assert model.card.inputs == {"features": ["batch", 3]}
    assert model.card.calibration is not None
    assert model.card.calibration(3.0) == 7.0
    assert model.asset(".npy").read_bytes() == b"cohort"
    outputs = Session(model).run(features=np.array([[1, 2, 3]], np.float32))
    np.testing.assert_array_equal(outputs["score"], [[2, 4, 6]])


def test_the_folder_of_shipped_models_can_be_chosen(card: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICEID_MODELS", str(card.parent))
    assert shipped_cards() == [card]
    assert find_model("tiny", "liveness").card.name == "tiny"
    with pytest.raises(ModelError, match="no such model card"):
        find_model("huge", "liveness")


def test_another_role_is_refused(card: Path) -> None:
    with pytest.raises(ModelError, match="a card for liveness, but it is set for identity"):
        find_model(str(card), "identity")


@pytest.mark.parametrize("name", ["tiny.onnx", "tiny.cohort.npy"])
def test_an_altered_or_missing_file_is_refused(card: Path, name: str) -> None:
    file = card.parent / name
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    with pytest.raises(ModelError, match=rf"{name}: sha256 .* differs"):
        find_model(str(card), "liveness")
    file.unlink()
    with pytest.raises(ModelError, match=rf"{name}: model file cannot be read"):
        find_model(str(card), "liveness")


def test_a_truncated_model_with_a_matching_hash_is_refused(card: Path) -> None:
    model = card.parent / "tiny.onnx"
    model.write_bytes(model.read_bytes()[:40])
    verified = dataclasses.replace(find_model_unchecked(card), folder=card.parent)
    with pytest.raises(ModelError, match="not a loadable ONNX model"):
        Session(verified)


def find_model_unchecked(path: Path):
    from tools.train.cards import sha256

    card = read_card(path)
    return verify_model(dataclasses.replace(card, sha256=sha256(path.parent / card.file)), path.parent)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"input_name": "waveform"}, "inputs are ['waveform'], the card says ['features']"), ({"width": 4}, "has shape")],
)
def test_other_inputs_are_refused(card: Path, changes: dict, message: str) -> None:
    write_model(card.parent, **changes)
    with pytest.raises(ModelError) as caught:
        Session(find_model_unchecked(card))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": "red"}, "unknown key 'colour'"),
        ({"sample_rate": "fast"}, "sample_rate is 'fast'; expected int"),
        ({"role": "oracle"}, "role is 'oracle'; use one of"),
        ({"thresholds": {"balanced": {"value": 1}}}, "missing key 'operating_point'"),
        ({"file": "../../etc/passwd"}, "must lie beside their card"),
        ({"file": ""}, "must lie beside their card"),
        ({"file": "a\0b"}, r"found 'a\x00b'"),
        ({"assets": {"\ud800": ""}}, r"found '\ud800'"),
        ({"assets": {"../x": ""}}, "found '../x'"),
        ({"schema": 2}, "newer than this version knows"),
        (
            {"thresholds": {"balanced": {"value": -math.inf, "operating_point": "all"}}},
            "value is -inf; it must be finite",
        ),
        ({"calibration": {"scale": 1e999, "offset": 0, "calibration_set": "none"}}, "scale is inf; it must be finite"),
    ],
)
def test_a_mistake_in_a_card_is_named(card: Path, changes: dict, message: str) -> None:
    edit(card, **changes)
    with pytest.raises(ModelError) as caught:
        read_card(card)
    assert message in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"])
def test_a_card_that_is_not_a_json_object_is_refused(card: Path, content: bytes) -> None:
    card.write_bytes(content)
    with pytest.raises(ModelError, match=r"tiny\.json"):
        read_card(card)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"version": ', '"version": "0", "version": '),
        ('"balanced": {', '"balanced": {"value": -9.0, "operating_point": "none"}, "balanced": {'),
        ('"value": ', '"value": -9.0, "value": '),
    ],
)
def test_a_key_that_a_card_has_twice_is_refused_and_named(card: Path, before: str, after: str) -> None:
    text = card.read_text("utf-8")
    assert before in text
    card.write_text(text.replace(before, after, 1), "utf-8")
    with pytest.raises(ModelError, match=f"key '{before.split(chr(34))[1]}' appears twice"):
        read_card(card)


def test_a_missing_operating_point_is_named(card: Path) -> None:
    assert read_card(card).threshold("balanced") == 0.5
    with pytest.raises(ModelError, match="no threshold for operating point 'strict'; it has balanced"):
        read_card(card).threshold("strict")
