"""Backups: what moves and what does not, bad files, conflicts, full disks and kills."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli_helpers import voiceid
from tests.fault_helpers import killed_before_step
from tests.vault_helpers import DEVICE_KEY, NONCE, OTHER_KEY, RP, Party, accepted, make_matching, make_template
from voiceid import cbor
from voiceid.cli.exit_codes import ExitCode
from voiceid.credentials.authenticator import Authenticator
from voiceid.credentials.keys import create_device_key, load_device_key
from voiceid.enrolment import backup as backups
from voiceid.enrolment.backup import MAX_BACKUP, Backup, open_backup
from voiceid.enrolment.restoring import plan_restoration, restore, with_owners
from voiceid.enrolment.vault import Vault
from voiceid.errors import BackupError, CredentialError, VaultError
from voiceid.service.lockout import Lockout
from voiceid.types import Outcome
from voiceid.units.privacy import PrivacyProfile

PASSPHRASE = "correct horse battery staple"


@pytest.fixture(autouse=True)
def no_systemd_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)


@pytest.fixture(scope="module")
def party(tmp_path_factory: pytest.TempPathFactory) -> Party:
    """Ada with a credential and a second matching template, Bob, a privacy profile."""
    party = Party(tmp_path_factory.mktemp("party") / "vault")
    party.vault.save_matching("Ada", make_matching(party.template))
    party.vault.save_template(make_template("Bob", seed=1, owner_uid=1001))
    party.vault.set_privacy_profile(RP, PrivacyProfile(codebook=50))
    Lockout(party.vault).set_pin("Ada", "73195", admin=True)
    return party


@pytest.fixture(scope="module")
def backup(party: Party) -> Backup:
    return Backup.of(party.vault.contents())


@pytest.fixture(scope="module")
def data(backup: Backup) -> bytes:
    return backup.seal(PASSPHRASE)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Vault:
    """The vault of another device."""
    return Vault.open(tmp_path / "elsewhere", OTHER_KEY, create=True)


def forged(data: bytes, **changes: object) -> bytes:
    """``data`` with other members and a checksum that fits."""
    table = cbor.decode(data, where="", error=VaultError)
    del table["checksum"]
    table |= changes
    return cbor.encode({**table, "checksum": backups._checksum(table)})


def resealed(payload: bytes) -> bytes:
    """Any ``payload`` under the passphrase."""
    salt, nonce = bytes(16), bytes(12)
    head = {"format": "voiceid-backup", "version": 1, "salt": salt}
    sealed = backups.AESGCM(backups._key(PASSPHRASE, salt)).encrypt(nonce, payload, cbor.encode(head))
    table = {**head, "nonce": nonce, "sealed": sealed}
    return cbor.encode({**table, "checksum": backups._checksum(table)})


def test_enrolments_move_and_credentials_do_not(party: Party, backup: Backup, data: bytes, elsewhere: Vault) -> None:
    opened = open_backup(data, PASSPHRASE)
    done = restore(elsewhere, opened)
    assert done.plan.new == ("Ada", "Bob") and done.ended == {}
    before, after = party.vault.contents(), Vault.open(elsewhere.folder, OTHER_KEY).contents()
    for old, new in zip(before.users, after.users, strict=True):
        assert new.template.to_bytes() == old.template.to_bytes()
        assert new.template.frozen_features == old.template.frozen_features
        assert new.template.models == old.template.models
        assert (new.credentials, new.lockout) == ((), None)
    assert after.profiles == before.profiles
    assert opened.users[0].relying_parties == (RP,) and opened.created == backup.created
    authenticator = Authenticator(elsewhere, OTHER_KEY)
    with pytest.raises(CredentialError, match="no credential"):
        authenticator.check_credential("Ada", rp_id=RP)
    made = authenticator.register("Ada", rp_id=RP, challenge=NONCE, decision=accepted())
    assert made.credential.public_key != party.registered.credential.public_key


def test_a_backup_of_version_1_opens(backup: Backup) -> None:
    opened = open_backup(resealed(backup._payload()), PASSPHRASE)
    assert [user.template.to_bytes() for user in opened.users] == [user.template.to_bytes() for user in backup.users]


def test_nothing_of_it_is_in_clear(party: Party, data: bytes) -> None:
    template = party.template
    for secret in (b"Ada", b"Bob", RP.encode(), b"identity-test", b"argon2", template.frozen_features[:16]):
        assert secret not in data
    payload = open_backup(data, PASSPHRASE)._payload()
    assert b"argon2" not in payload, "no PIN moves"
    assert party.registered.credential.credential_id not in payload


def test_a_lock_out_is_not_cleared_by_restoring(tmp_path: Path) -> None:
    party = Party(tmp_path / "vault")
    kept = Backup.of(party.vault.contents())
    lockout = Lockout(party.vault)
    lockout.set_pin("Ada", "73195", admin=True)
    for _ in range(5):
        assert lockout.charge("Ada")
        lockout.settle("Ada", Outcome.REJECTED)
    party.vault.save_template(party.template.adapted(make_template(seed=4).utterances), replace=True)
    assert restore(party.vault, kept, overwrite=True).plan.replaced == ("Ada",)
    report = Lockout(party.vault).report("Ada")
    assert (report.locked, report.failures, report.pin_tries) == (True, 5, 8)
    assert party.vault.credentials("Ada") == (party.registered.credential,), "the same enrolment keeps its credentials"


def test_what_contradicts_is_refused_and_nothing_changes(party: Party, backup: Backup, elsewhere: Vault) -> None:
    ada = backup.users[0].template
    elsewhere.save_template(make_template("Ada", seed=8, user_id=ada.user_id))
    elsewhere.set_privacy_profile(RP, PrivacyProfile(codebook=200))
    plan = plan_restoration(elsewhere, backup)
    assert (plan.new, plan.replaced, plan.profiles) == (("Bob",), ("Ada",), (RP,))
    with pytest.raises(BackupError, match=rf"'Ada', {RP}: other here .* --overwrite .* Nothing was changed"):
        restore(elsewhere, backup)
    assert [user.name for user in elsewhere.list_users()] == ["Ada"]
    made = Authenticator(elsewhere, OTHER_KEY).register("Ada", rp_id=RP, challenge=NONCE, decision=accepted())
    assert restore(elsewhere, backup, overwrite=True).ended == {"Ada": (made.credential,)}
    assert elsewhere.load_template("Ada").to_bytes() == ada.to_bytes()
    assert elsewhere.privacy_profile(RP) == PrivacyProfile(codebook=50)
    assert restore(elsewhere, backup).plan.unchanged == ("Ada", "Bob")


def test_another_user_of_the_same_name_is_never_replaced(backup: Backup, elsewhere: Vault) -> None:
    elsewhere.save_template(make_template("ADA", seed=8))
    with pytest.raises(BackupError, match=r"'Ada': enrolled here as other users .*users delete"):
        restore(elsewhere, backup, overwrite=True)
    assert [user.name for user in elsewhere.list_users()] == ["ADA"]


def test_a_newer_matching_template_of_the_device_stays(party: Party, backup: Backup, elsewhere: Vault) -> None:
    restore(elsewhere, backup)
    newer = make_matching(party.template, created=1_950_000_000)
    elsewhere.save_matching("Ada", newer)
    restore(elsewhere, backup, overwrite=True)
    assert [matching.created for matching in elsewhere.load_template("Ada").renewed] == [newer.created]


def test_owners_can_be_mapped(backup: Backup, elsewhere: Vault) -> None:
    restore(elsewhere, with_owners(backup, {1000: 2000}))
    assert [user.owner_uid for user in elsewhere.list_users()] == [2000, 1001]


def test_a_wrong_passphrase_is_told_from_damage(data: bytes) -> None:
    with pytest.raises(BackupError, match="not the passphrase"):
        open_backup(data, PASSPHRASE + "!")
    altered = bytearray(data)
    altered[len(data) // 2] ^= 1
    with pytest.raises(BackupError, match="damaged"):
        open_backup(bytes(altered), PASSPHRASE)
    with pytest.raises(BackupError, match="not the passphrase"):
        open_backup(forged(data, salt=bytes(16)), PASSPHRASE)


def test_a_passphrase_is_one_however_its_characters_are_composed(backup: Backup) -> None:
    assert open_backup(backup.seal("zo\u00eb has twelve"), "zoe\u0308 has twelve").users[0].template.name == "Ada"


@pytest.mark.parametrize("passphrase", ["", "elevenchars", "a" * 40, "abababababababab", "x1" * 600])
def test_a_passphrase_that_is_soon_guessed_is_refused(backup: Backup, passphrase: str) -> None:
    with pytest.raises(BackupError, match="passphrase has 12 to 1024"):
        backup.seal(passphrase)


def test_a_file_cut_anywhere_is_an_error(data: bytes) -> None:
    for end in [*range(0, 300), *range(300, len(data), 997)]:
        with pytest.raises(BackupError, match="backup"):
            open_backup(data[:end], PASSPHRASE)
    with pytest.raises(BackupError, match="left over"):
        open_backup(data + b"\0", PASSPHRASE)


@settings(max_examples=200)
@given(st.data())
def test_any_bytes_are_an_error(data: bytes, draw: st.DataObject) -> None:
    noise = draw.draw(st.binary(max_size=300))
    with pytest.raises(BackupError):
        open_backup(noise, PASSPHRASE)
    at = draw.draw(st.integers(0, len(data) - 1))
    with pytest.raises(BackupError):
        open_backup(data[:at] + bytes([data[at] ^ draw.draw(st.integers(1, 255))]) + data[at + 1 :], PASSPHRASE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 3}, "version 3 is newer .* upgrade"),
        ({"version": 3, "kdf": "new"}, "version 3 is newer"),
        ({"version": 0}, "impossible version"),
        ({"version": "1"}, "version is str"),
        ({"format": "other"}, "no backup by voiceid"),
        ({"salt": b"short"}, "impossible"),
        ({"nonce": b""}, "impossible"),
        ({"sealed": b""}, "passphrase"),
        ({"more": 1}, "unknown key 'more'"),
    ],
)
def test_a_malformed_file_is_an_error(data: bytes, changes: dict[str, object], message: str) -> None:
    with pytest.raises(BackupError, match=message):
        open_backup(forged(data, **changes), PASSPHRASE)


def test_contents_that_no_device_wrote_are_an_error(backup: Backup) -> None:
    table = cbor.decode(backup._payload(), where="", error=VaultError)
    ada = table["users"]["0"]
    for payload in (
        {**table, "users": {"0": ada, "1": ada}},
        {**table, "users": {"0": b"ada"}},
        {**table, "users": {"0": {**ada, "template": b"x"}}},
        {**table, "users": {"0": {**ada, "matchings": {"0": make_matching(make_template()).to_bytes()}}}},
        {**table, "users": {"0": {**ada, "matchings": {"0": "x"}}}},
        {**table, "users": {"0": {**ada, "credentials": {"0": "no domain/"}}}},
        {**table, "profiles": {RP: {"codebook": 7}}},
        {**table, "profiles": {"..": PrivacyProfile().to_dict()}},
        {key: value for key, value in table.items() if key != "created"},
    ):
        with pytest.raises(BackupError, match="backup"):
            open_backup(resealed(cbor.encode(payload)), PASSPHRASE)
    with pytest.raises(BackupError, match="too many"):
        open_backup(bytes(MAX_BACKUP + 1), PASSPHRASE)


def test_kill_9_before_every_step_of_restoring_leaves_whole_users(backup: Backup, tmp_path: Path) -> None:
    number = 0
    while True:
        number += 1
        folder = tmp_path / str(number)
        vault = Vault.open(folder, DEVICE_KEY, create=True)
        if not killed_before_step(number, restore, vault, backup):
            break
        again = Vault.open(folder, DEVICE_KEY)
        assert again.problems() == ()
        expected = {user.template.name: user.template.to_bytes() for user in backup.users}
        for user in again.list_users():
            assert again.load_template(user.name).to_bytes() == expected[user.name]
        restore(again, backup)
        assert [len(user.template.renewed) for user in again.contents().users] == [1, 0]
        assert again.privacy_profiles() == backup.profiles
    assert number > 20


def test_a_full_disk_while_restoring_loses_nothing(tmpfs: Path) -> None:
    vault = Vault.open(tmpfs / "vault", DEVICE_KEY, create=True)
    vault.save_template(make_template("Cleo", seed=5))
    users = tuple(backups.BackedUp(make_template(f"user{n}", seed=n, count=30), ()) for n in range(20))
    large = Backup(1, users, {})
    with pytest.raises(VaultError, match=r"disk full.*nothing was lost"):
        restore(vault, large)
    again = Vault.open(tmpfs / "vault", DEVICE_KEY)
    assert again.problems() == () and list(vault.folder.rglob(".tmp-*")) == []
    names = [user.name for user in again.list_users()]
    assert "Cleo" in names and 1 < len(names) < 21


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with ``vault`` (its key inside) and ``phrase``."""
    vault = tmp_path / "vault"
    vault.mkdir(mode=0o700)
    Party(vault, device_key=create_device_key(vault / "device.key"))
    (tmp_path / "phrase").write_text(PASSPHRASE + "\n", "utf-8")
    return tmp_path


