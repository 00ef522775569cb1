"""Bad input: each kind gives its exit code and one clear line, and changes nothing."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from tests.cli_helpers import need_shipped_models, voiceid, write_nan, write_sparse_hour
from tests.vault_helpers import NONCE, RP, accepted, damage, make_template
from voiceid.audio import read_waveform
from voiceid.cli.exit_codes import ExitCode
from voiceid.credentials.authenticator import Authenticator
from voiceid.credentials.keys import create_device_key, load_device_key
from voiceid.enrolment.vault import Vault
from voiceid.wall_clock import show_moment

COMMANDS = {
    "verify": ("verify", "ada"),
    "identify": ("identify",),
    "enroll": ("enroll", "ada"),
    "authenticate": (
        "authenticate",
        "ada",
        "--relying-party",
        "shop.example.org",
        "--challenge",
        "A" * 32,
        "-o",
        "out",
    ),
    "explain": ("explain",),
    "units": ("units",),
    "benchmark": ("benchmark", "--quick"),
}


@pytest.fixture
def files(tmp_path: Path, speech: Path) -> dict[str, Path]:
    made = {
        "empty": tmp_path / "empty.wav",
        "cut": tmp_path / "cut.flac",
        "text": tmp_path / "text.wav",
        "no samples": tmp_path / "none.wav",
    }
    made["empty"].write_bytes(b"")
    made["cut"].write_bytes(speech.read_bytes()[:40])
    made["text"].write_text("This is no audio at all.\n" * 100)
    soundfile.write(made["no samples"], np.zeros(0, np.float32), 16_000)
    made["nan"] = write_nan(tmp_path / "nan.wav")
    made["hour"] = write_sparse_hour(tmp_path / "hour.wav")
    made["missing"] = tmp_path / "missing.wav"
    made["folder"] = tmp_path
    made["long"] = tmp_path / ("x" * 256)
    return made


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("empty", "not readable as audio"),
        ("cut", "use WAV, FLAC, OGG or MP3"),
        ("text", "not readable as audio"),
        ("no samples", "holds no samples"),
        ("nan", "NaN or infinite"),
        ("hour", "3600 s long; cut it"),
        ("missing", "no such audio file"),
        ("folder", "is a folder; name the recordings, as"),
        ("long", "File name too long"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_unusable_audio_stops_every_command_before_anything_is_stored(
    tmp_path: Path, files: dict[str, Path], kind: str, message: str, command: str
) -> None:
    vault = tmp_path / "vault"
    output = tmp_path / "envelope"
    arguments = [output if argument == "OUT" else argument for argument in COMMANDS[command]]
    ran = voiceid(*arguments, files[kind], "--vault", vault, "--json")
    assert ran.code is ExitCode.AUDIO and ran.out == ""
    assert message in ran.error["message"] and str(files[kind]) in ran.error["message"]
    assert not vault.exists() and not output.exists()


def test_a_recording_that_is_cut_short_is_read_with_a_warning(tmp_path: Path, speech: Path) -> None:
    samples = read_waveform(speech).samples[:64_000]
    whole, cut, piped = tmp_path / "whole.wav", tmp_path / "cut.wav", tmp_path / "piped.wav"
    soundfile.write(whole, samples, 16_000)
    data = whole.read_bytes()
    cut.write_bytes(data[: 44 + 2 * 40_000])
    piped.write_bytes(data[:40] + b"\xff\xff\xff\xff" + data[44:])
    warning = f"warning: {cut}: cut short: 2.5 s read of the 4.0 s that its header promises"
    for command in (("units", "--force"), ("explain",), ("verify", "ada"), ("enroll", "ada")):
        for file in (whole, cut, piped):
            ran = voiceid(*command, file, "--vault", tmp_path / "vault")
            assert (warning in ran.err) == (file == cut) == ("cut short" in ran.err)


@pytest.mark.parametrize(("rate", "channels"), [(8_000, 1), (192_000, 1), (48_000, 8)])
def test_other_rates_and_channel_counts_are_judged(tmp_path: Path, speech: Path, rate: int, channels: int) -> None:
    need_shipped_models()
    samples = soxr.resample(read_waveform(speech).samples, 16_000, rate)
    file = tmp_path / "speech.wav"
    soundfile.write(file, np.tile(samples[:, None], (1, channels)), rate)
    ran = voiceid("explain", file, "--json")
    assert ran.code is ExitCode.ACCEPTED
    assert ran.json["quality"]["faults"] == [] and ran.json["evidence"] is not None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../../etc/passwd", "path separator"),
        ("a\\b", "path separator"),
        ("a\x1b[31mb", "control character"),
        ("ada\n", "control character"),
        ("\u202eada", "formatting character"),
        ("ada\N{GRINNING FACE}", "emoji or symbol"),
        ("a" * 65, "65 characters"),
        (" ada", "must start with"),
    ],
)
def test_unusable_user_names(tmp_path: Path, speech: Path, name: str, message: str) -> None:
    vault = tmp_path / "vault"
    ran = voiceid("enroll", "--vault", vault, "--", name, speech)
    assert ran.code is ExitCode.ENROLMENT and message in ran.err
    assert len(ran.err.strip().splitlines()) == 1 and "\x1b" not in ran.err
    assert not vault.exists()


@pytest.mark.parametrize("command", [("verify",), ("enroll",), ("authenticate", *COMMANDS["authenticate"][2:])])
def test_a_forgotten_user_name(tmp_path: Path, speech: Path, command: tuple[str, ...]) -> None:
    ran = voiceid(command[0], speech, speech, *command[1:], "--vault", tmp_path / "vault")
    alone = voiceid(command[0], speech, *command[1:], "--vault", tmp_path / "vault")
    for said in (ran, alone):
        assert said.code is ExitCode.USAGE and f"'{speech}' is a file; the user's name comes first" in said.err
    assert not (tmp_path / "vault").exists()


@pytest.mark.parametrize("command", [("users", "list"), ("enroll", "ada")])
def test_a_vault_that_is_a_file(tmp_path: Path, speech: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "file").write_text("not a vault")
    files = [speech] if command[0] == "enroll" else []
    ran = voiceid(*command, *files, "--vault", tmp_path / "file")
    assert ran.code is ExitCode.VAULT and f"{tmp_path / 'file'}: is not a folder" in ran.err
    assert (tmp_path / "file").read_text() == "not a vault"


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir(mode=0o700)
    Vault.open(folder, create_device_key(folder / "device.key"), create=True).save_template(make_template("ada"))
    return folder


def test_another_device_key(vault: Path) -> None:
    (vault / "device.key").unlink()
    create_device_key(vault / "device.key")
    ran = voiceid("users", "list", "--vault", vault, "--json")
    assert ran.code is ExitCode.VAULT and "another device key" in ran.error["message"]


def test_a_device_key_that_others_can_read(vault: Path) -> None:
    (vault / "device.key").chmod(0o640)
    ran = voiceid("users", "list", "--vault", vault)
    assert ran.code is ExitCode.CREDENTIAL and "chmod 600" in ran.err


def test_a_vault_of_a_newer_version(vault: Path) -> None:
    import hashlib

    header = (vault / "format").read_bytes()
    body = header[:4] + (99).to_bytes(2, "big") + header[6:-8]
    (vault / "format").write_bytes(body + hashlib.sha256(body).digest()[:8])
    ran = voiceid("users", "list", "--vault", vault, "--json")
    assert ran.code is ExitCode.VAULT and "newer" in ran.error["message"]


def test_a_damaged_record_is_told_and_can_be_deleted(vault: Path) -> None:
    template = next(vault.glob("users/*/template"))
    damage(template)
    listed = voiceid("users", "list", "--vault", vault, "--json")
    assert listed.code is ExitCode.ACCEPTED and listed.json == [] and "damaged" in listed.err
    assert voiceid("users", "show", "ada", "--vault", vault).code is ExitCode.VAULT
    deleted = voiceid("users", "delete", "ada", "--yes", "--vault", vault, "--json")
    assert deleted.code is ExitCode.ACCEPTED and deleted.json["template"] is True
    assert list(vault.glob("users/*")) == []


def test_a_damaged_credential_is_told_with_the_command_that_removes_it(vault: Path) -> None:
    opened, key = Vault.open(vault, load_device_key(vault / "device.key")), load_device_key(vault / "device.key")
    authenticator = Authenticator(opened, key)
    for party in (RP, "bank.example.org"):
        authenticator.register("ada", rp_id=party, challenge=NONCE, decision=accepted("ada"))
    path = next(vault.glob("users/*/credential-*"))
    damage(path)
    options = ("--vault", vault, "--json")
    listed = voiceid("credentials", "list", *options)
    assert listed.code is ExitCode.ACCEPTED and len(listed.json) == 1
    assert "1 credentials of 'ada' cannot be read; 'voiceid credentials revoke ada --damaged' removes" in listed.err
    (shown,) = voiceid("users", "list", *options).json
    assert voiceid("users", "show", "ada", *options).json == {**shown, "credentials": listed.json}
    assert shown["credential_count"] == 1 and isinstance(shown["created"], int)
    for wrong in ((), ("A" * 60, "--damaged")):
        assert voiceid("credentials", "revoke", "ada", *wrong, *options).code is ExitCode.USAGE
    assert voiceid("credentials", "revoke", "ada", "--damaged", *options, stdin="n\n").code is ExitCode.DECLINED
    removed = voiceid("credentials", "revoke", "ada", "--damaged", "--yes", *options)
    assert removed.json == {"name": "ada", "removed": 1}
    after = voiceid("credentials", "list", *options)
    assert after.json == listed.json and after.err == ""


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a tmpfs needs root and mount(8)")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("no tmpfs here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk(tiny_disk: Path, vault: Path) -> None:
    shutil.copytree(vault, tiny_disk / "vault")
    (tiny_disk / "filler").write_bytes(b"x")
    with (tiny_disk / "filler").open("wb", buffering=0) as filler:
        try:
            while filler.write(bytes(1024)):
                pass
        except OSError:
            pass
    full = tiny_disk / "vault"
    ran = voiceid("privacy", "set", "shop.example.org", "--codebook", "50", "--vault", full, "--json")
    assert ran.code is ExitCode.VAULT and "space" in ran.error["message"].lower()
    assert voiceid("users", "list", "--vault", full, "--json").json[0]["name"] == "ada"


def test_deleting_asks_and_takes_no_for_an_answer(vault: Path) -> None:
    ran = voiceid("users", "delete", "ada", "--vault", vault, stdin="n\n")
    assert ran.code is ExitCode.DECLINED
    assert voiceid("users", "delete", "ada", "--vault", vault).code is ExitCode.DECLINED
    assert voiceid("users", "list", "--vault", vault, "--json").json[0]["name"] == "ada"


@pytest.mark.parametrize("challenge", ["short", "not*base64*at*all*not*base64*at*all"])
def test_unusable_challenges(tmp_path: Path, speech: Path, challenge: str) -> None:
    arguments = ("--relying-party", "shop.example.org", "--challenge", challenge, "-o", tmp_path / "envelope")
    ran = voiceid("authenticate", "ada", speech, *arguments)
    assert ran.code is ExitCode.USAGE and "--challenge" in ran.err


def test_a_credential_id_may_begin_with_a_hyphen(vault: Path) -> None:
    for identifier in ("-S" + "A" * 60, "-h" + "y" * 60, "--" + "A" * 60):
        for arguments in (("ada", identifier, "--yes"), ("--yes", "ada", "--", identifier)):
            ran = voiceid("--vault", vault, "credentials", "revoke", *arguments)
            assert ran.code is ExitCode.CREDENTIAL, ran.err
    ran = voiceid("credentials", "revoke", "ada", "A" * 60, "--colour", "--vault", vault)
    assert ran.code is ExitCode.USAGE and "--colour" in ran.err
    assert voiceid("credentials", "revoke", "--help").code is ExitCode.ACCEPTED


def test_a_credential_is_looked_up_before_it_is_asked_about_and_by_its_first_characters(vault: Path) -> None:
    key = load_device_key(vault / "device.key")
    authenticator = Authenticator(Vault.open(vault, key), key)
    for party in (RP, "bank.example.org"):
        authenticator.register("ada", rp_id=party, challenge=NONCE, decision=accepted("ada"))
    options = ("--vault", vault)
    rows = voiceid("credentials", "list", *options, "--json").json
    shown = voiceid("credentials", "list", *options).out
    assert all(show_moment(row["created"]) in shown for row in rows)
    first, second = (row["credential_id"] for row in rows)
    start = next(first[:length] for length in range(6, len(first)) if not second.startswith(first[:length]))
    revoke = ("credentials", "revoke", *options, "ada", "--")
    for wrong, code, message in (
        (first[:5], ExitCode.USAGE, "6 or more"),
        ("not*base64", ExitCode.USAGE, "no credential id"),
        ("".join(sorted(first[:12], reverse=True)) + "A" * 48, ExitCode.CREDENTIAL, "'ada' has no credential"),
    ):
        ran = voiceid(*revoke, wrong)
        assert ran.code is code and message in ran.err and "for good?" not in ran.err
    declined = voiceid(*revoke, start, stdin="n\n")
    assert declined.code is ExitCode.DECLINED and f"at {rows[0]['relying_party']} (since" in declined.err
    assert voiceid("--json", *revoke, start, stdin="y\n").json["credential_id"] == first
    assert [row["credential_id"] for row in voiceid("credentials", "list", *options, "--json").json] == [second]


def test_unusable_privacy_profiles(vault: Path) -> None:
    for options in (("--codebook", "64"), ("--keep-runs", "--durations")):
        assert voiceid("privacy", "set", "shop.example.org", *options, "--vault", vault).code is ExitCode.USAGE
    assert voiceid("privacy", "set", "Not A Domain", "--codebook", "50", "--vault", vault).code is ExitCode.CREDENTIAL
    assert voiceid("privacy", "show", "--vault", vault, "--json").json == {}


def test_file_names_need_not_be_utf8(tmp_path: Path, speech: Path) -> None:
    need_shipped_models()
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.flac"))
    shutil.copy(speech, file)
    ran = voiceid("enroll", "ada", file, "--vault", tmp_path / "vault", "--json")
    assert ran.code is ExitCode.ENROLMENT and ran.json["utterances"][0]["source"] == str(file)
    assert voiceid("users", "list", "--vault", file).code is ExitCode.VAULT


def test_a_picture_of_an_unknown_kind_is_a_wrong_option(tmp_path: Path, speech: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra voiceid[plot] is not installed")
    for name in ("picture.xyz", "."):
        ran = voiceid("explain", speech, "--plot", tmp_path / name)
        assert ran.code is ExitCode.USAGE and ".png" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("authenticate", "ada", "x.wav", "--credential", ""),
        ("authenticate", "ada", "x.wav", "-o", ""),
        ("authenticate", "ada", "x.wav", "--purpose="),
        ("credentials", "register", "ada", "x.wav", "--user-handle", ""),
        ("users", "list", "--vault", ""),
        ("config", "show", "--config="),
        ("verify", "", "x.wav"),
    ],
)
def test_what_is_empty_is_not_taken_for_what_was_not_given(arguments: tuple[str, ...]) -> None:
    ran = voiceid(*arguments, "--json")
    option = next((a.rstrip("=") for a in reversed(arguments) if a.startswith("-")), "an argument")
    assert ran.code is ExitCode.USAGE and f"{option} is empty" in ran.error["message"]


@pytest.fixture
def no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever loads models fails with code 22."""
    (tmp_path / "no-models").mkdir()
    monkeypatch.setenv("VOICEID_MODELS", str(tmp_path / "no-models"))


