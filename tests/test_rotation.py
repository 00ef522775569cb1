"""A new device key: what stays, what ends, and a power cut at every step."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.cli_helpers import voiceid
from tests.fault_helpers import killed, killed_before_step
from tests.vault_helpers import NONCE, RP, Party, accepted, make_matching, make_template
from voiceid.cli.exit_codes import ExitCode
from voiceid.credentials.authenticator import Authenticator
from voiceid.credentials.keys import DeviceKey, Purpose, create_device_key, load_device_key
from voiceid.enrolment import files, opening
from voiceid.enrolment.opening import open_vault
from voiceid.enrolment.record_folder import DAEMON_LOCK
from voiceid.enrolment.rotation import rotate_device_key
from voiceid.enrolment.vault import Vault
from voiceid.errors import CredentialError, VaultError
from voiceid.relying_party import verify_registration
from voiceid.service.lockout import Lockout
from voiceid.service.sockets import hold
from voiceid.settings import PathSettings
from voiceid.types import Outcome
from voiceid.units.privacy import PrivacyProfile


@pytest.fixture(autouse=True)
def no_systemd_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with ``vault`` and ``key``: Ada with a credential, two matching templates, a PIN and failures; Bob."""
    key = create_device_key(tmp_path / "key")
    party = Party(tmp_path / "vault", device_key=key)
    party.vault.save_matching("Ada", make_matching(party.template))
    party.vault.save_template(make_template("Bob", seed=1))
    party.vault.set_privacy_profile(RP, PrivacyProfile(codebook=50))
    lockout = Lockout(party.vault)
    lockout.set_pin("Ada", "73195", admin=True)
    for _ in range(3):
        lockout.charge("Ada")
        lockout.settle("Ada", Outcome.REJECTED)
    return tmp_path


def opened(home: Path) -> Vault:
    return Vault.open(home / "vault", load_device_key(home / "key"))


def rotate(home: Path) -> None:
    rotate_device_key(home / "vault", home / "key")


def check_whole(home: Path, templates: list[bytes], old: bytes, key: Path) -> bool:
    """Whether the key is the new one; everything that must be there is, whatever the key."""
    renewed = key.read_bytes() != old
    vault, _ = open_vault(PathSettings(vault=home / "vault", device_key=key))
    assert vault.problems() == () and list(key.parent.glob(".tmp-*")) == []
    contents = vault.contents()
    assert [user.template.to_bytes() for user in contents.users] == templates
    assert [len(user.template.renewed) for user in contents.users] == [1, 0]
    assert contents.profiles == {RP: PrivacyProfile(codebook=50)}
    assert len(contents.users[0].credentials) == (0 if renewed else 1)
    report = Lockout(vault).report("Ada")
    assert (report.failures, report.pin_tries) == (3, 8)
    assert list((home / "vault").rglob(".tmp-*")) == []
    return renewed


def test_everything_but_credentials_stays(home: Path) -> None:
    before = opened(home)
    old_key, old = load_device_key(home / "key"), (home / "key").read_bytes()
    contents = before.contents()
    templates = [user.template.to_bytes() for user in contents.users]
    records = {path.read_bytes() for path in (home / "vault" / "users").rglob("*") if path.is_file()}
    made = rotate_device_key(home / "vault", home / "key")
    assert made.users == ("Ada", "Bob")
    assert [credential.rp_id for credential in made.ended["Ada"]] == [RP] and set(made.ended) == {"Ada"}
    assert check_whole(home, templates, old, home / "key")
    assert (home / "key").stat().st_mode & 0o777 == 0o600 and len((home / "key").read_bytes()) == 32
    assert not records & {path.read_bytes() for path in (home / "vault" / "users").rglob("*") if path.is_file()}
    assert not (home / "vault" / ".rotation").exists()
    with pytest.raises(VaultError, match="another device key"):
        Vault.open(home / "vault", old_key)
    with pytest.raises(VaultError, match="device key was changed meanwhile"):
        before.load_template("Ada")


def test_a_credential_of_the_former_key_is_unknown_and_a_new_one_is_another(home: Path) -> None:
    former = opened(home).credentials("Ada")[0]
    rotate(home)
    authenticator = Authenticator(opened(home), load_device_key(home / "key"))
    with pytest.raises(CredentialError, match="no credential"):
        authenticator.check_credential("Ada", rp_id=RP)
    with pytest.raises(CredentialError, match="not made by this device"):
        authenticator.check_credential("Ada", rp_id=RP, credential_id=former.credential_id)
    made = authenticator.register("Ada", rp_id=RP, challenge=NONCE, decision=accepted())
    assert made.credential.public_key != former.public_key
    verify_registration(made.response, expected_challenge=NONCE, expected_rp_id=RP)


@pytest.mark.parametrize("where", ["key", "vault/device.key"], ids=["beside the vault", "inside it"])
def test_kill_9_before_every_step_leaves_the_old_key_or_the_new_one(home: Path, tmp_path: Path, where: str) -> None:
    templates = [user.template.to_bytes() for user in opened(home).contents().users]
    old = (home / "key").read_bytes()
    number, states = 0, []
    while True:
        number += 1
        case = tmp_path / "case"
        shutil.copytree(home / "vault", case / "vault")
        shutil.copy2(home / "key", case / where)
        if not killed_before_step(number, rotate_device_key, case / "vault", case / where):
            break
        states.append(check_whole(case, templates, old, case / where))
        if number % 10 == 0:
            rotate_device_key(case / "vault", case / where)
            assert check_whole(case, templates, old, case / where) and not (case / "vault" / ".rotation").exists()
        shutil.rmtree(case)
    assert states == sorted(states), "once the key is new it stays new"
    assert states.count(False) > 40 and states.count(True) > 20


