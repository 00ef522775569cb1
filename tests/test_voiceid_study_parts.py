"""The VoiceID study's parts: options, tables, transformations, recognition errors, the page."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from evaluation_helpers import corpus_items

from tools.evaluation.parallel import Account
from tools.studies.errors import StudyError
from tools.studies.profiles import PROFILES
from tools.studies.results import digest, kept, whole_file
from tools.studies.voiceid import figures, fusion, mcadams, page, success
from tools.studies.voiceid.authentication import repeat
from tools.studies.voiceid.config import Attacks, read_study
from tools.studies.voiceid.errors import refuse_failures
from tools.studies.voiceid.people import Person
from tools.studies.voiceid.recipes import plan
from tools.studies.voiceid.recognisers import RECOGNISERS, load_recogniser, normalised
from tools.studies.voiceid.systems import COPIES
from tools.studies.voiceid.tables import Table
from tools.studies.voiceid.transform import RAW
from tools.studies.voiceid.transforms import SIGNAL
from tools.studies.voiceid.trials import Trial, read_trials, write_trials
from tools.studies.voiceid.unit_voice import learn, log_mel
from tools.train.data.corpus import Item
from voiceid.audio import prepare, read_waveform
from voiceid.features.mel import log_mel as agent_mel
from voiceid.types import SAMPLE_RATE
from voiceid.units.privacy import PrivacyProfile


@pytest.fixture(scope="module")
def utterance(speech: Path) -> np.ndarray:
    return prepare(read_waveform(speech)).samples[: 2 * SAMPLE_RATE]


def write_toml(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text, "utf-8")
    return path


def trial(**changes: object) -> Trial:
    values = {
        "path": "full/ada-00000.flac", "set": "full", "kind": "vocoder", "system": "lpc", "speaker": "ada",
        "template": "ada", "outcome": "accepted", "failed": "", "llr": (1.0, 2.0, 3.0, 4.0),
    }  # fmt: skip
    return Trial(**(values | changes))  # type: ignore[arg-type]


# --- options


def test_a_study_of_one_line_has_the_papers_sizes(tmp_path: Path) -> None:
    study = read_study(write_toml(tmp_path, 'output = "out"'))
    assert (study.people.count, study.attacks.full, study.attacks.partial) == (20, 6000, 2880)
    assert study.transforms.enrolments == 36
    assert study.fusion.combinations > 100_000


def test_the_documented_study_is_one() -> None:
    study = read_study(Path(__file__).parents[1] / "docs" / "studies" / "voiceid.toml")
    assert study.attacks.programs[0].name == "espeak-ng"
    for name in study.transforms.names:
        assert name in SIGNAL or name in PROFILES or name in COPIES
    assert set(study.utility.recognisers) == set(RECOGNISERS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "output"),
        ('output = "o"\nspeed = 3', "'speed'"),
        ('output = "o"\nsplit = "eval"', "'eval'"),
        ('output = "o"\nsteps = ["table-1"]', "table-1"),
        ('output = "o"\njobs = 0', "jobs is 0"),
        ('output = "o"\n[people]\ncount = 1', "count is 1"),
        ('output = "o"\n[attacks]\nseconds = [3.0, 2.0]', "seconds"),
        ('output = "o"\n[attacks]\nsystems = []', "at least one of systems"),
        ('output = "o"\n[attacks]\nsystems = ["lpc", "lpc"]', "named twice"),
        ("output = ", "TOML"),
    ],
)
def test_impossible_studies_are_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(StudyError, match=re.escape(said)):
        read_study(write_toml(tmp_path, text))


@pytest.mark.parametrize(("people", "systems"), [(2, 2), (8, 7), (7, 8), (4, 6)])
def test_every_system_and_every_person_gets_their_share(tmp_path: Path, people: int, systems: int) -> None:
    names = [f"p{i}" for i in range(people)]
    cast = [
        Person(n, *(3 * [(Item(tmp_path / f"{n}.wav", "set", n, "", "bonafide", "", 3.0, "A", ""),)])) for n in names
    ]
    attacks = Attacks(systems=tuple(COPIES)[:systems], full=2 * people * systems, partial=0, replay=0)
    full = [recipe for recipe in plan(cast, attacks, tmp_path, 0)[0] if recipe.set == "full"]
    assert set(Counter((recipe.speaker, recipe.system) for recipe in full).values()) == {2}
    assert len({recipe.system for recipe in full[:systems]}) == systems


# --- results


def test_results_are_kept_while_their_origin_is(tmp_path: Path) -> None:
    path, made = tmp_path / "result.json", itertools.count()

    def make() -> dict[str, object]:
        return {"n": next(made)}

    assert kept(path, digest("a"), make)["n"] == 0
    assert kept(path, digest("a"), make)["n"] == 0
    assert kept(path, digest("b"), make)["n"] == 1
    path.write_text('{"n": ', "utf-8")
    assert kept(path, digest("b"), make)["n"] == 2
    assert kept(path, digest("b"), make, beside=(tmp_path / "gone.csv",))["n"] == 3
    for _ in range(2):  # made, then read: the same
        assert kept(path, digest("c"), lambda: {"n": float("nan"), "of": (1,)}) == {
            "n": None,
            "of": [1],
            "made_from": digest("c"),
        }
    assert "NaN" not in path.read_text()


def test_interrupted_files_leave_the_former(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("whole")
    with pytest.raises(KeyboardInterrupt), whole_file(path) as temporary:
        temporary.write_text("ha")
        raise KeyboardInterrupt
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_text() == "whole"


def test_many_failures_are_refused() -> None:
    refuse_failures(Account(chosen=100, failed={f"{i}.flac": "empty" for i in range(5)}))
    with pytest.raises(StudyError, match=r"6 of 100 files failed, more than 5%: 0.flac is empty"):
        refuse_failures(Account(chosen=100, failed={f"{i}.flac": f"{i}.flac is empty" for i in range(6)}))


# --- trials and table I


def test_trials_survive_their_file(tmp_path: Path) -> None:
    trials = [trial(), trial(outcome="inconclusive", llr=()), trial(system='a "b", c', failed="identity+voiceid")]
    write_trials(tmp_path / "trials.csv", trials)
    assert read_trials(tmp_path / "trials.csv") == trials


def test_trials_with_scores_that_are_not_numbers_are_refused(tmp_path: Path) -> None:
    write_trials(tmp_path / "trials.csv", [trial(), trial(llr=(1.0, float("nan"), 3.0, 4.0))])
    with pytest.raises(StudyError, match=r"full/ada-00000.flac: scores \(1.0, nan"):
        read_trials(tmp_path / "trials.csv")


@pytest.mark.parametrize("content", [None, "", "path,set\na,b\n", "\x00"])
def test_other_files_are_no_trials(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "trials.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(StudyError, match="score"):
        read_trials(path)


def test_table_one_counts_what_each_agent_accepts() -> None:
    trials = [
        trial(),
        trial(outcome="spoof", failed="spoofing"),
        trial(outcome="rejected", failed="identity+voiceid", system="kokoro"),
        trial(outcome="inconclusive", llr=(), template="bea", speaker="bea"),
        trial(template="bea"),  # aimed at ada: no attack on bea
        trial(set="genuine", system="", kind="bonafide"),
        trial(set="genuine", system="", kind="bonafide", template="bea", outcome="rejected", failed="identity"),
        trial(set="full-played", system="lpc by car", outcome="replay", failed="liveness"),
        trial(set="full-played", system="lpc by earpiece", outcome="accepted"),
    ]
    result = success.summarise(trials)
    full = result["sets"]["full"]
    assert (full["identity_only"]["rate"], full["agent"]["rate"], full["agent"]["n"]) == (0.5, 0.25, 4)
    assert full["inconclusive"] == 1
    assert full["people"] == 2
    assert full["people_fooled"] == {"identity_only": 1, "agent": 1}
    assert result["sets"]["genuine"]["agent"]["rate"] == 1
    assert result["sets"]["strangers"]["identity_only"]["rate"] == 0
    played = [part for part in result["systems"] if part["set"] == "full-played"]
    assert [(part["system"], part["agent"]["n"]) for part in played] == [("lpc", 2)]
    whole, detail = success.tables(result)
    assert "50.0 %" in whole.rows[2][1]
    assert {row[1] for row in detail.rows} == {"lpc", "kokoro"}
    assert "1 of 2" in whole.text()


# --- table II


def judged(rng: np.random.Generator, people: int = 20) -> list[Trial]:
    """Trials of judges that err in 2 % each."""
    trials = []
    for number in range(people):
        for template in (number, (number + 5) % people):
            for kind, bad in (("genuine", ()), ("full", (1,)), ("replay", (2,)), ("full-played", (1, 2))):
                for _ in range(8):
                    good = [template == number, 1 not in bad, 2 not in bad, True]
                    llr = tuple(float(rng.normal(4 if one else -4, 2)) for one in good)
                    system, speaker = f"s{rng.integers(8)}", f"l{rng.integers(8)}"
                    name = {"full": system, "replay": speaker, "full-played": f"{system} by {speaker}"}.get(kind, "")
                    trials.append(trial(set=kind, system=name, speaker=f"p{number}", template=f"p{template}", llr=llr))
    return trials


def test_table_two_has_both_protocols() -> None:
    trials = judged(np.random.default_rng(0))
    partial = [trial(set="partial"), trial(llr=())]
    of_fusion = fusion.fusion_trials(trials + partial)
    assert len(of_fusion) == len(trials)
    result = fusion.measure(of_fusion, 800, seed=1)
    assert result["combinations"] == 800
    assert set(result["trials"]) >= {"target/none", "nontarget/none", "target/spoof", "target/replay"}
    for protocol in (fusion.PAPER, fusion.DISJOINT):
        assert len(result[protocol]) == 5
        for classifier in ("SVM", "logistic regression"):  # the others need more trials than these
            assert result[protocol][classifier]["accuracy"]["mean"] > 0.7
    paper, disjoint = fusion.tables(result)
    assert "800 combinations" in paper.caption
    assert len(disjoint.rows) == 5


def test_fusion_says_what_it_lacks() -> None:
    with pytest.raises(StudyError, match="nontarget/none, spoof, replay"):
        fusion.measure(fusion.fusion_trials([trial(set="genuine")]), 80, seed=0)
    few = fusion.fusion_trials(judged(np.random.default_rng(0), people=3))
    result = fusion.measure(few, 80, seed=0)
    assert result[fusion.DISJOINT] is None
    assert "too few people" in fusion.tables(result)[1].caption


# --- figure 4


def voices(rng: np.random.Generator, names: str, count: int, noise: float = 0.05) -> dict[str, list[np.ndarray]]:
    """Unit vectors around one axis a person."""
    found = {}
    for axis, name in enumerate(names):
        vectors = rng.normal(0, noise, (count, 16)) + np.eye(16)[axis]
        found[name] = list((vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32))
    return found


def test_authentication_falls_with_the_voice() -> None:
    rng = np.random.default_rng(0)
    raw = voices(rng, "abcd", 6)
    gone = {name: raw[other] for name, other in zip("abcd", "bcda", strict=True)}
    tests = {RAW: raw, "kept": raw, "gone": gone, "half": {n: raw[n][:3] + gone[n][:3] for n in "abcd"}}
    result = repeat(voices(rng, "abcd", 8), tests, enrolments=7, size=3, seed=0)
    rates = {name: part["mean"] for name, part in result["success"].items()}
    assert result["eer"]["mean"] == 0
    assert rates == {RAW: 1.0, "kept": 1.0, "gone": 0.0, "half": 0.5}
    assert result["success"]["half"] == {"mean": 0.5, "sd": 0.0, "recordings": 24, "people": 4}


def test_enrolments_differ_and_repeat_with_their_seed() -> None:
    rng = np.random.default_rng(1)
    pools, tests = voices(rng, "abcd", 12, noise=0.5), {RAW: voices(rng, "abcd", 12, noise=0.5)}
    first, again, other = (repeat(pools, tests, enrolments=6, size=2, seed=seed) for seed in (0, 0, 1))
    assert first == again != other
    assert first["eer"]["sd"] > 0


def test_a_small_pool_is_told() -> None:
    pools = voices(np.random.default_rng(0), "ab", 2)
    with pytest.raises(StudyError, match="a: 2 recordings to enrol from; an enrolment needs 3"):
        repeat(pools, {RAW: pools}, enrolments=1, size=3, seed=0)


# --- transformations


def test_mcadams_moves_formants_towards_one_radian() -> None:
    radius = 0.95
    for angle in (0.4, 1.6):
        prediction = np.real(np.poly([radius * np.exp(1j * angle), radius * np.exp(-1j * angle)]))
        moved = np.roots(mcadams.moved_poles(prediction, 0.8))
        assert np.abs(np.angle(moved)) == pytest.approx([angle**0.8] * 2)
        assert np.abs(moved) == pytest.approx([radius] * 2)


def test_mcadams_of_one_changes_nothing_and_less_changes_the_voice(utterance: np.ndarray) -> None:
    same, other = (mcadams.anonymise(utterance, coefficient) for coefficient in (1.0, 0.6))
    assert same.shape == other.shape == utterance.shape
    inside = slice(800, -800)
    assert np.abs(same - utterance)[inside].max() < 1e-3
    assert np.corrcoef(other[inside], utterance[inside])[0, 1] < 0.95
    assert np.isfinite(other).all()
    assert not mcadams.anonymise(np.zeros(4000, np.float32), 0.6).any()


def test_conversion_takes_pitch_and_spectrum_from_the_reference(utterance: np.ndarray) -> None:
    pytest.importorskip("pyworld", reason="the extra voiceid[train] is not installed")
    from tools.studies.voiceid.conversion import convert
    from tools.train.data.attacks import world

    reference = world.shifted(utterance, 7.0, 1.2)
    converted = convert(utterance, reference)
    pitches = [np.log(pitch[pitch > 0]).mean() for pitch, _, _ in map(world.analyse, (utterance, reference, converted))]
    assert pitches[1] - pitches[0] > 0.25
    assert pitches[2] == pytest.approx(pitches[1], abs=0.12)
    distances = [
        np.abs(agent_mel(x).mean(axis=0) - agent_mel(reference).mean(axis=0)).mean() for x in (utterance, converted)
    ]
    assert distances[1] < distances[0]


def test_units_are_spoken_with_their_mean_lengths(utterance: np.ndarray) -> None:
    spectra = log_mel(utterance)
    loud = (spectra.mean(axis=1) > np.median(spectra.mean(axis=1))).astype(np.int16)
    units = np.repeat(loud[::4], 4)[: len(spectra)] * 7  # two units of the fifty, in runs of at least four frames
    voice = learn([(units, utterance)], 50)
    assert voice.durations[[0, 7]].min() >= 3
    every = PrivacyProfile(50, merge_runs=False).apply(units.tolist())
    spoken = voice.speak(every, np.random.default_rng(0))
    assert len(spoken) == 160 * len(units)
    level = spoken.reshape(-1, 160).std(axis=1)
    assert level[units == 7].mean() > 2 * level[units == 0].mean()
    merged = PrivacyProfile(50).apply(units.tolist())
    assert len(voice.frames(merged)) == pytest.approx(len(units), rel=0.15)
    assert list(voice.frames(PrivacyProfile(50, durations=True).apply(units.tolist()))) == units.tolist()
    with pytest.raises(ValueError, match="this voice speaks 50"):
        voice.speak(PrivacyProfile(100).apply([1, 2]), np.random.default_rng(0))
    with pytest.raises(ValueError, match="no speech"):
        learn([], 50)


# --- recognition


def test_words_are_compared_without_case_and_punctuation() -> None:
    assert normalised("It’s   “Well-known”, isn't IT?") == "it's well known isn't it"
    assert normalised("...") == ""
    with pytest.raises(StudyError, match=r"whisper-tiny\.en, pocketsphinx"):
        load_recogniser("siri")


def test_word_errors_are_edits() -> None:
    pytest.importorskip("jiwer", reason="the extra voiceid[train] is not installed")
    from tools.studies.voiceid.utility import Heard, rates, word_errors

    assert word_errors("Open the front door.", "open the door now") == (2, 4)
    assert word_errors("Open the door", "") == (3, 3)
    heard = [Heard("a", 1, 10, 0.5, 5.0), Heard("a", 3, 10, 0.5, 5.0), Heard("b", 0, 20, 1.0, 10.0)]
    result = rates(heard)
    assert (result["wer"], result["rtf"], result["words"], result["speakers"]) == (0.1, 0.1, 40, 2)
    assert 0 <= result["ci95"][0] <= 0.1 <= result["ci95"][1] <= 0.2


def test_transcripts_are_made_once(corpus: Path, tmp_path: Path) -> None:
    for package in ("jiwer", "pocketsphinx"):
        pytest.importorskip(package, reason="the extra voiceid[train] is not installed")
    from tools.studies.voiceid.utility import Transcribing, chosen

    item = min(corpus_items(corpus, "ls-test-clean"), key=lambda item: item.seconds)
    raw, other, silent = (replace(item, set=name, pair="p") for name in (RAW, "mcadams", "units-50"))
    assert chosen([raw, other, replace(raw, pair="q"), replace(raw, text="", pair="r")], 1) == [raw, other]
    first = Transcribing("pocketsphinx", tmp_path)()(raw)
    assert first.words == len(item.text.split())
    assert 0 <= first.errors <= 2 * first.words
    assert first.seconds == pytest.approx(item.seconds, abs=0.01)
    (made,) = tmp_path.iterdir()
    made.write_text(json.dumps({"text": item.text.upper() + ", please", "cpu": 4.0}))
    assert Transcribing("pocketsphinx", tmp_path)()(raw) == replace(first, errors=1, cpu=4.0)
    assert len(list(tmp_path.iterdir())) == 1
    assert silent not in chosen([silent], 1)


# --- page and figures


def test_pages_escape_and_need_nothing_else(tmp_path: Path) -> None:
    result = success.summarise(
        [trial(), trial(set="genuine"), trial(set="replay", outcome="replay", failed="liveness")]
    )
    svg = figures.draw("attack-success", result, tmp_path)
    assert (tmp_path / "attack-success.png").read_bytes().startswith(b"\x89PNG")
    assert svg == figures.draw("attack-success", result, tmp_path)
    content = Table("<title>", "5 < 6 & more", ("a", "b"), [["<x>", "1"]])
    text = page.page("A & B", [page.table(content), *(page.figure(svg, "c", name) for name in ("one", "two"))])
    assert "&lt;x&gt;" in text
    assert "5 &lt; 6 &amp; more" in text
    assert not re.search(r'(src|href)="(?!#)', text.replace("xlink:href", "href"))
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids)) > 0
    used = re.findall(r'(?:href="#|url\(#)([^")]+)', text)
    assert set(used) <= set(ids)
