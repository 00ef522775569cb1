"""The vault on full and read-only disks, between processes, and killed at random moments."""

import fcntl
import itertools
import os
import random
import resource
import subprocess

import pytest

from tests.fault_helpers import FORK, killed, killed_before_step
from tests.vault_helpers import DEVICE_KEY, make_template
from voiceid.credentials.credential import Credential
from voiceid.enrolment import files
from voiceid.enrolment.opening import open_vault
from voiceid.enrolment.vault import Vault
from voiceid.errors import VaultError, VoiceIdError
from voiceid.settings import PathSettings


@pytest.fixture
def vault(tmp_path):
    return Vault.open(tmp_path / "vault", DEVICE_KEY, create=True)


def in_child(function, *arguments):
    """Run ``function`` in a process of its own; returns what it returned, or the text of its voiceid error."""

    def run(queue):
        try:
            queue.put(function(*arguments))
        except VoiceIdError as error:
            queue.put(str(error))

    queue = FORK.Queue()
    child = FORK.Process(target=run, args=(queue,))
    child.start()
    answer = queue.get(timeout=20)
    child.join()
    return answer


def enrol_with_credential(vault, dimension=64):
    template = make_template(dimension=dimension)
    vault.save_template(template)
    credential = Credential(b"c" * 40, "shop.example.org", b"handle", template.enrolment_id, b"key", 1)
    vault.save_credential("Ada", credential)
    return template, credential


def test_a_full_disk_keeps_the_old_record(tmpfs):
    vault = Vault.open(tmpfs / "vault", DEVICE_KEY, create=True)
    template, credential = enrol_with_credential(vault)
    assert vault.next_counter(credential.credential_id) == 1
    with (tmpfs / "ballast").open("wb") as ballast, pytest.raises(OSError, match="No space left"):
        while True:
            os.write(ballast.fileno(), b"\0" * 4096)
    for attempt in (
        vault.check_writable,
        lambda: vault.save_template(template.adapted(make_template(count=40).utterances), replace=True),
        lambda: vault.next_counter(credential.credential_id),
        lambda: vault.save_lockout("Ada", b"state"),
        lambda: vault.save_template(make_template("Bob")),
    ):
        with pytest.raises(VaultError, match=r"disk full.*nothing was lost"):
            attempt()
    assert list(vault.folder.rglob(".tmp-*")) == []
    again = Vault.open(vault.folder, DEVICE_KEY)
    assert again.load_template("Ada").to_bytes() == template.to_bytes()
    assert [user.name for user in again.list_users()] == ["Ada"]
    (tmpfs / "ballast").unlink()
    assert again.next_counter(credential.credential_id) == 2


def test_a_vault_begun_on_a_full_disk_can_be_begun_again(tmpfs, monkeypatch):
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    paths = PathSettings(vault=tmpfs / "vault")
    (tmpfs / "spare").write_bytes(bytes(4096))
    with (tmpfs / "ballast").open("wb") as ballast, pytest.raises(OSError, match="No space left"):
        while True:
            os.write(ballast.fileno(), b"\0" * 4096)
    with pytest.raises(VoiceIdError, match=r"No space left|disk full"):
        open_vault(paths, create=True)
    (tmpfs / "spare").unlink()
    with pytest.raises(VoiceIdError, match=r"No space left|disk full"):
        open_vault(paths, create=True)
    (tmpfs / "ballast").unlink()
    vault, _ = open_vault(paths, create=True)
    enrol_with_credential(vault)
    assert open_vault(paths)[0].load_template("Ada").name == "Ada"


def test_a_write_cut_short_by_the_kernel_keeps_the_old_record(vault):
    template, _ = enrol_with_credential(vault)

    def save_large():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
        vault.save_template(template.adapted(make_template(count=40).utterances), replace=True)

    assert "disk full" in in_child(save_large)
    assert vault.load_template("Ada").to_bytes() == template.to_bytes()
    assert list(vault.folder.rglob(".tmp-*")) == []


def _as_nobody(folder, action):
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    return action(Vault.open(folder, DEVICE_KEY))