def test_a_key_that_changes_while_the_vault_is_opened_is_read_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_late(path: Path) -> DeviceKey:
        key = load_device_key(path)
        monkeypatch.undo()
        rotate(home)
        return key

    monkeypatch.setattr(opening, "load_device_key", load_late)
    vault, key = open_vault(PathSettings(vault=home / "vault", device_key=home / "key"))
    assert {user.name for user in vault.list_users()} == {"Ada", "Bob"}
    assert key.subkey(Purpose.VAULT) == load_device_key(home / "key").subkey(Purpose.VAULT)


def _rotate_forever(report, home: Path) -> None:
    while True:
        report(1)
        rotate(home)


def test_kill_9_at_random_moments_loses_no_user(home: Path) -> None:
    templates = [user.template.to_bytes() for user in opened(home).contents().users]
    moments = random.Random(5)
    for _ in range(40):
        killed(moments.uniform(0.0, 0.15), _rotate_forever, home)
        vault = opened(home)
        assert vault.problems() == ()
        assert [user.template.to_bytes() for user in vault.contents().users] == templates
        assert Lockout(vault).report("Ada").failures == 3


def test_a_full_disk_changes_nothing(tmpfs: Path) -> None:
    paths = PathSettings(vault=tmpfs / "vault", device_key=tmpfs / "key")
    vault, _ = open_vault(paths, create=True)
    template = make_template()
    vault.save_template(template)
    old = (tmpfs / "key").read_bytes()
    with (tmpfs / "ballast").open("wb") as ballast, pytest.raises(OSError, match="No space left"):
        while True:
            os.write(ballast.fileno(), b"\0" * 4096)
    with pytest.raises(VaultError, match="disk full"):
        rotate_device_key(paths.vault, tmpfs / "key")
    assert (tmpfs / "key").read_bytes() == old
    assert open_vault(paths)[0].load_template("Ada").to_bytes() == template.to_bytes()
    (tmpfs / "ballast").unlink()
    rotate_device_key(paths.vault, tmpfs / "key")
    assert open_vault(paths)[0].load_template("Ada").to_bytes() == template.to_bytes()


def test_not_while_a_daemon_serves_the_vault(home: Path) -> None:
    old = (home / "key").read_bytes()
    descriptor = hold(home / "vault" / DAEMON_LOCK, "held")
    try:
        with pytest.raises(VaultError, match=r"a voiceid daemon serves this vault; stop it first: systemctl stop"):
            rotate(home)
    finally:
        os.close(descriptor)
    assert (home / "key").read_bytes() == old
    rotate(home)


def test_not_with_a_damaged_record(home: Path) -> None:
    old = (home / "key").read_bytes()
    (path,) = (home / "vault").glob("users/*/lockout")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(VaultError, match="damaged"):
        rotate(home)
    assert (home / "key").read_bytes() == old and not (home / "vault" / ".rotation").exists()


def test_a_key_that_systemd_hands_over_is_told_apart(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = home / "credentials"
    passed.mkdir()
    shutil.copy(home / "key", passed / "voiceid-device-key")
    with pytest.raises(CredentialError, match=r"none: no device key in this file.*systemd-creds"):
        rotate_device_key(home / "vault", home / "none")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(passed))
    with pytest.raises(CredentialError, match=r"comes from systemd .* rotate as root"):
        rotate(home)
    shown = voiceid("device", "show", "--vault", home / "vault", "--json").json
    assert (shown["source"], shown["since"], shown["credentials"]) == ("systemd credential", None, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
def test_what_root_rotates_stays_the_service_users(home: Path) -> None:
    for path in [home / "vault", *(home / "vault").rglob("*")]:
        os.chown(path, 65534, 65534)
    rotate(home)
    opened(home).save_template(make_template("Cleo", seed=2))
    owners = {(path.stat().st_uid, path.stat().st_gid) for path in (home / "vault").rglob("*")}
    assert owners == {(65534, 65534)}
    assert (home / "key").stat().st_uid == 0


def test_the_command_lists_what_ends_and_asks(home: Path) -> None:
    shutil.copy2(home / "key", home / "vault" / "device.key")
    options = ("--vault", home / "vault")
    shown = voiceid("device", "show", *options, "--json").json
    assert (shown["source"], shown["mode"], shown["users"], shown["credentials"]) == ("file", "0600", 2, 1)
    assert shown["since"] == int((home / "key").stat().st_mtime) and shown["opens_the_vault"]
    assert "file" in voiceid("device", "show", *options).out
    old = (home / "vault" / "device.key").read_bytes()
    declined = voiceid("device", "rotate-key", *options, stdin="n\n")
    assert declined.code is ExitCode.DECLINED and f"Ada: {RP}" in declined.err and "register each anew" in declined.err
    assert (home / "vault" / "device.key").read_bytes() == old
    rotated = voiceid("device", "rotate-key", "--yes", *options, "--json")
    assert rotated.code is ExitCode.ACCEPTED and rotated.json["users"] == ["Ada", "Bob"]
    assert [(row["user"], row["relying_party"]) for row in rotated.json["ended_credentials"]] == [("Ada", RP)]
    assert (home / "vault" / "device.key").read_bytes() != old
    assert files.exists(home / "vault" / "format")
    again = voiceid("device", "rotate-key", *options, stdin="y\n")
    assert again.code is ExitCode.ACCEPTED and "no credentials" in again.err
    missing = voiceid("device", "rotate-key", "--vault", home / "nowhere")
    assert missing.code is ExitCode.CREDENTIAL
