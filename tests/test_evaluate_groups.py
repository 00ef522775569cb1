"""Figures by group: what index and notes tell, and verification and detection by it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from small_models import write_models

from tools.evaluation import pad, verification
from tools.evaluation.groups import duration, family, language, sex
from tools.evaluation.selection import read_rows
from tools.train.data.corpus import Item
from voiceid.models.card import Card, read_card

BLANK = Item(Path("a.flac"), "", "", "", "bonafide", "", 0.0, "A", "")


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Card]:
    folder = write_models(tmp_path_factory.mktemp("models"))
    return {name: read_card(folder / f"{name}.json") for name in ("identity-pi", "spoofing-pi")}


def clip(**fields: object) -> Item:
    return dataclasses.replace(BLANK, **fields)


def test_sex_and_language_come_from_columns_or_notes(tmp_path: Path) -> None:
    assert [sex(clip(sex=value)) for value in ("F", "male", "x", "")] == ["female", "male", "", ""]
    assert sex(clip(note="a female reader")) == "female"
    assert sex(clip(note="females and males")) == ""
    assert language(clip(note="Portuguese; cut to 5.5 s")) == "Portuguese"
    assert language(clip(language="Welsh", note="Portuguese")) == "Welsh"
    assert [language(clip(speaker=name)) for name in ("ls260", "vctk-p225", "lsx", "")] == [
        "English",
        "English",
        "",
        "",
    ]
    path = tmp_path / "index.csv"
    path.write_text("path,speaker,kind,codec,sex,language\na.wav,x,bonafide,opus-20k,f,Welsh\n", "utf-8")
    (row,) = read_rows(path)
    assert (row.codec, sex(row), language(row)) == ("opus-20k", "female", "Welsh")


def test_durations_have_classes() -> None:
    assert [duration(s) for s in (0.0, 1.9, 2.0, 7.9, 8.0)] == ["", "under 2 s", "2 to 4 s", "4 to 8 s", "8 s and more"]


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ("Parallel WaveGAN copy-synthesis: PWG-cGAN-D", "Parallel WaveGAN"),
        ("system HGAN_V3: mel copy-synthesis, unseen VCTK speaker", "HiFi-GAN"),
        ("system Glow-TTS+HiFi-GAN fine-tuned", "HiFi-GAN"),
        ("system VITS", "VITS"),
        ("system ppg_gta; pair = target reference", "Assem-VC"),
        ("system autovc (Seen); source speaker vctk-p231", "StarGANv2-VC and AutoVC"),
        ("flite awb; text of 1", "engines without a network"),
        ("WaveNet vocoder", "WaveNet and WaveGlow"),
        ("another system; text 3", "another system"),
    ],
)
def test_families_of_attacks(note: str, expected: str) -> None:
    assert family(clip(kind="tts", note=note)) == expected
    assert family(clip(note=note)) == ""


def trials(people: dict[str, Item], *, seconds: float = 5.0) -> verification.Trials:
    """Forty tests of everyone against everyone, whose targets score higher."""
    rng = np.random.default_rng(0)
    tests = [dataclasses.replace(item, seconds=seconds) for item in people.values() for _ in range(40)]
    rows = [(item, name) for name in people for item in tests]
    target = np.array([item.speaker == name for item, name in rows])
    scores = np.where(target, 1.0, 0.995) + rng.normal(0, 0.002, len(rows))
    return verification.Trials(scores, target, np.array([n for _, n in rows]), [i for i, _ in rows], people)


def test_verification_by_what_is_known(cards: dict[str, Card]) -> None:
    people = {
        "ls1": clip(speaker="ls1", sex="f", codec="flac"),
        "ls2": clip(speaker="ls2", sex="m", codec="flac"),
        "ls3": clip(speaker="ls3", sex="m", codec="opus-20k"),
        "pt1": clip(speaker="pt1", note="Portuguese"),
    }
    result = verification.summarise(trials(people), cards["identity-pi"], seconds=3.0)
    by, counts = result["by"], ("n_target", "n_nontarget")
    assert [by["sex"]["male"][k] for k in counts] == [80, 80], "only pairs of two men"
    assert [by["sex"]["female"][k] for k in counts] == [40, 0]
    assert [by["language"]["English"][k] for k in counts] == [120, 240]
    assert [by["language"]["Portuguese"][k] for k in counts] == [40, 0]
    assert [by["codec"]["flac"][k] for k in counts] == [80, 240], "tried against everyone"
    assert set(by["duration"]) == {"2 to 4 s"}, "clips of 5 s are cut to 3 s"
    assert result["not_told"] == []
    assert set(by["sex"]["male"]["thresholds"]) == {"convenience", "balanced", "strict"}
    assert by["sex"]["male"]["curve"]["trials"] == [80, 80]
    assert "curve" not in by["sex"]["female"]


def test_what_nothing_tells_is_left_out_and_said(cards: dict[str, Card]) -> None:
    people = {name: clip(speaker=name) for name in ("x", "y")}
    result = verification.summarise(trials(people, seconds=0.0), cards["identity-pi"])
    assert result["not_told"] == ["sex", "language", "duration", "codec"]
    text = verification.describe(result | {"n_speakers": 2, "enrolment_utterances": 3})
    assert "neither the index nor its notes tell: sex, language, duration, codec" in text


def test_the_worst_family_is_named(cards: dict[str, Card]) -> None:
    genuine = [clip(speaker=f"s{i % 8}") for i in range(100)]
    attacks = [clip(kind="tts", note="system VITS")] * 40 + [clip(kind="vc", note="system ppg_gt")] * 30
    few = [clip(kind="tts", note="unheard of")] * 29
    scores = np.concatenate([np.arange(100.0), np.full(40, 4.0), np.repeat([50.0, -1.0], [21, 9]), np.full(29, 99.0)])
    result = pad.summarise([*genuine, *attacks, *few], scores, cards["spoofing-pi"])
    families = result["by"]["family"]
    assert {name: part["n_spoof"] for name, part in families.items()} == {"VITS": 40, "Assem-VC": 30, "unheard of": 29}
    assert [families[name]["apcer_at_bpcer"]["0.05"] for name in ("VITS", "Assem-VC", "unheard of")] == [0, 0.7, 1]
    worst = result["worst_family"]
    assert (worst["family"], worst["compared"]) == ("Assem-VC", 2)
    assert (worst["apcer"]["errors"], worst["apcer"]["n"]) == (21, 30)
    assert "worst of 2 families of at least 30 clips, at BPCER 5 %: Assem-VC, APCER 70.00 % of 30" in pad.describe(
        result
    )
    alone = pad.summarise([*genuine, *few], scores[:129], cards["spoofing-pi"])
    assert alone["worst_family"] is None
    assert "worst of" not in pad.describe(alone)
