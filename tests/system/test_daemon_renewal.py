"""The daemon after a change of the identity model: who may renew a template, and what it counts."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_helpers import recordings_of, voiceid
from tests.small_models import write_other_identity
from tests.system.daemon_helpers import Running
from voiceid.audio import read_waveform
from voiceid.cli.exit_codes import ExitCode
from voiceid.service.client import Client, RemoteError
from voiceid.service.schema import Fault

OWNER, STRANGER = "ls1089", "ls121"


@pytest.fixture(scope="module")
def clips(corpus: Path) -> dict[str, list[Path]]:
    return recordings_of(corpus, (OWNER, STRANGER), 12)


@pytest.fixture(scope="module")
def models(lenient_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The daemon's own copy of the models."""
    return Path(shutil.copytree(lenient_models, tmp_path_factory.mktemp("own") / "models"))


@pytest.fixture(scope="module")
def upgraded(models: Path, clips: dict[str, list[Path]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A daemon with Ada and Bea enrolled by the shipped model, now with another one; both have the same voice."""
    running = Running(tmp_path_factory.mktemp("daemon"), environment={"VOICEID_MODELS": str(models)})
    running.recording.write_bytes(b"")
    running.start()
    with running.client() as client:
        for name in ("ada", "bea"):
            hand_over(client, clips[OWNER][:6], user=name)
            client.call("pin.set", user=name, pin="73195")
        newer = write_other_identity(models, tmp_path_factory.mktemp("newer"))
        running.settings = f'[models]\nidentity = "{newer}"'
        running.configure()
        client.call("reload")
    yield running
    assert running.stop() == 0, running.said()


def hand_over(client: Client, files: list[Path], **params: object) -> dict:
    client.hand_over([read_waveform(file).samples for file in files])
    try:
        return client.call("enrol", audio=True, **params)
    finally:
        client.call("release")


def refused(client: Client, files: list[Path], **params: object) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        hand_over(client, files, **params)
    return caught.value


def test_users_are_told_and_only_they_can_renew(upgraded: Running, clips: dict[str, list[Path]]) -> None:
    with upgraded.client() as client:
        problems = client.call("status")["problems"]
        assert len(problems) == 2 and "'ada'" in problems[0] and "users renew" in problems[0]
        assert client.call("users.show", user="ada")["user"]["renew"]
        assert all(user["renew"] for user in client.call("users.list")["users"])
        with pytest.raises(RemoteError, match="users renew ada") as caught:
            client.call("verify", user="ada", purpose="a test", challenge=secrets.token_bytes(16))
        assert caught.value.fault is Fault.ENROLMENT

        stranger = refused(client, clips[STRANGER][:3], user="ada", renew=True)
        assert stranger.fault is Fault.ENROLMENT
        counted = client.call("lockout.show", user="ada")["failures"]
        assert 2 <= counted <= 3, "as a verification does"
        locked = refused(client, clips[STRANGER][:8], user="ada", renew=True, unverified=True)
        assert "is locked" in str(locked)
        assert client.call("lockout.show", user="ada")["locked"]
        assert client.call("users.show", user="ada")["user"]["renew"]
        client.call("lockout.reset", user="ada")
        few = voiceid("users", "renew", "ada", clips[OWNER][6], "--config", upgraded.config, "--json")
        assert few.code is ExitCode.ENROLMENT and not few.json["renewed"]
        (utterance,) = few.json["utterances"]
        assert utterance["accepted"] and utterance["source"] == str(clips[OWNER][6])

        made = hand_over(client, clips[OWNER][6:12], user="ada", renew=True)
        assert made["model_name"] == "identity-next" and made["ended_credentials"] == []
        shown = client.call("users.show", user="ada")["user"]
        assert not shown["renew"] and len(shown["models"]) == 2
        assert shown in client.call("users.list")["users"]
        assert refused(client, clips[OWNER][:1], user="ada", renew=True, replace=True).fault is Fault.INVALID_PARAMS
        assert refused(client, clips[OWNER][:1], user="nobody", renew=True).fault is Fault.UNKNOWN_USER
        before = upgraded.vault_bytes()
        present = hand_over(client, clips[STRANGER][:1], user="ada", renew=True)
        known = {key: shown[key] for key in ("utterance_count", "net_speech", "model_name")}
        assert present == {"user": "ada", **known, "changed": False, "ended_credentials": [], "similar": []}
        assert made["changed"]
        assert client.call("lockout.show", user="ada")["failures"] == 0, "nobody was listened to"
        assert upgraded.vault_bytes() == before
    needless = voiceid("users", "renew", "ada", *clips[OWNER][:6], "--config", upgraded.config, "--json")
    assert needless.code is ExitCode.ACCEPTED and needless.json == {"name": "ada", "renewed": False}
    few = voiceid("users", "renew", "ada", clips[OWNER][6], "--again", "--config", upgraded.config)
    assert few.code is ExitCode.ENROLMENT and "not complete" in few.err
    assert upgraded.said().count("event=user_renewed") == 1
    with upgraded.client() as client:
        anew = hand_over(client, clips[OWNER][6:9], user="ada", renew=True, again=True)
        assert anew["changed"] and anew["utterance_count"] == 3
    assert upgraded.said().count("event=user_renewed") == 2


def test_without_the_former_model_a_pin_or_an_admin_has_to_speak(
    upgraded: Running, models: Path, clips: dict[str, list[Path]]
) -> None:
    for path in models.glob("identity-pi*"):
        path.unlink()
    files, options = clips[OWNER][6:12], ("--config", upgraded.config)
    with upgraded.client() as client:
        assert refused(client, files, user="bea", renew=True).fault is Fault.UNVERIFIED
        assert "not the PIN" in str(refused(client, files, user="bea", renew=True, pin="0000"))
        assert client.call("lockout.show", user="bea")["pin_tries"] == 7
    wrong = voiceid("users", "renew", "bea", *files, *options, stdin="1111\n")
    assert wrong.code is ExitCode.ENROLMENT and "the PIN is needed" in wrong.err
    right = voiceid("users", "renew", "bea", *files, *options, "--json", stdin="73195\n")
    assert right.code is ExitCode.ACCEPTED and right.json["model_name"] == "identity-next", right.err
    again = voiceid("users", "renew", "bea", *files, *options, "--former-model", "x")
    assert again.code is ExitCode.USAGE and "[models] former" in again.err
    with upgraded.client() as client:
        assert not client.call("users.show", user="bea")["user"]["renew"]
