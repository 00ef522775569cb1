"""Change of the identity model and the way back, with two real models: credentials keep their keys."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_helpers import Ran, recordings_of, voiceid
from tests.small_models import write_other_identity
from voiceid.cli.exit_codes import ExitCode
from voiceid.doctor import run_checks
from voiceid.relying_party import verify, verify_registration

RP = "shop.example.org"
NONCE = bytes(range(32))
CHALLENGE = base64.urlsafe_b64encode(NONCE).rstrip(b"=").decode()
OWNER, STRANGER = "ls1089", "ls121"


@pytest.fixture(scope="module", autouse=True)
def models(lenient_models: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOICEID_MODELS", str(lenient_models))
        patch.delenv("CREDENTIALS_DIRECTORY", raising=False)
        yield


@pytest.fixture(scope="module")
def clips(corpus: Path) -> dict[str, list[Path]]:
    return recordings_of(corpus, (OWNER, STRANGER), 14)


@pytest.fixture(scope="module")
def newer(lenient_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_other_identity(lenient_models, tmp_path_factory.mktemp("newer"))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration that :func:`use` changes."""
    path = tmp_path / "config.toml"
    path.write_text(f'[paths]\nvault = "{tmp_path / "vault"}"\n', "utf-8")
    return path


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, clips: dict[str, list[Path]]) -> Path:
    """A vault with Ada enrolled by the shipped model and registered, and her registration beside it."""
    folder = tmp_path_factory.mktemp("begun")
    vault = ("--vault", folder / "vault")
    assert voiceid("enroll", "ada", *clips[OWNER][:6], *vault).code is ExitCode.ACCEPTED
    party = ("--relying-party", RP, "--challenge", CHALLENGE, "-o", folder / "registration.json")
    for clip in clips[OWNER][6:]:
        if voiceid("credentials", "register", "ada", clip, *party, *vault).code is ExitCode.ACCEPTED:
            return folder
    pytest.fail("none of eight recordings of the owner was accepted")


@pytest.fixture
def registration(begun: Path, tmp_path: Path) -> object:
    """Ada's registration; her vault is a copy of her own to change."""
    shutil.copytree(begun / "vault", tmp_path / "vault")
    response = json.loads((begun / "registration.json").read_text("utf-8"))
    return verify_registration(response, expected_challenge=NONCE, expected_rp_id=RP)


def use(config: Path, card: Path | None, *former: Path) -> None:
    """Let ``card`` be the identity model, or the shipped one."""
    paths = config.read_text("utf-8").split("[models]")[0]
    lines = [f'identity = "{card}"'] if card else []
    lines += [f"former = [{', '.join(json.dumps(str(path)) for path in former)}]"] if former else []
    config.write_text("\n".join([paths.rstrip(), "[models]", *lines]) + "\n", "utf-8")


def sign(config: Path, clips: list[Path], out: Path) -> bytes:
    """An envelope of Ada's credential, from the first recording that is accepted."""
    common = ("--relying-party", RP, "--challenge", CHALLENGE, "-o", out, "--vault", config.parent / "vault")
    for clip in clips:
        ran = voiceid("authenticate", "ada", clip, *common, "--config", config)
        if ran.code is ExitCode.ACCEPTED:
            return out.read_bytes()
        assert 10 <= ran.code < 20, ran.err
    pytest.fail("none of the recordings of the owner was accepted")


def renew(config: Path, files: list[Path], *more: object, **extra: str) -> Ran:
    vault = ("--vault", config.parent / "vault", "--config", config)
    return voiceid("users", "renew", "ada", *files, *vault, "--json", *more, **extra)


def test_credentials_keep_their_keys_through_upgrade_and_rollback(
    config: Path, registration: object, newer: Path, clips: dict[str, list[Path]], tmp_path: Path
) -> None:
    vault = ("--vault", tmp_path / "vault", "--config", config)
    expected = {"expected_nonce": NONCE, "expected_rp_id": RP, "allow_file": True}
    before = verify(sign(config, clips[OWNER][6:], tmp_path / "1"), registration=registration, **expected)
    shown = voiceid("users", "show", "ada", *vault, "--json").json
    assert not shown["renew"]

    use(config, newer)
    told = voiceid("verify", "ada", clips[OWNER][7], *vault)
    assert told.code is ExitCode.ENROLMENT and "voiceid users renew ada" in told.err and "identity-next" in told.err
    told = voiceid("users", "show", "ada", *vault, "--json")
    assert told.json["renew"] and "renew" in told.err
    assert voiceid("users", "list", *vault, "--json").json[0]["renew"]
    records = next(check for check in run_checks(config, tmp_path / "vault") if check.name == "records")
    assert records.status == "warn" and "ada" in records.detail and "users renew" in records.advice

    renewed = renew(config, clips[OWNER][6:12])
    assert renewed.code is ExitCode.ACCEPTED, renewed.err
    assert renewed.json["verified"] and renewed.json["model_name"] == "identity-next"
    assert renewed.json["credentials"] == 1
    after = verify(sign(config, clips[OWNER][6:], tmp_path / "2"), registration=registration, **expected)
    assert after.counter > before.counter
    shown = voiceid("users", "show", "ada", *vault, "--json").json
    assert not shown["renew"] and len(shown["models"]) == 2 and len(shown["credentials"]) == 1

    use(config, None)
    back = verify(sign(config, clips[OWNER][6:], tmp_path / "3"), registration=registration, **expected)
    assert back.counter > after.counter
    use(config, newer)
    again = verify(sign(config, clips[OWNER][6:], tmp_path / "4"), registration=registration, **expected)
    assert again.counter > back.counter