@pytest.fixture
def read_only_vault(vault, tmp_path):
    """A sound vault whose folders may not be written, even where the tests run as root."""
    template, _ = enrol_with_credential(vault)
    folders = [vault.folder, *(path for path in vault.folder.rglob("*") if path.is_dir())]
    if os.geteuid() == 0:
        for path in [*folders, *vault.folder.rglob("*")]:
            os.chown(path, 65534, 65534)
        for parent in vault.folder.parents[:3]:
            if parent != tmp_path.parents[2]:
                parent.chmod(0o755)
    for folder in folders:
        folder.chmod(0o500)
    yield vault.folder, template
    for folder in folders:
        folder.chmod(0o700)


def test_a_read_only_vault_can_be_read_and_says_so_when_written(read_only_vault):
    folder, template = read_only_vault

    assert in_child(_as_nobody, folder, lambda vault: vault.load_template("Ada").to_bytes()) == template.to_bytes()
    written = in_child(_as_nobody, folder, lambda vault: vault.save_lockout("Ada", b"1"))
    assert "read-only" in written
    assert "read-only" in in_child(_as_nobody, folder, lambda vault: vault.next_counter(b"c" * 40))


def test_a_read_only_file_system_can_be_read(tmpfs):
    vault = Vault.open(tmpfs / "vault", DEVICE_KEY, create=True)
    template, credential = enrol_with_credential(vault)
    subprocess.run(["mount", "-o", "remount,ro", tmpfs], check=True)
    again = Vault.open(vault.folder, DEVICE_KEY)
    assert again.load_template("Ada").to_bytes() == template.to_bytes()
    for attempt in (lambda: again.next_counter(credential.credential_id), lambda: again.delete_user("Ada")):
        with pytest.raises(VaultError, match="read-only"):
            attempt()


def test_a_lock_held_elsewhere_is_waited_for_and_then_an_error(tmp_path):
    lock = tmp_path / "lock"
    with lock.open("w") as holder:
        fcntl.flock(holder, fcntl.LOCK_SH)
        with files.locked(lock, exclusive=False, timeout=0.05):
            pass
        with pytest.raises(VaultError, match="another process"), files.locked(lock, exclusive=True, timeout=0.05):
            pass
    with files.locked(lock, exclusive=True, timeout=0.05):
        pass


def _count(folder, credential_id, times, queue):
    vault = Vault.open(folder, DEVICE_KEY)
    queue.put([vault.next_counter(credential_id) for _ in range(times)])


