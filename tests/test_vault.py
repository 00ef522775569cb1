"""The vault: secrecy, atomicity, versions, faults, deletion."""

import dataclasses
import errno
import os
import shutil

import pytest

from tests.vault_helpers import DEVICE_KEY, OTHER_KEY, damage, make_matching, make_template
from voiceid import cbor
from voiceid.credentials.credential import Credential
from voiceid.credentials.keys import Purpose, create_device_key
from voiceid.enrolment import files
from voiceid.enrolment.credential_records import MAX_COUNTER
from voiceid.enrolment.opening import open_vault
from voiceid.enrolment.records import FORMAT_VERSION, Record, RecordKind, VaultKeys, vault_header
from voiceid.enrolment.vault import MAX_MATCHINGS, Vault
from voiceid.errors import CredentialError, EnrolmentError, UnknownUserError, VaultError
from voiceid.settings import PathSettings
from voiceid.units.privacy import PrivacyProfile

KEYS = VaultKeys(DEVICE_KEY.subkey(Purpose.VAULT))


@pytest.fixture
def vault(tmp_path):
    return Vault.open(tmp_path / "vault", DEVICE_KEY, create=True)


def reopen(vault, key=DEVICE_KEY):
    return Vault.open(vault.folder, key)


def credential_of(template, number=1, rp_id="shop.example.org"):
    return Credential(bytes([number]) * 40, rp_id, b"handle", template.enrolment_id, b"key", 1_700_000_000 + number)


def record_files(vault):
    return sorted(path for path in vault.folder.rglob("*") if path.is_file())


def template_file(vault):
    (path,) = vault.folder.glob("users/*/template")
    return path


def test_what_was_saved_is_there_after_reopening(vault):
    template = make_template("Zoë")
    vault.save_template(template)
    vault.save_credential("Zoë", credential_of(template))
    vault.save_lockout("Zoë", b"failures: 3")
    vault.set_privacy_profile("shop.example.org", PrivacyProfile(codebook=50))
    again = reopen(vault)
    assert again.load_template("zoe\u0308").to_bytes() == template.to_bytes()
    assert again.credentials("Zoë") == (credential_of(template),)
    assert again.load_lockout("Zoë") == b"failures: 3"
    assert again.privacy_profile("shop.example.org") == PrivacyProfile(codebook=50)
    assert again.privacy_profile("other.example.org") == PrivacyProfile()
    assert again.privacy_profiles() == {"shop.example.org": PrivacyProfile(codebook=50)}
    (summary,) = again.list_users()
    assert (summary.name, summary.utterance_count, summary.credential_count) == ("Zoë", 3, 1)
    assert (summary.net_speech, summary.owner_uid) == (9.25, 1000)
    assert again.problems() == ()


def test_files_say_nothing_in_clear(vault):
    template = make_template("Ada")
    vault.save_template(template)
    vault.save_credential("Ada", credential_of(template))
    vault.set_privacy_profile("shop.example.org", PrivacyProfile())
    secrets = [
        b"Ada",
        b"shop.example",
        b"identity-test",
        template.embedding[:4].tobytes(),
        template.frozen_features[64:],
    ]
    for path in record_files(vault):
        data = path.read_bytes()
        assert not any(secret in data for secret in secrets), path
        assert "Ada" not in str(path.relative_to(vault.folder))


def test_folders_are_0700_and_files_0600_under_umask_000(tmp_path):
    old = os.umask(0)
    try:
        vault, _ = open_vault(PathSettings(vault=tmp_path / "deep" / "vault"), create=True)
        template = make_template()
        vault.save_template(template)
        vault.save_template(make_template(user_id=template.user_id), replace=True)
        vault.set_privacy_profile("shop.example.org", PrivacyProfile())
    finally:
        os.umask(old)
    paths = list((tmp_path / "deep").rglob("*"))
    assert len(paths) == 9
    assert (tmp_path / "deep").stat().st_mode & 0o777 == 0o700
    for path in paths:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_loose_vault_folder_is_tightened(vault):
    vault.folder.chmod(0o755)
    (vault.folder / "users").chmod(0o777)
    reopen(vault)
    assert vault.folder.stat().st_mode & 0o777 == 0o700
    assert (vault.folder / "users").stat().st_mode & 0o777 == 0o700