def test_the_commands_back_up_and_restore(home: Path) -> None:
    file, phrase = home / "a.backup", ("--passphrase-file", home / "phrase")
    made = voiceid("backup", "create", file, "--vault", home / "vault", *phrase, "--json")
    assert (
        made.code is ExitCode.ACCEPTED
        and made.json["users"] == ["Ada"]
        and made.json["bytes"] == len(file.read_bytes())
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = file.read_bytes()
    refused = voiceid("backup", "create", file, "--vault", home / "vault", *phrase)
    assert refused.code is ExitCode.BACKUP and "exists already" in refused.err and file.read_bytes() == before
    asked = voiceid(
        "backup", "create", file, "--overwrite", "--vault", home / "vault", stdin=f"{PASSPHRASE}\n{PASSPHRASE}\n"
    )
    assert asked.code is ExitCode.ACCEPTED and file.read_bytes() != before and PASSPHRASE not in asked.out + asked.err

    there = ("--vault", home / "new")
    restored = voiceid("backup", "restore", file, *there, *phrase, "--owner", "1000=2000", "--json")
    assert restored.code is ExitCode.ACCEPTED, restored.err
    assert restored.json["new"] == ["Ada"]
    assert restored.json["register_anew"] == [{"user": "Ada", "relying_party": RP}]
    assert "another identity model" in restored.err
    vault = Vault.open(home / "new", load_device_key(home / "new" / "device.key"))
    assert vault.load_template("Ada").owner_uid == 2000
    assert (home / "new" / "device.key").read_bytes() != (home / "vault" / "device.key").read_bytes()

    conflict = voiceid("backup", "restore", file, *there, *phrase)
    assert conflict.code is ExitCode.BACKUP and "--overwrite" in conflict.err
    declined = voiceid("backup", "restore", file, *there, *phrase, "--overwrite", stdin="n\n")
    assert declined.code is ExitCode.DECLINED and vault.load_template("Ada").owner_uid == 2000
    replaced = voiceid("backup", "restore", file, *there, *phrase, "--overwrite", "--yes")
    assert replaced.code is ExitCode.ACCEPTED and f"Ada: {RP}" in replaced.out
    assert vault.load_template("Ada").owner_uid == 1000
    same = voiceid("backup", "restore", file, "--vault", home / "vault", *phrase, "--json").json
    assert same["unchanged"] == ["Ada"] and same["register_anew"] == []


def test_commands_with_bad_input(home: Path) -> None:
    file, vault = home / "a.backup", ("--vault", home / "new")
    file.write_bytes(b"no backup")
    (home / "short").write_text("short\n", "utf-8")
    (home / "empty").write_bytes(b"")
    phrase = ("--passphrase-file", home / "phrase")
    refused = voiceid("backup", "restore", file, *vault, *phrase)
    assert refused.code is ExitCode.BACKUP and "this file is no backup" in refused.err
    assert voiceid("backup", "restore", home / "none", *vault, *phrase).code is ExitCode.SYSTEM
    assert voiceid("backup", "restore", home, *vault, *phrase).code is ExitCode.SYSTEM
    for mapping in ("1000", "a=b", "1=", "1=99999999999", "-1=2"):
        assert voiceid("backup", "restore", file, f"--owner={mapping}", *vault, *phrase).code is ExitCode.USAGE
    assert not (home / "new").exists()
    for bad in ("short", "empty"):
        made = voiceid("backup", "create", home / "b", "--vault", home / "vault", "--passphrase-file", home / bad)
        assert made.code is ExitCode.BACKUP and "passphrase" in made.err
    nowhere = voiceid("backup", "create", home / "no" / "b", "--vault", home / "vault", *phrase)
    assert nowhere.code is ExitCode.SYSTEM
    assert not (home / "b").exists()


def test_a_backup_is_not_written_over_what_it_is_made_of(home: Path) -> None:
    key, phrase = home / "vault" / "device.key", ("--passphrase-file", home / "phrase")
    before = key.read_bytes()
    (home / "link").symlink_to(key)
    for file in (key, home / "link", home / "vault" / "users" / "a.backup"):
        made = voiceid("backup", "create", file, "--overwrite", "--vault", home / "vault", *phrase)
        assert made.code is ExitCode.USAGE and "write to another file" in made.err
    assert key.read_bytes() == before and not (home / "vault" / "users" / "a.backup").exists()


def test_owners_that_are_not_there_twice_or_no_number_are_refused(home: Path) -> None:
    file, phrase = home / "a.backup", ("--passphrase-file", home / "phrase")
    assert voiceid("backup", "create", file, "--vault", home / "vault", *phrase).code is ExitCode.ACCEPTED
    there = ("--vault", home / "new")
    strange = voiceid("backup", "restore", file, *there, *phrase, "--owner", "7777=1")
    assert strange.code is ExitCode.BACKUP and "7777 owns nobody in the backup; its owners are 1000" in strange.err
    for owners in (("1000=1", "1000=2"), ("9" * 5000 + "=1",)):
        refused = voiceid("backup", "restore", file, *there, *phrase, *(f"--owner={owner}" for owner in owners))
        assert refused.code is ExitCode.USAGE and "--owner" in refused.err
    assert not (home / "new").exists()


def test_a_login_of_this_machine_goes_to_no_other_uid_unasked(home: Path) -> None:
    other = os.getuid() + 1000
    Vault.open(home / "vault", load_device_key(home / "vault" / "device.key")).save_template(
        make_template("daemon", owner_uid=other)
    )
    file, phrase = home / "a.backup", ("--passphrase-file", home / "phrase")
    assert voiceid("backup", "create", file, "--vault", home / "vault", *phrase).code is ExitCode.ACCEPTED
    there = ("--vault", home / "new")
    refused = voiceid("backup", "restore", file, *there, *phrase)
    assert refused.code is ExitCode.BACKUP and f"--owner {other}=NEW" in refused.err and not (home / "new").exists()
    told = voiceid("backup", "restore", file, *there, *phrase, "--owner", f"{other}={other}", "--json")
    assert told.code is ExitCode.ACCEPTED and told.json["new"] == ["Ada", "daemon"]


def test_a_passphrase_is_the_same_from_a_file_and_through_a_pipe(home: Path) -> None:
    strange = "correct horse\x0cbattery\u2028staple"
    (home / "phrase").write_text(f"{strange}\r\nsecond line\n", "utf-8")
    file, phrase = home / "a.backup", ("--passphrase-file", home / "phrase")
    assert voiceid("backup", "create", file, "--vault", home / "vault", stdin=f"{strange}\n").code is ExitCode.ACCEPTED
    assert voiceid("backup", "restore", file, "--vault", home / "vault", *phrase).code is ExitCode.ACCEPTED
