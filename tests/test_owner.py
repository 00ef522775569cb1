"""Detectors that judge relative to an owner: parameters, enrolment, storage, and how the parameters are fitted."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from tests.small_models import write_models
from tests.test_pipeline import OWNER, clips
from tests.vault_helpers import IDENTITY, make_matching, make_template
from tools.train.owner import Speaker, enrolments, fit, scatter, with_entry
from voiceid import cbor
from voiceid.audio import prepare
from voiceid.enrolment.enrol import EnrolmentSession
from voiceid.enrolment.matching import Matching
from voiceid.enrolment.reports import UserSummary
from voiceid.enrolment.template import Template
from voiceid.errors import EnrolmentError, ModelError, VaultError
from voiceid.models.card import Card, Threshold, read_card
from voiceid.scoring.judges import Judges
from voiceid.scoring.owner import ENTRY, Baseline, OwnerParameters, owner_parameters, shift_of
from voiceid.settings import EnrolmentSettings, ModelSettings, Settings
from voiceid.stopwatch import Stopwatch
from voiceid.types import Waveform

POINTS = {point: Threshold(value, "") for point, value in (("convenience", -2.0), ("balanced", -1.0), ("strict", 0.5))}
PARAMETERS = OwnerParameters(0.5, usual=2.0, least=0.0, most=5.0, scatter=3.0, thresholds=POINTS)
ABSOLUTE = {point: Threshold(value, "") for point, value in (("convenience", 0.0), ("balanced", 0.4), ("strict", 1.0))}
SPOOFING, LIVENESS = "5a" * 32, "11" * 32


@pytest.mark.parametrize(
    ("enrolled", "utterances", "shift"),
    [
        (4.0, 3, 0.5),
        (4.0, 9, 0.75),
        (4.0, 1, 0.25),
        (2.0, 3, 0.0),
        (1.0, 3, -0.25),
        (5.0, 3, 0.75),
        (40.0, 3, 0.75),
        (-40.0, 3, -0.5),
    ],
)
def test_a_share_of_the_difference_is_the_owners_within_the_range(
    enrolled: float, utterances: int, shift: float
) -> None:
    assert PARAMETERS.shift(enrolled, utterances) == pytest.approx(shift)


def entry(**changes: object) -> dict[str, object]:
    return {**dataclasses.asdict(PARAMETERS), **changes}


def card_with(parameters: object) -> Card:
    return dataclasses.replace(IDENTITY, thresholds=POINTS, parameters={ENTRY: parameters})


def test_a_card_without_the_entry_judges_everybody_alike() -> None:
    assert owner_parameters(IDENTITY) is None
    assert owner_parameters(card_with(entry())) == PARAMETERS


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("half", "expected a table"),
        (entry(share=1.5), "share is 1.5; it must lie between 0 and 1"),
        (entry(scatter=-1.0), "scatter is -1.0; it must lie between"),
        (entry(least=3.0), "the usual 2.0 lies outside of 3.0 to 5.0"),
        (entry(most=float("nan")), "most"),
        (entry(extra=1), "unknown key 'extra'"),
        (entry(thresholds={"balanced": {"value": 0.0, "operating_point": ""}}), "no threshold for 'convenience'"),
    ],
)
def test_a_malformed_entry_is_refused(parameters: object, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        owner_parameters(card_with(parameters))


def test_only_a_baseline_by_the_very_model_counts() -> None:
    calibrated = dataclasses.replace(
        read_card(Path(__file__).parents[1] / "models" / "liveness.json"), sha256=LIVENESS, parameters={}
    )
    assert calibrated.calibration is not None
    known = Baseline(LIVENESS, 1.25, 3)
    expected = PARAMETERS.shift(calibrated.calibration(1.25), 3)
    assert shift_of(calibrated, PARAMETERS, [Baseline(SPOOFING, 9.0, 3), known]) == pytest.approx(expected)
    assert shift_of(calibrated, PARAMETERS, [Baseline(SPOOFING, 9.0, 3)]) is None
    assert shift_of(calibrated, PARAMETERS, []) is None
    assert shift_of(calibrated, None, [known]) is None


def write_owner_models(folder: Path) -> Path:
    """The small models, which accept all speech; of the detectors, spoofing alone judges relative to the owner."""
    write_models(folder)
    for name in ("identity-pi", "spoofing-pi", "liveness", "fusion"):
        path = folder / f"{name}.json"
        card = json.loads(path.read_text("utf-8"))
        sets = [card["thresholds"], card["parameters"].get("consistency", {}).get("thresholds", {})]
        for threshold in (threshold for thresholds in sets for threshold in thresholds.values()):
            threshold["value"] = 0.0 if name == "fusion" else -100.0
        if name == "spoofing-pi":
            # The energy of speech's second difference, in place of a detector's score.
            card["parameters"][ENTRY] = entry(usual=-1.0, least=-9.0, most=9.0)
        path.write_text(json.dumps(card), "utf-8")
    return folder


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = write_owner_models(tmp_path_factory.mktemp("owner"))
    roles = ("identity", "spoofing", "liveness", "fusion")
    models = ModelSettings(**{role: str(folder / f"{getattr(ModelSettings(), role)}.json") for role in roles})
    return Settings(models=models, enrolment=EnrolmentSettings(same_speaker_llr=-100.0))


@pytest.fixture(scope="module")
def judges(settings: Settings) -> Judges:
    return Judges.load(settings.models)


@pytest.fixture(scope="module")
def session(judges: Judges, settings: Settings, corpus: Path) -> EnrolmentSession:
    made = EnrolmentSession(judges, settings)
    for wave in clips(corpus, OWNER, 4):
        assert made.add(wave).accepted
    return made


def raw_scores(judges: Judges, settings: Settings, waves: list[Waveform]) -> list[float]:
    return [judges.spoofing.score(prepare(wave, settings.quality).samples) for wave in waves]


def test_an_enrolment_keeps_what_the_detectors_score_of_it(
    session: EnrolmentSession, judges: Judges, settings: Settings, corpus: Path
) -> None:
    template = session.finish("ada", owner_uid=0).template
    found = {known.model_sha256: known for known in template.known_baselines}
    assert set(found) == {judges.spoofing.card.sha256, judges.liveness.card.sha256}
    own = found[judges.spoofing.card.sha256]
    assert own.utterances == 4
    assert own.mean == pytest.approx(np.mean(raw_scores(judges, settings, clips(corpus, OWNER, 4))), abs=1e-5)
    assert session.renew(template).baselines == template.baselines


def test_a_decision_is_relative_to_the_owner_and_says_by_how_much(
    session: EnrolmentSession, judges: Judges, settings: Settings, corpus: Path
) -> None:
    template = session.finish("ada", owner_uid=0).template
    utterance = prepare(clips(corpus, OWNER, 5)[4], settings.quality)
    voice = judges.hear(utterance, Stopwatch())
    alike, own = (
        judges.examine(utterance, voice, template.utterances, Stopwatch(), baselines).evidence
        for baselines in ((), template.known_baselines)
    )
    (baseline,) = (known for known in template.baselines if known.model_sha256 == judges.spoofing.card.sha256)
    parameters = judges.spoofing.owner
    assert parameters is not None and judges.liveness.owner is None
    shift = parameters.shift(judges.spoofing.card.calibration(baseline.mean), 4)  # type: ignore[misc]
    assert shift != 0
    assert (alike.spoofing.shift, alike.spoofing.threshold) == (0.0, -100.0)
    assert (own.spoofing.shift, own.spoofing.threshold) == (pytest.approx(shift), POINTS["balanced"].value)
    assert own.spoofing.llr == pytest.approx(alike.spoofing.llr - shift)
    assert own.spoofing.raw == alike.spoofing.raw
    assert [w.spoofing for w in own.windows] == pytest.approx([w.spoofing - shift for w in alike.windows])
    assert own.liveness == alike.liveness


def test_a_template_keeps_its_baselines_through_storage_renewal_and_adaptation() -> None:
    first, second = Baseline(LIVENESS, 1.25, 3), Baseline(SPOOFING, -0.123457, 3)
    template = make_template(baselines=(first, second))
    again = Template.from_bytes(template.to_bytes())
    assert again.baselines == (first, second)
    newer = dataclasses.replace(second, mean=4.0, utterances=5)
    matching = Matching.from_bytes(make_matching(template, baselines=(newer,)).to_bytes())
    renewed = dataclasses.replace(template, renewed=(matching,))
    assert renewed.known_baselines == (first, newer)
    matched = renewed.for_model(matching.model_sha256)
    assert matched is not None and matched.known_baselines == (first, newer)
    assert template.adapted(template.utterances, (newer,)).known_baselines == (newer,)


def test_a_record_of_before_has_no_baselines_and_reads_as_ever() -> None:
    template = make_template()
    table = cbor.decode(template.to_bytes(), where="", error=VaultError)
    assert "baselines" not in table
    assert Template.from_bytes(cbor.encode(table)).known_baselines == ()


@pytest.mark.parametrize(
    "baselines",
    [
        {"xyz": {"mean_millionths": 1, "utterances": 3}},
        {LIVENESS: {"mean_millionths": 1, "utterances": 0}},
        {LIVENESS: {"mean_millionths": 10**15, "utterances": 3}},
        {LIVENESS: {"mean_millionths": 1}},
        {LIVENESS: {"mean_millionths": "1", "utterances": 3}},
        {LIVENESS: 3},
    ],
)
def test_a_malformed_baseline_is_a_vault_error(baselines: dict[str, object]) -> None:
    table = cbor.decode(make_template().to_bytes(), where="", error=VaultError)
    with pytest.raises(VaultError, match="template record"):
        Template.from_bytes(cbor.encode({**table, "baselines": baselines}))


def test_impossible_baselines_are_refused() -> None:
    known = Baseline(LIVENESS, 1.0, 3)
    for wrong in ((known, known), (Baseline(LIVENESS, float("nan"), 3),), (Baseline(SPOOFING, 1.0, 3), known)):
        with pytest.raises(EnrolmentError, match="baseline"):
            make_template(baselines=wrong)


def test_a_summary_names_the_detectors_that_cannot_judge_relative_to_the_user() -> None:
    detectors = {"spoofing": SPOOFING, "liveness": LIVENESS}
    old = UserSummary.of(make_template(), 0).facts(None, detectors)
    assert (old["measured_by"], old["not_relative"]) == ((), ["liveness", "spoofing"])
    one = UserSummary.of(make_template(baselines=(Baseline(SPOOFING, 1.0, 3),)), 0)
    assert one.facts(None, detectors)["not_relative"] == ["liveness"]
    assert one.facts(None, {"spoofing": "00" * 32})["not_relative"] == ["spoofing"], "a model exchanged"
    assert one.facts(None, {})["not_relative"] == []


def speakers(follow: float, *, seed: int = 0) -> list[Speaker]:
    """Twenty whose genuine speech differs by as much between them as within; ``follow`` of it is in attacks on them."""
    rng = np.random.default_rng(seed)
    made = []
    for own in rng.normal(size=20):
        numbers = np.arange(30)
        recordings = 3 + own + rng.normal(size=30)
        genuine = recordings + rng.normal(0, 0.3, 30)
        attacks = -1 + follow * own + rng.normal(size=30)
        made.append(Speaker(recordings, genuine, numbers, attacks, numbers))
    return made


def test_the_fit_finds_how_much_differs_and_how_much_of_it_attacks_share() -> None:
    assert scatter(speakers(1.0)) == pytest.approx(1.0, rel=0.6)
    found, figures = fit(speakers(1.0), ABSOLUTE)
    assert found.share >= 0.75
    assert found.least < found.usual < found.most
    best, none = figures["share"][f"{found.share:g}"], figures["share"]["0"]
    assert best["apcer_balanced"] < none["apcer_balanced"] - 0.02
    trials = enrolments(speakers(1.0), np.random.default_rng(0))
    for point, threshold in ABSOLUTE.items():
        before = np.concatenate([trial.genuine for trial in trials]) < threshold.value
        after = [trial.genuine - found.shift(trial.enrolled, 3) < found.thresholds[point].value for trial in trials]
        assert 0 < np.mean(np.concatenate(after)) <= np.mean(before) == figures["bpcer"][point]


def test_where_scores_do_not_follow_the_enrolment_nothing_is_taken_off() -> None:
    rng = np.random.default_rng(3)
    others = [dataclasses.replace(s, genuine=rng.normal(3, 1.5, 30)) for s in speakers(0.0)]
    found, figures = fit(others, ABSOLUTE)
    assert found.share == 0.0
    assert figures["share"]["1"]["apcer"] > figures["share"]["0"]["apcer"] + 0.02
    assert found.thresholds["balanced"].value == pytest.approx(0.4, abs=0.1), "that of absolute scores"


def test_no_enrolled_recording_is_tried() -> None:
    made = dataclasses.replace(speakers(0.0)[0], recordings=np.arange(4.0), genuine=np.arange(4.0))
    made = dataclasses.replace(made, genuine_of=np.arange(4), attacks=np.arange(4.0), attacks_of=np.arange(4))
    for trial in enrolments([made], np.random.default_rng(1)):
        assert len(trial.genuine) == len(trial.attacks) == 1
        assert trial.enrolled * 3 + trial.genuine[0] == pytest.approx(6)


def test_a_card_that_gains_nothing_loses_the_entry() -> None:
    card = card_with(entry())
    kept = with_entry(card, PARAMETERS, {"speakers": 8})
    assert owner_parameters(kept) == PARAMETERS and kept.metrics[ENTRY] == {"speakers": 8}
    without = with_entry(card, dataclasses.replace(PARAMETERS, share=0.0), {})
    assert ENTRY not in without.parameters
