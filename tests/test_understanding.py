"""The decoder of grammars, the language model, and the recogniser behind them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from words_helpers import CODEBOOK, HASH, spell, spoken, write_recogniser

from tools.train.recognizer.sentences import draw
from voiceid.errors import CodebookError, EnvelopeError, ModelError
from voiceid.models.card import Calibration
from voiceid.understanding.alphabet import LABELS, LETTERS, decode, encode
from voiceid.understanding.decoder import Decoder
from voiceid.understanding.grammar import load_grammar, read_grammar
from voiceid.understanding.language import LanguageModel, transcribe
from voiceid.understanding.recogniser import load_recogniser
from voiceid.understanding.understand import understand
from voiceid.units.packing import UnitSequence

CALIBRATION = Calibration(20.0, 6.0, "none")


@pytest.fixture(scope="module")
def coffee() -> Decoder:
    return Decoder(load_grammar("coffee"))


def test_labels_round_trip() -> None:
    assert encode("i'd  like it") == [1, *(LETTERS.index(c) + 1 for c in "i'd like it")]
    assert decode(encode("i'd like it")) == "i'd like it"


@pytest.mark.parametrize("name", ["banking", "coffee", "lights", "timers"])
def test_every_command_is_found_again_in_noise(name: str) -> None:
    grammar, rng = load_grammar(name), np.random.default_rng(7)
    decoder = Decoder(grammar)
    for _ in range(25):
        command = draw(grammar, rng)
        posteriors = spoken(command.text, 0.4) + rng.normal(0, 0.7, (2 * len(encode(command.text)), LABELS))
        posteriors -= np.logaddexp.reduce(posteriors, axis=1, keepdims=True)
        match = decoder.decode(posteriors.astype(np.float32))
        assert match is not None and match.fit <= 0
        assert (match.best.text, match.best.intent, match.best.slots) == (command.text, command.intent, command.slots)


def test_the_score_is_the_likelihood_of_the_best_alignment() -> None:
    decoder = Decoder(read_grammar('name = "x"\n[intents]\nyes = ["aa"]\nno = ["b"]', "x"))
    table = np.log(np.random.default_rng(0).dirichlet(np.ones(LABELS), 6)).astype(np.float32)
    best = {"yes": -math.inf, "no": -math.inf}
    for path in np.ndindex(*(4,) * 6):  # every alignment of six frames with blank, space, a and b
        labels = [(0, 1, 3, 4)[step] for step in path]
        kept = [label for i, label in enumerate(labels) if label and (i == 0 or label != labels[i - 1])]
        for intent, wanted in (("yes", [1, 3, 3]), ("no", [1, 4])):
            if kept == wanted:
                best[intent] = max(best[intent], float(sum(table[t, label] for t, label in enumerate(labels))))
    match = decoder.decode(table)
    assert match is not None
    winner = max(best, key=lambda name: best[name])
    assert (match.best.intent, match.best.score) == (winner, pytest.approx(best[winner], abs=1e-4))
    assert match.runner_up == pytest.approx(min(best.values()), abs=1e-4)
    assert match.free == pytest.approx(float(table.max(axis=1).sum()))


def test_slots_take_the_value_that_the_grammar_gives_or_the_words() -> None:
    lights = Decoder(load_grammar("lights"))
    match = lights.decode(spoken("please dim the lights in the living room to twenty percent"))
    assert match is not None and match.best.intent == "setLevel"
    assert match.best.slots == {"lamp": "light", "room": "living room", "level": "twenty percent"}


def test_what_no_command_explains_is_not_understood(coffee: Decoder) -> None:
    order = understand(spoken("can i have a large iced mocha with soy milk"), coffee, CALIBRATION, 0.5)
    assert order.understood and order.confidence > 0.9 and order.intent == "orderDrink"
    assert order.slots == {"size": "large", "coffeeDrink": "iced mocha", "milkAmount": "soy milk"}
    other = understand(spoken("the quick brown fox jumps over the lazy dog again"), coffee, CALIBRATION, 0.5)
    assert not other.understood and other.intent is None and other.slots == {}
    assert other.confidence < 0.1 and other.guess


def test_an_intent_that_is_hardly_likelier_than_another_is_not_understood() -> None:
    decoder = Decoder(read_grammar('name = "x"\n[intents]\nyes = ["bat"]\nno = ["cat"]', "x"))
    sure, unsure = spoken("bat"), spoken("bat")
    unsure[2] = np.logaddexp(spoken("bat")[2], spoken("cat")[2]) - math.log(2)
    assert understand(sure, decoder, CALIBRATION, 0.6).intent == "yes"
    assert not understand(unsure, decoder, CALIBRATION, 0.6).understood


def test_too_short_for_any_command_is_not_understood(coffee: Decoder) -> None:
    assert coffee.decode(spoken("a")) is None
    for posteriors in (spoken("a"), np.zeros((0, LABELS), np.float32)):
        assert understand(posteriors, coffee, CALIBRATION, 0.0) == understand(posteriors, coffee, CALIBRATION, 1.0)
        assert not understand(posteriors, coffee, CALIBRATION, 0.0).understood


def test_the_language_model_is_a_distribution_that_learns() -> None:
    model = LanguageModel.learn(["the cat sat", "the cat ran", "the dog sat"])
    for context in ("", " th", " the ca", "zzz"):
        assert sum(math.exp(model.log_probability(context, c)) for c in LETTERS) == pytest.approx(1)
    assert model.log_probability(" th", "e") > model.log_probability(" th", "o") + 1


def test_the_language_model_settles_what_was_heard_half(tmp_path: Path) -> None:
    written = tmp_path / "language.npz"
    LanguageModel.learn(["open the door"] * 5).write(written)
    model = LanguageModel.read(written)
    heard = spoken("open the door")
    o, u = LETTERS.index("o") + 1, LETTERS.index("u") + 1
    heard[22, [o, u]] = np.log([0.4, 0.5])  # the first o of door
    assert transcribe(heard, None) == "open the duor"
    assert transcribe(heard, model) == "open the door"
    assert transcribe(np.zeros((0, LABELS), np.float32), model) == ""
    written.write_bytes(b"no")
    with pytest.raises(ModelError, match="not a readable language model"):
        LanguageModel.read(written)


def test_the_recogniser_reads_units_and_refuses_those_of_another_codebook(tmp_path: Path) -> None:
    recogniser = load_recogniser(str(write_recogniser(tmp_path)))
    units = spell("get me a latte")
    posteriors = recogniser.posteriors(units, HASH)
    assert posteriors.shape == (len(units.units), LABELS) and transcribe(posteriors, None) == "get me a latte"
    frames = UnitSequence(CODEBOOK, tuple(unit for unit in units.units for _ in range(3)), merged=False)
    assert np.array_equal(recogniser.posteriors(frames, HASH), posteriors)
    timed = UnitSequence(CODEBOOK, units.units, True, (2,) * len(units.units))
    assert np.array_equal(recogniser.posteriors(timed, HASH), posteriors)
    assert recogniser.posteriors(UnitSequence(CODEBOOK, (), True), HASH).shape == (0, LABELS)
    with pytest.raises(CodebookError, match=r"hash 1111.*trained on codebook 50 with hash 0001"):
        recogniser.posteriors(units, b"\x11" * 32)
    with pytest.raises(CodebookError, match="units of codebook 200"):
        recogniser.posteriors(UnitSequence(200, (199, 3), True), HASH)
    with pytest.raises(EnvelopeError, match="3001 units; at most 3000"):
        recogniser.posteriors(UnitSequence(CODEBOOK, (1,) * 3001, False), HASH)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"role": "units"}, "a card for units, but it is set for words"),
        ({"parameters": {"codebook": 50}}, "parameters: missing key 'codebook_hash'"),
        ({"parameters": {"codebook": 50, "codebook_hash": "xyz"}}, "codebook_hash is 'xyz'; it must be a SHA-256"),
        ({"calibration": None}, "needs the input units, the output letters and a calibration"),
        ({"sha256": "0" * 64}, "differs from the card"),
    ],
)
def test_a_card_that_is_no_recogniser_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = write_recogniser(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(ModelError, match=message):
        load_recogniser(str(path))