def test_nobody_else_is_taken_for_the_user(
    config: Path, registration: object, newer: Path, clips: dict[str, list[Path]], tmp_path: Path
) -> None:
    use(config, newer)
    before = {path: path.read_bytes() for path in (tmp_path / "vault").rglob("*") if path.is_file()}
    refused = renew(config, clips[STRANGER][:8], "--yes")
    assert refused.code is ExitCode.ENROLMENT
    faults = [utterance["fault"] for utterance in refused.json["utterances"]]
    assert faults.count("other_speaker") >= 6 and refused.json["renewed"] is False
    assert {path: path.read_bytes() for path in (tmp_path / "vault").rglob("*") if path.is_file()} == before


def test_without_the_former_model_an_admin_has_to_say_so(
    config: Path, registration: object, newer: Path, clips: dict[str, list[Path]], tmp_path: Path, lenient_models: Path
) -> None:
    shipped = shutil.copytree(lenient_models, tmp_path / "models")
    kept = tmp_path / "kept"
    kept.mkdir()
    for path in shipped.glob("identity-pi*"):
        shutil.move(path, kept / path.name)
    use(config, newer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOICEID_MODELS", str(shipped))
        declined = renew(config, clips[OWNER][6:12], stdin="n\n")
        assert declined.code is ExitCode.DECLINED and "Whoever speaks now can use all credentials" in declined.err
        wrong = renew(config, clips[OWNER][6:12], "--former-model", newer)
        assert wrong.code is ExitCode.ENROLMENT and "not a model that 'ada'" in wrong.error["message"]
        missing = renew(config, clips[OWNER][6:12], "--former-model", tmp_path / "none.json")
        assert missing.code is ExitCode.MODEL
        stranger = renew(config, clips[STRANGER][:8], "--former-model", kept / "identity-pi.json")
        assert stranger.code is ExitCode.ENROLMENT

        use(config, newer, kept / "identity-pi.json")
        named = renew(config, clips[OWNER][6:12])
        assert named.code is ExitCode.ACCEPTED and named.json["verified"], named.err


def test_an_admin_may_renew_without_a_check_and_the_credential_stays(
    config: Path, registration: object, newer: Path, clips: dict[str, list[Path]], tmp_path: Path, lenient_models: Path
) -> None:
    shipped = shutil.copytree(lenient_models, tmp_path / "models")
    for path in shipped.glob("identity-pi*"):
        path.unlink()
    use(config, newer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOICEID_MODELS", str(shipped))
        renewed = renew(config, clips[OWNER][6:12], "--yes")
        assert renewed.code is ExitCode.ACCEPTED and renewed.json["verified"] is False, renewed.err
        envelope = sign(config, clips[OWNER][6:], tmp_path / "1")
    verify(envelope, registration=registration, expected_nonce=NONCE, expected_rp_id=RP, allow_file=True)


def test_the_template_of_the_model_in_use_is_replaced_only_where_that_is_asked_for(
    config: Path, registration: object, clips: dict[str, list[Path]], tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in (tmp_path / "vault").rglob("*") if path.is_file()}
    for files in ([], clips[OWNER][8:14]):
        needless = renew(config, files)
        assert needless.code is ExitCode.ACCEPTED and needless.json == {"name": "ada", "renewed": False}
    told = voiceid("users", "renew", "ada", "--vault", tmp_path / "vault")
    assert "nothing to renew" in told.out and "--again" in told.out
    assert {path: path.read_bytes() for path in (tmp_path / "vault").rglob("*") if path.is_file()} == before

    renewed = renew(config, clips[OWNER][8:14], "--again")
    assert renewed.code is ExitCode.ACCEPTED and renewed.json["verified"], renewed.err
    shown = voiceid("users", "show", "ada", "--vault", tmp_path / "vault", "--json").json
    assert len(shown["models"]) == 1 and len(shown["credentials"]) == 1
    assert {path: path.read_bytes() for path in (tmp_path / "vault").rglob("*") if path.is_file()} != before
    incomplete = renew(config, clips[OWNER][8:9], "--again")
    assert incomplete.code is ExitCode.ENROLMENT and "not complete" in incomplete.error["message"]
