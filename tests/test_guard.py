"""The guard: what it copies, what it refuses to work with, and a recording attacked here that it catches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import soundfile
import torch

from tests.cli_helpers import need_shipped_models, recordings_of, voiceid
from tools.studies.adversarial.bim import Deception, bim
from tools.studies.adversarial.frontend import Cut
from tools.studies.adversarial.guard import graph, parity
from tools.studies.adversarial.models import load_model
from tools.studies.adversarial.speech import FULL_SCALE, to_pcm
from tools.studies.errors import StudyError
from tools.train.cards import write_card
from voiceid.audio import prepare, read_waveform
from voiceid.cli.exit_codes import ExitCode
from voiceid.errors import ModelError
from voiceid.models.card import SCHEMA, Calibration, Card, Threshold, read_card
from voiceid.models.store import find_model
from voiceid.pipeline import Pipeline
from voiceid.scoring.guard import IDENTITY, GuardModel, falls
from voiceid.scoring.identity import IdentityModel
from voiceid.scoring.policy import decide
from voiceid.scoring.voice import hear
from voiceid.settings import ModelSettings, Settings
from voiceid.stopwatch import Stopwatch
from voiceid.types import Outcome, Source, Utterance, Waveform

TRANSFORM = "quantise-8"
OWNER, STRANGER = "ls1089", "ls121"


def write_guard(folder: Path, *, least: float = -0.1, **changes: object) -> Path:
    """A guard for the shipped identity model that passes falls of the cosine up to ``-least``; returns its card."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(graph(TRANSFORM), folder / "guard.onnx")
    points = {name: Threshold(least, "for tests") for name in ("convenience", "balanced", "strict")}
    sha256 = find_model(ModelSettings().identity, "identity").card.sha256
    card = Card(
        schema=SCHEMA, name="guard", role="guard", version="0", description="for tests", file="guard.onnx", sha256="",
        inputs={}, outputs={}, sample_rate=16_000, frontend="waveform", level_dbfs=-26.0, min_seconds=0.5,
        window_seconds=None, calibration=Calibration(1.0, 0.0, "none"), thresholds=points, training_data=[],
        metrics={}, command="", licence="MIT", parameters={IDENTITY: sha256},
    )  # fmt: skip
    return write_card(replace(card, **changes), folder)


@pytest.fixture(scope="module")
def identity() -> IdentityModel:
    need_shipped_models()
    return IdentityModel(find_model(ModelSettings().identity, "identity"))


@pytest.fixture(scope="module")
def utterance(speech: Path) -> Utterance:
    return prepare(read_waveform(speech))


@dataclass(frozen=True)
class Attack:
    """An owner's embedding, a stranger's recording, and the same with noise that follows the model's gradient."""

    reference: np.ndarray
    plain: Waveform
    noisy: Waveform


@pytest.fixture(scope="module")
def attack(corpus: Path, identity: IdentityModel) -> Attack:
    people = recordings_of(corpus, (OWNER, STRANGER), 1)
    reference = identity.embed(prepare(read_waveform(people[OWNER][0])).net_speech())
    samples = read_waveform(people[STRANGER][0]).samples[: 3 * 16_000]
    model = load_model(ModelSettings().identity)
    objective = Deception(model, torch.from_numpy(reference), Cut.of(samples), target=False)
    noisy = bim(objective, to_pcm(samples), [20.0], 2.0)[20.0].astype(np.float32) / FULL_SCALE
    return Attack(reference, Waveform(samples, Source.FILE), Waveform(noisy, Source.FILE))


def pipeline_with(card: Path | None) -> Pipeline:
    return Pipeline.load(Settings(models=ModelSettings(guard=None if card is None else str(card))))


def test_the_copy_is_the_transform_and_keeps_where_speech_is(
    tmp_path: Path, identity: IdentityModel, utterance: Utterance
) -> None:
    guard = GuardModel(find_model(str(write_guard(tmp_path)), "guard"), identity.card)
    copy = guard.copy(utterance)
    np.testing.assert_array_equal(copy.samples, np.round(utterance.samples * 128) / 128)
    assert copy.speech == utterance.speech
    voice = hear(identity, utterance, least_seconds=0.8, hop_seconds=0.16)
    again = guard.hear(identity, utterance)
    assert len(again.windows) == len(voice.windows) and len(again.before) == 0
    whole, windows = falls(voice.whole, voice, again)
    assert whole == pytest.approx(float(again.whole @ voice.whole) - 1, abs=1e-5)
    assert len(windows) == len(voice.windows) and max(windows) < 1


@pytest.mark.parametrize("transform", ["quantise-6", "lowpass-3000"])
def test_the_onnx_copy_is_the_studys(transform: str) -> None:
    assert parity(graph(transform), transform) < 1e-5


def test_costly_transforms_are_no_guard() -> None:
    with pytest.raises(StudyError, match="'gl-lin' is none for the device"):
        graph("gl-lin")