@pytest.fixture
def registered(vault: Path) -> Path:
    """The vault with a credential of Ada's in it."""
    key = load_device_key(vault / "device.key")
    authenticator = Authenticator(Vault.open(vault, key), key)
    authenticator.register("ada", rp_id=RP, challenge=NONCE, decision=accepted("ada"))
    return vault


REQUEST = ("ada", "--relying-party", RP, "--challenge", "A" * 32)


@pytest.mark.usefixtures("no_models")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("authenticate", *REQUEST, "--purpose", "pay\n"), ExitCode.ENVELOPE),
        (("authenticate", *REQUEST, "--challenge", "A" * 1400), ExitCode.ENVELOPE),
        (("authenticate", *REQUEST, "--relying-party", "Shop"), ExitCode.CREDENTIAL),
        (("authenticate", *REQUEST, "--credential", "A" * 32), ExitCode.CREDENTIAL),
        (("authenticate", *REQUEST, "-o", "/no/where"), ExitCode.SYSTEM),
        (("authenticate", *REQUEST, "-o", "/"), ExitCode.SYSTEM),
        (("authenticate", *REQUEST, "-o", "/proc/version/x"), ExitCode.SYSTEM),
        (("authenticate", *REQUEST, "-o", "x" * 256), ExitCode.SYSTEM),
        (("authenticate", *REQUEST), ExitCode.MODEL),
        (("credentials", "register", *REQUEST, "--relying-party", "Shop"), ExitCode.CREDENTIAL),
        (("credentials", "register", *REQUEST, "--user-handle", "A" * 100), ExitCode.CREDENTIAL),
        (("credentials", "register", *REQUEST, "-o", "/no/where"), ExitCode.SYSTEM),
        (("credentials", "register", *REQUEST), ExitCode.CREDENTIAL),
        (("credentials", "register", *REQUEST, "--another"), ExitCode.MODEL),
    ],
)
def test_a_request_is_checked_before_models_are_loaded(
    registered: Path, speech: Path, tmp_path: Path, arguments: tuple[str, ...], code: ExitCode
) -> None:
    output = () if "-o" in arguments or arguments[0] != "authenticate" else ("-o", tmp_path / "out")
    ran = voiceid(*arguments, speech, *output, "--vault", registered, "--json")
    assert ran.code is code and ran.out == ""