def test_processes_never_get_the_same_counter(vault):
    _, credential = enrol_with_credential(vault)
    queue = FORK.Queue()
    workers = [FORK.Process(target=_count, args=(vault.folder, credential.credential_id, 40, queue)) for _ in range(4)]
    for worker in workers:
        worker.start()
    runs = [queue.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert all(run == sorted(run) for run in runs)
    assert sorted(value for run in runs for value in run) == list(range(1, 161))


def _enrol_and_count_forever(report, folder, former, credential_id):
    vault = Vault.open(folder, DEVICE_KEY)
    seed = random.Random()
    while True:
        report(vault.next_counter(credential_id))
        vectors = make_template(seed=seed.randrange(10**6), count=seed.randrange(1, 30)).utterances
        vault.save_template(former.adapted(vectors), replace=True)


def test_kill_9_at_random_moments_loses_nothing(vault):
    template, credential = enrol_with_credential(vault)
    moments = random.Random(7)
    last = 0
    for _ in range(50):
        arguments = (vault.folder, template, credential.credential_id)
        reported = killed(moments.uniform(0.0, 0.03), _enrol_and_count_forever, *arguments)
        assert reported == sorted(set(reported))
        assert reported[0] > last
        again = Vault.open(vault.folder, DEVICE_KEY)
        assert again.load_template("Ada").frozen_features == template.frozen_features
        assert again.problems() == ()
        assert list(vault.folder.rglob(".tmp-*")) == []
        last = again.next_counter(credential.credential_id)
        assert last > reported[-1]


def _replace_and_count(folder, template, credential_id):
    vault = Vault.open(folder, DEVICE_KEY)
    vault.next_counter(credential_id)
    vault.save_template(template, replace=True)
    vault.next_counter(credential_id)


def test_kill_9_before_any_step_of_a_counter_or_an_enrolment_loses_nothing(vault):
    template, credential = enrol_with_credential(vault)
    other, last = template.adapted(make_template(seed=5).utterances), 0
    for number in itertools.count(1):
        ended = not killed_before_step(number, _replace_and_count, vault.folder, other, credential.credential_id)
        again = Vault.open(vault.folder, DEVICE_KEY)
        assert again.problems() == ()
        assert again.load_template("Ada").to_bytes() in (template.to_bytes(), other.to_bytes())
        counter = again.next_counter(credential.credential_id)
        assert last < counter <= last + 3
        last = counter
        if ended:
            break
        again.save_template(template, replace=True)
    assert number > 6, "three records are written, each is synchronised and put into its place"
    assert again.load_template("Ada").to_bytes() == other.to_bytes()


def _delete(report, folder, name):
    vault = Vault.open(folder, DEVICE_KEY)
    report(1)
    vault.delete_user(name)


def test_kill_9_in_a_deletion_leaves_the_user_whole_or_gone(vault):
    vault.save_template(make_template("Bob"))
    moments = random.Random(13)
    for _ in range(25):
        if "Ada" not in {user.name for user in vault.list_users()}:
            _, credential = enrol_with_credential(vault)
        killed(moments.uniform(0.0, 0.01), _delete, vault.folder, "Ada")
        again = Vault.open(vault.folder, DEVICE_KEY)
        assert again.problems() == ()
        names = [user.name for user in again.list_users()]
        if "Ada" in names:
            assert again.credentials("Ada") == (credential,)
        else:
            assert names == ["Bob"]
            assert len(list(vault.folder.glob("users/*"))) == 1


def _enrol(report, folder, name):
    vault, template = Vault.open(folder, DEVICE_KEY), make_template(name, count=30)
    report(1)
    vault.save_template(template)


def test_kill_9_in_a_first_enrolment_leaves_the_user_enrolled_or_not(vault):
    template = make_template()
    vault.save_template(template)
    moments = random.Random(11)
    for number in range(25):
        name = f"user{number}"
        killed(moments.uniform(0.0, 0.01), _enrol, vault.folder, name)
        again = Vault.open(vault.folder, DEVICE_KEY)
        assert again.problems() == ()
        assert again.load_template("Ada").to_bytes() == template.to_bytes()
        if name not in {user.name for user in again.list_users()}:
            again.save_template(make_template(name))
        assert again.load_template(name).name == name


@pytest.mark.skipif(os.geteuid() != 0, reason="only root works on the vaults of others")
@pytest.mark.parametrize(
    ("place", "to_folder"), [(".tmp-1", False), (".tmp-1", True), (".rotation", True), ("users/{user}/more", True)]
)
def test_links_planted_in_a_vault_lead_root_nowhere(vault, tmp_path, place, to_folder):
    enrol_with_credential(vault)
    (user,) = (path.name for path in (vault.folder / "users").iterdir())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    precious = elsewhere / "precious"
    precious.write_text("precious")
    link = vault.folder / place.format(user=user)
    link.symlink_to(elsewhere if to_folder else precious)
    Vault.open(vault.folder, DEVICE_KEY).delete_user("Ada")
    assert precious.read_text() == "precious" and not link.is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root works on the vaults of others")
def test_a_folder_that_another_user_linked_elsewhere_is_refused(vault, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    (vault.folder / "relying-parties").rmdir()
    (vault.folder / "relying-parties").symlink_to(elsewhere)
    os.chown(vault.folder / "relying-parties", 65534, 65534, follow_symlinks=False)
    with pytest.raises(VaultError, match="a symbolic link of uid 65534"):
        Vault.open(vault.folder, DEVICE_KEY)
    assert elsewhere.stat().st_mode & 0o777 == 0o755