def test_enrolling_twice_needs_replace_and_the_same_user_id(vault):
    first = make_template()
    vault.save_template(first)
    with pytest.raises(EnrolmentError, match="'Ada' is enrolled already"):
        vault.save_template(make_template("ADA"))
    with pytest.raises(EnrolmentError, match="user id"):
        vault.save_template(make_template("Ada"), replace=True)
    assert vault.load_template("Ada").to_bytes() == first.to_bytes()


def test_reenrolment_ends_credentials_and_adaptation_does_not(vault):
    first = make_template()
    vault.save_template(first)
    vault.save_credential("Ada", credential_of(first))
    vault.save_lockout("Ada", b"3")
    adapted = first.adapted(make_template(seed=5).utterances)
    assert vault.save_template(adapted, replace=True) == ()
    assert vault.credentials("Ada") == (credential_of(first),)
    second = make_template(user_id=first.user_id)
    assert vault.save_template(second, replace=True) == (credential_of(first),)
    assert vault.credentials("Ada") == ()
    assert vault.load_lockout("Ada") == b"3"
    assert len(list(vault.folder.glob("users/*/*"))) == 2
    with pytest.raises(CredentialError, match="unknown credential"):
        vault.next_counter(credential_of(first).credential_id)
    with pytest.raises(CredentialError, match="another enrolment"):
        vault.save_credential("Ada", credential_of(first))


def test_matching_templates_of_several_models_are_kept_and_end_with_their_enrolment(vault):
    template = make_template()
    vault.save_template(template)
    vault.save_credential("Ada", credential_of(template))
    for number in (1, 2):
        vault.save_matching("Ada", make_matching(template, number))
    again = reopen(vault)
    assert again.problems() == ()
    models = (template.model_sha256, f"{1:064x}", f"{2:064x}")
    assert again.load_template("Ada").models == again.list_users()[0].models == models
    assert again.load_template("Ada").for_model(models[2]).embedding.shape == (32,)
    assert again.credentials("Ada") == (credential_of(template),)
    again.save_matching("Ada", make_matching(template, 1, created=1_900_000_000))
    assert [matching.created for matching in again.load_template("Ada").renewed] == [1_700_000_002, 1_900_000_000]
    again.save_template(make_template(user_id=template.user_id), replace=True)
    assert again.load_template("Ada").renewed == ()
    assert list(vault.folder.glob("users/*/matching-*")) == []


def test_the_oldest_matching_template_makes_way(vault):
    template = make_template()
    vault.save_template(template)
    for number in range(1, MAX_MATCHINGS + 3):
        vault.save_matching("Ada", make_matching(template, number))
    kept = [f"{number:064x}" for number in range(3, MAX_MATCHINGS + 3)]
    assert vault.load_template("Ada").models == (template.model_sha256, *kept)
    assert len(list(vault.folder.glob("users/*/matching-*"))) == MAX_MATCHINGS


def test_a_matching_template_of_another_enrolment_or_user_is_not_taken(vault):
    ada, bob = make_template(), make_template("Bob", seed=1)
    for template in (ada, bob):
        vault.save_template(template)
    with pytest.raises(EnrolmentError, match="does not belong"):
        vault.save_matching("Ada", make_matching(bob))
    with pytest.raises(EnrolmentError, match="does not belong"):
        vault.save_matching("Ada", dataclasses.replace(make_matching(ada), model_sha256=ada.model_sha256))
    with pytest.raises(UnknownUserError):
        vault.save_matching("Cleo", make_matching(ada))
    vault.save_matching("Bob", make_matching(bob))
    (theirs,) = vault.folder.glob("users/*/matching-*")
    own = next(folder for folder in vault.folder.glob("users/*") if folder != theirs.parent)
    shutil.copy(theirs, own / theirs.name)
    assert len(vault.problems()) == 1 and "moved here" in vault.problems()[0]
    assert vault.load_template("Ada").models == (ada.model_sha256,)


