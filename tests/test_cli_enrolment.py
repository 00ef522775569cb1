"""The course of a user on the shipped models, behind lenient cards: enrol, verify, identify, register, authenticate,
enrol anew, delete."""

from __future__ import annotations

import base64
import json
import shutil
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.cli_helpers import need_shipped_models, recordings_of, voiceid
from voiceid.cli.exit_codes import ExitCode
from voiceid.credentials.keys import load_device_key
from voiceid.enrolment.vault import Vault
from voiceid.errors import EnvelopeError
from voiceid.relying_party import verify, verify_registration

RP = "shop.example.org"
CHALLENGE = base64.urlsafe_b64encode(bytes(range(32))).rstrip(b"=").decode()
OWNER, STRANGER = "ls1089", "ls121"
"""A man and a woman of the test split: no model was trained on them."""


@pytest.fixture(scope="module", autouse=True)
def models(lenient_models: Path) -> Iterator[None]:
    """Every command here finds the lenient cards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOICEID_MODELS", str(lenient_models))
        yield


@pytest.fixture(scope="module")
def clips(corpus: Path) -> dict[str, list[Path]]:
    """Recordings of three to nine seconds by either speaker."""
    return recordings_of(corpus, (OWNER, STRANGER), 14)


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory, clips: dict[str, list[Path]]) -> Path:
    """A vault with the owner in it."""
    folder = tmp_path_factory.mktemp("state") / "vault"
    ran = voiceid("enroll", "ada", *clips[OWNER][:6], "--vault", folder, "--json")
    assert ran.code is ExitCode.ACCEPTED, ran.err
    assert ran.json["enrolled"] and ran.json["net_speech"] >= 8 and ran.json["similar"] == []
    assert sum(utterance["accepted"] for utterance in ran.json["utterances"]) == ran.json["utterance_count"] >= 3
    return folder


@pytest.fixture(scope="module")
def accepted(vault: Path, clips: dict[str, list[Path]]) -> Path:
    """A recording of the owner, not used to enrol, that is accepted."""
    for clip in clips[OWNER][6:]:
        if voiceid("verify", "ada", clip, "--vault", vault).code is ExitCode.ACCEPTED:
            return clip
    pytest.fail("none of eight recordings of the owner was accepted")


@pytest.fixture(scope="module")
def stranger(vault: Path, clips: dict[str, list[Path]]) -> Path:
    """A recording of the stranger that is not accepted, as most must be."""
    codes = [voiceid("verify", "ada", clip, "--vault", vault).code for clip in clips[STRANGER][:4]]
    assert codes.count(ExitCode.REJECTED) >= 3
    return clips[STRANGER][codes.index(ExitCode.REJECTED)]


def test_the_vault_is_private(vault: Path) -> None:
    assert stat.S_IMODE(vault.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in vault.rglob("*") if path.is_file())


def test_a_decision_in_json_has_scores_thresholds_and_times(vault: Path, accepted: Path) -> None:
    table = voiceid("verify", "ada", accepted, "--vault", vault, "--json").json
    assert table["outcome"] == "accepted" and table["exit_code"] == 0 and table["name"] == "ada"
    for judge in ("identity", "spoofing", "liveness", "consistency"):
        score = table["evidence"][judge]
        assert score["passed"] and score["llr"] >= score["threshold"]
    assert table["voiceid"] >= table["voiceid_threshold"]
    assert table["timings"]["total"] >= table["timings"]["identity"] > 0


def test_a_stranger_is_not_accepted(vault: Path, accepted: Path, stranger: Path) -> None:
    tables = [voiceid("verify", "ada", clip, "--vault", vault, "--json").json for clip in (accepted, stranger)]
    owner, other = (table["evidence"]["identity"] for table in tables)
    assert tables[1]["outcome"] == "rejected" and not other["passed"]
    assert other["llr"] < other["threshold"] <= owner["llr"]


def test_identify_knows_the_owner_and_answers_unknown(vault: Path, accepted: Path, stranger: Path) -> None:
    known = voiceid("identify", accepted, "--vault", vault, "--json")
    assert known.json["user"] == "ada"
    assert known.code is ExitCode.ACCEPTED and known.json["name"] == "ada"
    unknown = voiceid("identify", stranger, "--vault", vault, "--json")
    assert unknown.code is not ExitCode.ACCEPTED and unknown.json["name"] is unknown.json["user"] is None
    assert unknown.json["candidates"][0]["name"] == "ada"
    assert "unknown" in voiceid("identify", stranger, "--vault", vault).out


def test_identify_names_all_whom_it_cannot_tell_apart(vault: Path, accepted: Path, tmp_path: Path) -> None:
    twins = Path(shutil.copytree(vault, tmp_path / "twins"))
    opened = Vault.open(twins, load_device_key(twins / "device.key"))
    ada = opened.load_template("ada")
    opened.save_template(replace(ada, name="bea", user_id=bytes(16), enrolment_id=bytes(16)))
    ran = voiceid("identify", accepted, "--vault", twins, "--json")
    assert ran.code is ExitCode.REJECTED and ran.json["outcome"] == "rejected" and ran.json["name"] is None
    assert sorted(ran.json["ambiguous"]) == ["ada", "bea"]
    shown = voiceid("identify", accepted, "--vault", twins).out
    assert "ambiguous: ada or bea; name one with 'voiceid verify'" in shown and "cannot tell 2" in shown


def test_nobody_of_that_name(vault: Path, accepted: Path) -> None:
    ran = voiceid("verify", "bob", accepted, "--vault", vault, "--json")
    assert ran.code is ExitCode.NOT_ENROLLED and ran.json["outcome"] == "not_enrolled"


def test_silence_and_a_short_clip_are_inconclusive(vault: Path, accepted: Path, tmp_path: Path) -> None:
    silence, short = tmp_path / "silence.wav", tmp_path / "short.wav"
    soundfile.write(silence, np.zeros(32_000, np.float32), 16_000)
    samples, rate = soundfile.read(accepted, dtype="float32")
    soundfile.write(short, samples[rate : rate + int(0.3 * rate)], rate)
    for file, word in ((silence, "silent"), (short, "too_short")):
        ran = voiceid("verify", "ada", file, "--vault", vault, "--json")
        assert ran.code is ExitCode.INCONCLUSIVE
        assert word in ran.json["quality"]["faults"] and ran.json["evidence"] is None


def test_two_people_cannot_enrol_as_one(tmp_path: Path, clips: dict[str, list[Path]]) -> None:
    vault = tmp_path / "vault"
    mixed = [*clips[OWNER][:1], *clips[STRANGER][:2]]
    ran = voiceid("enroll", "both", *mixed, "--vault", vault, "--json")
    assert ran.code is ExitCode.ENROLMENT and ran.json["enrolled"] is False
    faults = [utterance["fault"] for utterance in ran.json["utterances"]]
    assert "other_speaker" in faults
    assert voiceid("users", "list", "--vault", vault, "--json").json == []


def test_silence_cannot_enrol(tmp_path: Path) -> None:
    need_shipped_models()
    silence = tmp_path / "silence.wav"
    soundfile.write(silence, np.zeros(5 * 16_000, np.float32), 16_000)
    ran = voiceid("enroll", "nobody", silence, silence, silence, "--vault", tmp_path / "v", "--json")
    assert ran.code is ExitCode.ENROLMENT
    assert [utterance["fault"] for utterance in ran.json["utterances"]] == ["silent"] * 3
    assert "not complete" in ran.error["message"]


def test_an_enrolled_name_is_not_overwritten(vault: Path, clips: dict[str, list[Path]]) -> None:
    before = {path: path.read_bytes() for path in vault.rglob("template")}
    ran = voiceid("enroll", "ada", *clips[STRANGER][:5], "--vault", vault)
    assert ran.code is ExitCode.ENROLMENT and "reenroll" in ran.err
    assert {path: path.read_bytes() for path in vault.rglob("template")} == before


def test_register_authenticate_and_verify_at_the_relying_party(vault: Path, accepted: Path, tmp_path: Path) -> None:
    common = ("ada", accepted, "--relying-party", RP, "--challenge", CHALLENGE, "--vault", vault, "--json")
    early = voiceid("authenticate", *common, "-o", tmp_path / "early")
    assert early.code is ExitCode.CREDENTIAL and "register one first" in early.error["message"]
    lost = voiceid("credentials", "register", *common, "-o", tmp_path / "no" / "where.json")
    assert lost.code is ExitCode.SYSTEM
    assert voiceid("credentials", "list", "--vault", vault, "--json").json == []
    registered = voiceid("credentials", "register", *common, "-o", tmp_path / "registration.json")
    assert registered.code is ExitCode.ACCEPTED
    response = json.loads((tmp_path / "registration.json").read_text())
    nonce = base64.urlsafe_b64decode(CHALLENGE + "==")
    registration = verify_registration(response, expected_challenge=nonce, expected_rp_id=RP)

    ran = voiceid("authenticate", *common, "-o", tmp_path / "envelope", "--purpose", "buy coffee")
    assert ran.code is ExitCode.ACCEPTED and ran.json["source"] == "file" and ran.json["counter"] == 1
    envelope = (tmp_path / "envelope").read_bytes()
    assert len(envelope) == ran.json["envelope_bytes"] < soundfile.info(accepted).frames * 2 / 10
    expected = {"registration": registration, "expected_nonce": nonce, "expected_rp_id": RP}
    verified = verify(envelope, **expected, expected_purpose="buy coffee", allow_file=True)
    assert verified.counter == 1 and verified.purpose == "buy coffee" and verified.source == "file"
    with pytest.raises(Exception, match="file"):
        verify(envelope, **expected)

    listed = voiceid("credentials", "list", "ada", "--vault", vault, "--json").json
    assert [row["relying_party"] for row in listed] == [RP]
    revoked = voiceid("credentials", "revoke", "ada", listed[0]["credential_id"], "--yes", "--vault", vault)
    assert revoked.code is ExitCode.ACCEPTED
    assert voiceid("authenticate", *common, "-o", tmp_path / "late").code is ExitCode.CREDENTIAL
    assert not (tmp_path / "late").exists()


def test_a_stranger_gets_no_envelope(vault: Path, accepted: Path, stranger: Path, tmp_path: Path) -> None:
    common = ("--relying-party", "bank.example.org", "--challenge", CHALLENGE, "--vault", vault)
    assert voiceid("credentials", "register", "ada", accepted, *common).code is ExitCode.ACCEPTED
    refused = voiceid("authenticate", "ada", stranger, *common, "-o", tmp_path / "envelope", "--json")
    assert 10 <= refused.code < 20 and refused.json["output"] is None
    assert not (tmp_path / "envelope").exists()
    again = ("credentials", "register", "ada", stranger, *common, "--another", "--json")
    assert voiceid(*again).code == refused.code


def test_a_second_credential_and_a_file_that_is_there_have_to_be_asked_for(
    vault: Path, accepted: Path, tmp_path: Path
) -> None:
    party, output = "twice.example.org", tmp_path / "ada.json"
    asked = ("--relying-party", party, "--challenge", CHALLENGE, "-o", output, "--vault", vault, "--json")
    register = ("credentials", "register", "ada", accepted, *asked)
    first_time = voiceid(*register)
    assert first_time.code is ExitCode.ACCEPTED and "from now on" not in first_time.err
    written = output.read_bytes()
    kept = voiceid(*register, "--another")
    assert kept.code is ExitCode.USAGE and f"{output} exists already" in kept.error["message"]
    refused = voiceid(*register, "--overwrite")
    assert refused.code is ExitCode.CREDENTIAL and "--another" in refused.error["message"]
    listed = voiceid("credentials", "list", "ada", "--vault", vault, "--json").json
    (first,) = (row["credential_id"] for row in listed if row["relying_party"] == party)
    assert first[:24] in refused.error["message"] and output.read_bytes() == written

    second = voiceid(*register, "--another", "--overwrite")
    assert second.code is ExitCode.ACCEPTED and output.read_bytes() != written
    assert f"envelopes for {party} are signed with this credential from now on: give the service this" in second.err
    listed = voiceid("credentials", "list", "ada", "--vault", vault, "--json").json
    ids = [row["credential_id"] for row in listed if row["relying_party"] == party]
    assert ids == [first, second.json["credential_id"]]
    nonce = base64.urlsafe_b64decode(CHALLENGE + "==")
    former, latest = (
        verify_registration(json.loads(text), expected_challenge=nonce, expected_rp_id=party)
        for text in (written, output.read_bytes())
    )
    signed = voiceid("authenticate", "ada", accepted, *asked[:4], "-o", tmp_path / "envelope", "--vault", vault)
    assert signed.code is ExitCode.ACCEPTED
    envelope, expected = (tmp_path / "envelope").read_bytes(), {"expected_nonce": nonce, "expected_rp_id": party}
    assert verify(envelope, registration=latest, **expected, allow_file=True).counter == 1
    with pytest.raises(EnvelopeError, match="credential"):
        verify(envelope, registration=former, **expected, allow_file=True)
    for identifier in ids:
        voiceid("credentials", "revoke", "ada", identifier, "--yes", "--vault", vault)


def test_units_have_the_rate_and_codebook_announced(accepted: Path) -> None:
    for codebook in (50, 200):
        table = voiceid("units", accepted, "--codebook", codebook, "--json").json
        assert len(table["units"]) == pytest.approx(100 * table["seconds"], abs=2)
        assert len(set(table["units"])) > 10 and 0 <= min(table["units"]) <= max(table["units"]) < codebook
        assert sum(table["durations"]) == len(table["units"]) and len(table["merged"]) == len(table["durations"])
        assert 0 < table["merged_bits_per_second"] < 800
    plain = voiceid("units", accepted)
    assert plain.out.split() == [str(u) for u in voiceid("units", accepted, "--json").json["units"]]
    assert "bit/s" in plain.err


def test_units_of_what_is_no_usable_speech_are_only_given_when_forced(tmp_path: Path) -> None:
    silence = tmp_path / "silence.wav"
    soundfile.write(silence, np.zeros(32_000, np.float32), 16_000)
    refused = voiceid("units", silence, "--json")
    assert refused.code is ExitCode.INCONCLUSIVE and refused.out == ""
    assert "no usable speech (nothing but silence was delivered)" in refused.error["message"]
    assert voiceid("units", silence, "--force", "--json").json["units"]


def test_explain_draws(vault: Path, accepted: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image", reason="the extra voiceid[plot] is not installed")
    picture = tmp_path / "picture.png"
    ran = voiceid("explain", accepted, "--user", "ada", "--plot", picture, "--vault", vault, "--json")
    assert ran.code is ExitCode.ACCEPTED and ran.json["outcome"] == "accepted" and ran.json["evidence"]["windows"]
    assert image.imread(picture).shape[0] > 700
    unnamed = voiceid("explain", accepted, "--json").json
    assert unnamed["outcome"] != "accepted" and unnamed["voiceid"] is None


def test_a_picture_that_cannot_be_written_is_a_system_error(accepted: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra voiceid[plot] is not installed")
    ran = voiceid("explain", accepted, "--plot", tmp_path / "no" / "where.png", "--json")
    assert ran.code is ExitCode.SYSTEM and "where.png" in ran.error["message"]


def test_reenrolling_ends_credentials_and_delete_really_deletes(
    vault: Path, tmp_path: Path, clips: dict[str, list[Path]], accepted: Path
) -> None:
    vault = Path(shutil.copytree(vault, tmp_path / "vault"))
    options = ("--vault", vault, "--json")
    for row in voiceid("credentials", "list", "ada", *options).json:
        assert (
            voiceid("credentials", "revoke", "ada", row["credential_id"], "--yes", *options).code is ExitCode.ACCEPTED
        )
    harmless = voiceid("users", "reenroll", "ada", *clips[OWNER][6:12], "--vault", vault, stdin="n\n")
    assert harmless.code is ExitCode.DECLINED and "anew? " in harmless.err and "credential" not in harmless.err
    party = ("--relying-party", "third.example.org", "--challenge", CHALLENGE)
    assert voiceid("credentials", "register", "ada", accepted, *party, *options).code is ExitCode.ACCEPTED

    before = {path: path.read_bytes() for path in vault.rglob("*") if path.is_file()}
    declined = voiceid("users", "reenroll", "ada", *clips[OWNER][6:12], "--vault", vault, stdin="n\n")
    assert declined.code is ExitCode.DECLINED and "third.example.org" in declined.err
    incomplete = voiceid("users", "reenroll", "ada", clips[OWNER][6], "--yes", *options)
    assert incomplete.code is ExitCode.ENROLMENT
    assert {path: path.read_bytes() for path in vault.rglob("*") if path.is_file()} == before

    anew = voiceid("users", "reenroll", "ada", *clips[OWNER][6:12], "--yes", *options)
    assert anew.code is ExitCode.ACCEPTED, anew.err
    assert "third.example.org" in [ended["relying_party"] for ended in anew.json["ended_credentials"]]
    assert voiceid("credentials", "list", "ada", *options).json == []

    deleted = voiceid("users", "delete", "ada", "--yes", *options)
    assert deleted.code is ExitCode.ACCEPTED and deleted.json["template"] and deleted.json["bytes_overwritten"] > 0
    assert voiceid("users", "show", "ada", *options).code is ExitCode.NOT_ENROLLED
    assert list((vault / "users").iterdir()) == []