@pytest.mark.usefixtures("no_models")
def test_a_read_only_vault_is_told_before_models_are_loaded(tiny_disk: Path, registered: Path, speech: Path) -> None:
    folder = tiny_disk / "vault"
    shutil.copytree(registered, folder)
    subprocess.run(["mount", "-o", "remount,ro", tiny_disk], check=True)
    for command in (
        ("enroll", "bob"),
        ("users", "reenroll", "ada", "--yes"),
        ("credentials", "register", *REQUEST),
        ("authenticate", *REQUEST, "-o", "/dev/null"),
    ):
        ran = voiceid(*command, speech, "--vault", folder, "--json")
        assert ran.code is ExitCode.VAULT and "read-only" in ran.error["message"]


@pytest.mark.usefixtures("no_models")
@pytest.mark.parametrize("seconds", [-1, 253_402_300_800, 10**12])
def test_a_clock_that_shows_no_date_stops_what_would_store_it(
    registered: Path, speech: Path, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: seconds * 10**9)
    for command in (
        ("enroll", "bob"),
        ("users", "reenroll", "ada", "--yes"),
        ("credentials", "register", *REQUEST),
        ("authenticate", *REQUEST, "-o", "/dev/null"),
    ):
        ran = voiceid(*command, speech, "--vault", registered, "--json")
        assert ran.code is ExitCode.SYSTEM and "timedatectl" in ran.error["message"]