def test_a_pipe_or_a_link_in_the_place_of_a_template_is_a_problem(vault, tmp_path):
    vault.save_template(make_template())
    (path,) = vault.folder.glob("users/*/template")
    for replace in (os.mkfifo, lambda place: place.symlink_to(tmp_path)):
        path.unlink()
        replace(path)
        (problem,) = vault.problems()
        assert str(path) in problem
        assert vault.list_users() == ()


def test_a_damaged_matching_template_hides_nobody(vault):
    template = make_template()
    vault.save_template(template)
    vault.save_matching("Ada", make_matching(template))
    (path,) = vault.folder.glob("users/*/matching-*")
    path.write_bytes(path.read_bytes()[:-1])
    assert vault.load_template("Ada").models == vault.show_user("Ada").models == (template.model_sha256,)
    (problem,) = vault.problems()
    assert "'voiceid users renew' of its user makes a new one" in problem
    with pytest.raises(VaultError, match="damaged"):
        vault.contents()
    vault.save_matching("Ada", make_matching(template, 2))
    assert vault.problems() == () and len(vault.contents().users) == 1


def test_credentials_are_stored_once_and_revoked_for_good(vault):
    template = make_template()
    vault.save_template(template)
    first, second = credential_of(template, 1), credential_of(template, 2)
    vault.save_credential("Ada", second)
    vault.save_credential("Ada", first)
    with pytest.raises(CredentialError, match="stored already"):
        vault.save_credential("Ada", first)
    assert vault.credentials("Ada") == (first, second)
    assert vault.delete_credential("Ada", first.credential_id) == first
    assert vault.credentials("Ada") == (second,)
    for attempt in (vault.delete_credential, lambda _, number: vault.next_counter(number)):
        with pytest.raises(CredentialError, match="unknown credential"):
            attempt("Ada", first.credential_id)


@pytest.mark.parametrize("kind", ["credential", "counter"])
def test_a_damaged_credential_hides_nobody_and_can_be_removed(vault, kind):
    template = make_template()
    vault.save_template(template)
    credentials = {credential_of(template, number) for number in (1, 2, 3)}
    for credential in credentials:
        vault.save_credential("Ada", credential)
    assert vault.damaged_credentials("Ada") == vault.delete_damaged_credentials("Ada") == 0
    path = next(vault.folder.glob(f"users/*/{kind}-*"))
    damage(path)
    (ada,) = vault.list_users()
    assert ada == vault.show_user("ada") and (ada.name, ada.credential_count) == ("Ada", 2)
    (problem,) = vault.problems()
    assert "'voiceid credentials list' tells whose it is" in problem
    sound = set(vault.credentials("Ada"))
    assert len(sound) == 2 and sound < credentials
    with pytest.raises(VaultError, match="'voiceid credentials list' tells whose it is"):
        vault.contents()
    assert vault.damaged_credentials("Ada") == vault.delete_damaged_credentials("Ada") == 1
    assert vault.problems() == () and set(vault.credentials("Ada")) == sound
    assert set(vault.contents().users[0].credentials) == sound
    assert len(list(vault.folder.glob("users/*/c*"))) == 4


def test_a_damaged_credential_outlasts_no_enrolment_that_is_told_to_go_on(vault):
    template = make_template()
    vault.save_template(template)
    first, second = credential_of(template, 1), credential_of(template, 2)
    vault.save_credential("Ada", first)
    vault.save_credential("Ada", second)
    path = next(vault.folder.glob("users/*/credential-*"))
    path.write_bytes(b"x")
    (sound,) = vault.credentials("Ada")
    anew = make_template(seed=1, user_id=template.user_id)
    assert vault.save_template(anew, replace=True) == (sound,)
    assert vault.credentials("Ada") == () and vault.delete_damaged_credentials("Ada") == 1
    assert vault.problems() == ()