def test_noise_that_deceives_the_model_falls_in_the_copy_and_is_refused(
    tmp_path: Path, identity: IdentityModel, attack: Attack
) -> None:
    open_guard = pipeline_with(write_guard(tmp_path / "open", least=-2.0))
    judged = {}
    for name, wave in (("plain", attack.plain), ("noisy", attack.noisy)):
        heard = open_guard.prepare(wave)
        voice = open_guard.judges.hear(heard, Stopwatch())
        judged[name] = open_guard.judges.examine(heard, voice, attack.reference, Stopwatch()).evidence
    plain, noisy = judged["plain"], judged["noisy"]
    assert noisy.identity.raw > plain.identity.raw  # the noise does deceive
    assert noisy.guard.raw < plain.guard.raw - 0.05
    assert all(window.guard is not None for window in noisy.windows)

    middle = (plain.guard.raw + noisy.guard.raw) / 2
    pipeline = pipeline_with(write_guard(tmp_path / "shut", least=middle))
    heard = pipeline.prepare(attack.noisy)
    watch = Stopwatch()
    judgement = pipeline.judges.examine(heard, pipeline.judges.hear(heard, watch), attack.reference, watch)
    assert "guard" in watch.timings()
    # What every other judge says may change with the models: here they are content.
    others = {name: replace(score, threshold=-99.0) for name, score in noisy.scores().items() if name != "guard"}
    evidence = replace(judgement.evidence, **others)
    decision = decide(heard.quality, evidence, 1.0, 0.5)
    assert decision.outcome is Outcome.SPOOF
    assert decision.reasons == (
        f"sounds like someone else when copied: guard {noisy.guard.llr:+.2f} is below {middle:+.2f}",
    )
    passed = replace(evidence, guard=replace(plain.guard, threshold=middle))
    assert decide(heard.quality, passed, 1.0, 0.5).accepted


def test_it_is_off_unless_it_is_named(attack: Attack) -> None:
    pipeline = pipeline_with(None)
    heard = pipeline.prepare(attack.noisy)
    watch = Stopwatch()
    evidence = pipeline.judges.examine(heard, pipeline.judges.hear(heard, watch), attack.reference, watch).evidence
    assert evidence.guard is None and "guard" not in evidence.scores() and "guard" not in watch.timings()
    assert all(window.guard is None for window in evidence.windows)


def test_the_shipped_guard_is_for_the_shipped_identity_model(identity: IdentityModel) -> None:
    card = GuardModel(find_model("guard", "guard"), identity.card).card
    assert set(card.thresholds) == {"convenience", "balanced", "strict"}
    assert card.threshold("convenience") <= card.threshold("balanced") <= card.threshold("strict")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": {IDENTITY: "0" * 64}}, "made for identity model 000000000000"),
        ({"parameters": {}}, "made for identity model None"),
        ({"frontend": "log-mel"}, "a guard makes 'copy' of 'waveform' 'samples'"),
        ({"calibration": None}, "no calibration"),
        ({"thresholds": {}}, "no threshold"),
        ({"role": "liveness"}, "set for guard"),
    ],
)
def test_guards_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    need_shipped_models()
    with pytest.raises(ModelError, match=message):
        pipeline_with(write_guard(tmp_path, **changes))


def test_a_copy_of_another_length_is_refused(tmp_path: Path, identity: IdentityModel, utterance: Utterance) -> None:
    card = write_guard(tmp_path)
    model = onnx.load(tmp_path / "guard.onnx")
    model.graph.node[-1].output[0] = "all"
    for name, value in (("from", 0), ("to", 100), ("axis", 1)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([value]), name))
    model.graph.node.append(onnx.helper.make_node("Slice", ["all", "from", "to", "axis"], ["copy"]))
    onnx.save(model, tmp_path / "guard.onnx")
    write_card(read_card(card), tmp_path)
    guard = GuardModel(find_model(str(card), "guard"), identity.card)
    with pytest.raises(ModelError, match="to an array of shape"):
        guard.copy(utterance)


def test_switched_on_it_is_explained_timed_and_listed(tmp_path: Path, attack: Attack) -> None:
    card, config = write_guard(tmp_path / "models"), tmp_path / "config.toml"
    recording = tmp_path / "noisy.wav"
    soundfile.write(recording, attack.noisy.samples, 16_000)
    chosen = voiceid("models", "use", card, "--config", config, "--json")
    assert chosen.code is ExitCode.ACCEPTED and chosen.json["changed"] is True
    assert voiceid("models", "use", card, "--config", config, "--json").json["changed"] is False

    explained = voiceid("explain", recording, "--config", config, "--json", "--plot", tmp_path / "picture.png").json
    assert explained["evidence"]["guard"]["passed"] in (True, False)
    assert explained["timings"]["guard"] > 0
    assert all(isinstance(window["guard"], float) for window in explained["evidence"]["windows"])
    assert "guard" in voiceid("explain", recording, "--config", config).out
    assert "guard" not in voiceid("explain", recording).out

    report = voiceid("benchmark", recording, "--quick", "--config", config, "--json").json
    for run in report["runs"]:
        assert run["stages"]["guard"]["cost"]["p50_ms"] > 0 and run["stages"]["guard"]["features"] > 10_000
    assert [model["role"] for model in report["models"]][-1] == "guard"

    listed = voiceid("models", "list", "--config", config, "--json").json
    assert {row["card"]["role"] for row in listed if row["in_use"]} >= {"guard", "identity"}
    verified = voiceid("models", "verify", "--config", config, "--json")
    assert verified.code is ExitCode.ACCEPTED, verified.out