@pytest.mark.parametrize(("seconds", "shown"), [(0, "1970-01-01 00:00 UTC"), (10**12, "no date"), (2**60, "no date")])
def test_any_stored_time_can_be_shown(vault: Path, seconds: int, shown: str) -> None:
    key = load_device_key(vault / "device.key")
    Vault.open(vault, key).save_template(dataclasses.replace(make_template("eve"), created=seconds))
    for command in (("users", "list"), ("users", "show", "eve")):
        assert shown in voiceid(*command, "--vault", vault).out
    assert {"eve": seconds}.items() <= {
        user["name"]: user["created"] for user in voiceid("users", "list", "--vault", vault, "--json").json
    }.items()


def test_a_user_is_shown_with_readable_labels(vault: Path) -> None:
    lines = [line.strip() for line in voiceid("users", "show", "ada", "--vault", vault).out.splitlines()]
    shown = {label: text for label, _, text in (line.partition("  ") for line in lines)}
    assert shown["speech"].strip() == "9.2 s in 3 utterances"
    assert shown["enrolled with model"].strip() == "identity-test (abababababab)"
    assert shown["can be matched by models"].strip() == "abababababab"
    assert shown["owner (uid)"].strip() == "1000" and shown["has to be renewed"].strip() in ("yes", "no")
    assert not any(raw in label for label in shown for raw in ("_", "sha256", "net speech", "not relative"))


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (make_pipe, "not a regular file"),
        (Path.mkdir, "not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        (make_huge, "larger than"),
    ],
)
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("config", "show", "--config", "FILE"), ExitCode.SETTINGS),
        (("models", "use", "FILE"), ExitCode.MODEL),
        (("benchmark", "x.wav", "--compare", "FILE"), ExitCode.SETTINGS),
        (("users", "list", "--vault", "VAULT"), ExitCode.VAULT),
    ],
)
def test_what_is_no_ordinary_file_is_refused_at_once(
    tmp_path: Path, vault: Path, make: Callable[[Path], object], problem: str, command: tuple[str, ...], code: ExitCode
) -> None:
    file = tmp_path / "file.json"
    if "VAULT" in command:
        file = vault / "format"
        file.unlink()
    make(file)
    arguments = [{"FILE": str(file), "VAULT": str(vault)}.get(argument, argument) for argument in command]
    ran = voiceid(*arguments, "--json")
    assert ran.code is code and problem in ran.error["message"]
    assert str(file) in ran.error["message"] or str(file.resolve()) in ran.error["message"]