def test_counters_increase_for_each_credential_and_across_openings(vault):
    template = make_template()
    vault.save_template(template)
    first, second = credential_of(template, 1), credential_of(template, 2)
    vault.save_credential("Ada", first)
    vault.save_credential("Ada", second)
    assert [vault.next_counter(first.credential_id) for _ in range(3)] == [1, 2, 3]
    assert reopen(vault).next_counter(first.credential_id) == 4
    assert vault.next_counter(second.credential_id) == 1


def test_a_used_up_counter_is_an_error(vault):
    template = make_template()
    vault.save_template(template)
    vault.save_credential("Ada", credential_of(template))
    (path,) = vault.folder.glob("users/*/counter-*")
    record = Record(FORMAT_VERSION, RecordKind.COUNTER, template.user_id, MAX_COUNTER.to_bytes(4, "big"))
    path.write_bytes(KEYS.seal(record, path.relative_to(vault.folder).as_posix()))
    with pytest.raises(CredentialError, match="used up"):
        vault.next_counter(credential_of(template).credential_id)


def test_deleting_a_user_removes_everything_and_reports_it(vault):
    template, other = make_template("Ada"), make_template("Bob")
    for enrolled in (template, other):
        vault.save_template(enrolled)
    vault.save_credential("Ada", credential_of(template, 1))
    vault.save_credential("Ada", credential_of(template, 2))
    vault.save_lockout("Ada", b"3")
    before = record_files(vault)
    sizes = {path: path.stat().st_size for path in before}
    held = {path: path.open("rb") for path in before}
    contents = {path: stream.read() for path, stream in held.items()}
    report = vault.delete_user("ada")
    assert report.template
    assert report.lockout
    assert report.credentials == (credential_of(template, 1), credential_of(template, 2))
    assert (report.counters, report.unreadable, report.files) == (2, 0, 6)
    gone = set(before) - set(record_files(vault))
    assert report.bytes_overwritten == sum(sizes[path] for path in gone)
    assert len(gone) == 6
    for path, stream in held.items():
        stream.seek(0)
        assert (stream.read() == contents[path]) == (path not in gone), f"{path} was not overwritten"
        stream.close()
    for attempt in (vault.load_template, vault.credentials, vault.load_lockout, vault.delete_user):
        with pytest.raises(UnknownUserError, match="not enrolled"):
            attempt("Ada")
    assert [summary.name for summary in vault.list_users()] == ["Bob"]
    assert vault.load_template("Bob").to_bytes() == other.to_bytes()


def test_replacing_a_template_overwrites_the_former_one(vault):
    first = make_template()
    vault.save_template(first)
    with template_file(vault).open("rb") as former:
        content = former.read()
        vault.save_template(make_template(user_id=first.user_id), replace=True)
        former.seek(0)
        assert former.read() != content
    assert list(vault.folder.rglob(".tmp-*")) == []


def test_leftovers_of_a_crash_are_cleared_and_live_records_kept(vault):
    template = make_template()
    vault.save_template(template)
    live = template_file(vault)
    (live.parent / ".tmp-half-written").write_bytes(b"half")
    (live.parent / ".tmp-second-name").hardlink_to(live)
    grave = vault.folder / "users" / ".tmp-grave"
    grave.mkdir()
    (grave / "template").write_bytes(b"of a user half deleted")
    again = reopen(vault)
    assert list(vault.folder.rglob(".tmp-*")) == []
    assert again.load_template("Ada").to_bytes() == template.to_bytes()


def test_a_wrong_device_key_is_told_from_damage(vault):
    vault.save_template(make_template())
    with pytest.raises(VaultError, match="another device key"):
        reopen(vault, OTHER_KEY)
    header = vault.folder / "format"
    header.write_bytes(header.read_bytes()[:10] + b"\xff" + header.read_bytes()[11:])
    with pytest.raises(VaultError, match="format: damaged"):
        reopen(vault)


def test_every_damaged_byte_of_a_record_is_noticed(vault):
    template = make_template(dimension=8, count=1)
    vault.save_template(template)
    path = template_file(vault)
    good = path.read_bytes()
    for position in range(len(good)):
        path.write_bytes(good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :])
        with pytest.raises(VaultError):
            vault.load_template("Ada")
    for damaged in (b"", good[:-1], good[: len(good) // 2], good + b"\0", os.urandom(len(good))):
        path.write_bytes(damaged)
        with pytest.raises(VaultError):
            vault.load_template("Ada")
    assert len(vault.problems()) == 1
    assert vault.list_users() == ()
    report = vault.delete_user("Ada")
    assert (report.unreadable, report.files) == (1, 1)


def test_a_record_moved_to_another_place_does_not_open(vault):
    for name in ("Ada", "Bob"):
        template = make_template(name)
        vault.save_template(template)
        for number in (1, 2):
            vault.save_credential(name, credential_of(template, number + 2 * (name == "Bob")))
    first, second = sorted(vault.folder.glob("users/*/template"))
    shutil.copy(first, second)
    assert len(vault.problems()) == 1
    counters = sorted(vault.folder.glob("users/*/counter-*"))
    shutil.copy(counters[0], counters[1])
    assert len(vault.problems()) == 2


@pytest.mark.parametrize("where", ["vault", "record"])
def test_a_newer_version_is_refused_and_left_alone(vault, where):
    vault.save_template(make_template())
    if where == "vault":
        (vault.folder / "format").write_bytes(vault_header(FORMAT_VERSION + 1, KEYS.check))
    else:
        path = template_file(vault)
        path.write_bytes(path.read_bytes()[:4] + bytes([FORMAT_VERSION + 1]) + path.read_bytes()[5:])
    before = {path: path.read_bytes() for path in record_files(vault)}
    with pytest.raises(VaultError, match=r"newer than this voiceid.*upgrade"):
        reopen(vault).load_template("Ada")
    assert {path: path.read_bytes() for path in record_files(vault)} == before


def downgrade(vault):
    """Turn ``vault`` into what version 1 wrote."""
    for path in record_files(vault):
        place = path.relative_to(vault.folder).as_posix()
        if path.name == "format":
            path.write_bytes(vault_header(1, KEYS.check))
        elif path.name != "lock":
            record = KEYS.unseal(path.read_bytes(), place)
            payload = record.payload
            if record.kind is RecordKind.TEMPLATE:
                table = cbor.decode(payload, where="", error=VaultError)
                del table["owner_uid"]
                payload = cbor.encode(table)
            path.write_bytes(KEYS.seal(Record(1, record.kind, record.user_id, payload), place))


def test_a_vault_of_version_1_is_migrated(vault):
    template = make_template(owner_uid=4321)
    vault.save_template(template)
    vault.save_credential("Ada", credential_of(template))
    vault.next_counter(credential_of(template).credential_id)
    downgrade(vault)
    migrated = reopen(vault)
    loaded = migrated.load_template("Ada")
    assert loaded.owner_uid == vault.folder.stat().st_uid != 4321
    assert (loaded.frozen_features, loaded.enrolment_id) == (template.frozen_features, template.enrolment_id)
    assert migrated.credentials("Ada") == (credential_of(template),)
    assert migrated.next_counter(credential_of(template).credential_id) == 2
    assert (vault.folder / "format").read_bytes() == vault_header(FORMAT_VERSION, KEYS.check)
    versions = {path.read_bytes()[4] for path in record_files(vault) if path.name not in ("format", "lock")}
    assert versions == {FORMAT_VERSION}


def test_a_template_of_version_2_is_stamped_anew_and_measures_nothing(vault):
    vault.save_template(make_template())
    path = template_file(vault)
    place = path.relative_to(vault.folder).as_posix()
    record = KEYS.unseal(path.read_bytes(), place)
    path.write_bytes(KEYS.seal(Record(2, record.kind, record.user_id, record.payload), place))
    (vault.folder / "format").write_bytes(vault_header(2, KEYS.check))
    loaded = reopen(vault).load_template("Ada")
    assert loaded.known_baselines == ()
    assert loaded.to_bytes() == record.payload
    assert path.read_bytes()[4] == FORMAT_VERSION == 3


def test_an_interrupted_migration_goes_on(vault):
    for name in ("Ada", "Bob"):
        vault.save_template(make_template(name))
    downgrade(vault)
    current = next(iter(vault.folder.glob("users/*/template")))
    old = {path: path.read_bytes() for path in record_files(vault)}
    reopen(vault)
    for path, content in old.items():
        if path != current:
            path.write_bytes(content)
    assert {summary.name for summary in reopen(vault).list_users()} == {"Ada", "Bob"}


def test_no_vault_and_foreign_folders_are_refused(tmp_path):
    with pytest.raises(VaultError, match="enrol somebody first"):
        Vault.open(tmp_path / "nothing", DEVICE_KEY)
    assert not (tmp_path / "nothing").exists()
    tmp_path.chmod(0o755)
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(VaultError, match="not empty"):
        Vault.open(tmp_path, DEVICE_KEY, create=True)
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_a_vault_without_its_format_file_is_not_begun_anew(vault):
    vault.save_template(make_template())
    before = {path: path.read_bytes() for path in record_files(vault)}
    (vault.folder / "format").rename(vault.folder / ".format-elsewhere")
    paths = PathSettings(vault=vault.folder)
    for attempt in (lambda: Vault.open(vault.folder, DEVICE_KEY, create=True), lambda: open_vault(paths, create=True)):
        with pytest.raises(VaultError, match="restore that file"):
            attempt()
    assert not (vault.folder / "device.key").exists()
    (vault.folder / ".format-elsewhere").rename(vault.folder / "format")
    assert {path: path.read_bytes() for path in record_files(vault)} == before
    assert reopen(vault).load_template("Ada").name == "Ada"


def test_names_that_cannot_be_users_are_enrolment_errors(vault):
    for name in ("../Ada", "Ada\n", "😀", ""):
        with pytest.raises(EnrolmentError):
            vault.load_template(name)
    with pytest.raises(CredentialError, match="relying party id"):
        vault.set_privacy_profile("not a domain", PrivacyProfile())


def test_two_processes_may_begin_a_vault_at_once(tmp_path, monkeypatch):
    paths = PathSettings(vault=tmp_path / "vault")

    def lose_the_race(path):
        create_device_key(path)
        return create_device_key(path)

    monkeypatch.setattr("voiceid.enrolment.opening.create_device_key", lose_the_race)
    vault, _ = open_vault(paths, create=True)
    assert vault.list_users() == ()


def test_open_vault_makes_a_key_once_and_never_for_an_existing_vault(tmp_path, monkeypatch):
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    paths = PathSettings(vault=tmp_path / "vault")
    with pytest.raises(VaultError, match="enrol somebody first"):
        open_vault(paths)
    vault, _ = open_vault(paths, create=True)
    vault.save_template(make_template())
    assert open_vault(paths, create=True)[0].load_template("Ada").name == "Ada"
    (paths.vault / "device.key").unlink()
    with pytest.raises(CredentialError, match="no device key here"):
        open_vault(paths, create=True)
    elsewhere = PathSettings(vault=tmp_path / "second", device_key=tmp_path / "keys" / "device.key")
    open_vault(elsewhere, create=True)
    assert (tmp_path / "keys" / "device.key").stat().st_mode & 0o777 == 0o600
    assert not (paths.vault / "device.key").exists()


def test_a_record_too_large_to_be_read_again_is_not_written(vault):
    vault.save_template(make_template())
    with pytest.raises(VaultError, match="too many for a record"):
        vault.save_lockout("Ada", bytes(2**20))
    assert vault.load_lockout("Ada") is None


def test_os_errors_are_told_in_words(tmp_path):
    for number, words in ((errno.ENOSPC, "disk full"), (errno.EDQUOT, "disk full"), (errno.EROFS, "read-only")):
        with pytest.raises(VaultError, match=words), files.explain(tmp_path):
            raise OSError(number, os.strerror(number))
