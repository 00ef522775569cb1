"""``voiceid config`` and editing the configuration file."""

from __future__ import annotations

import os
import re
import stat
import time
import tomllib
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from tests.cli_helpers import voiceid
from voiceid.cli.config_file import set_key, to_toml
from voiceid.cli.exit_codes import ExitCode
from voiceid.configuration_reference import document
from voiceid.errors import SettingsError
from voiceid.output_file import check_file, write_file
from voiceid.settings import Settings, load_settings


def test_show_prints_toml_that_gives_the_same_settings(tmp_path: Path) -> None:
    config = tmp_path / "in.toml"
    config.write_text('[models]\noperating_point = "strict"\n[paths]\nvault = "/srv/voices"\n')
    shown = tmp_path / "out.toml"
    shown.write_text(voiceid("config", "show", "--config", config).out)
    assert load_settings(shown) == load_settings(config)
    assert tomllib.loads(to_toml(Settings()))["quality"]["min_net_speech"] == 1.0


def test_show_lists_every_key_and_the_default_where_it_has_another(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[models]\nthreads = 2\n[capture]\ndevice = 'USB*'\n")
    lines = voiceid("config", "show", "--config", config).out.splitlines()
    assert "# wake_threshold (not set)" in lines and "# metrics_port (not set)" in lines
    assert "threads = 2  # default: 1" in lines and 'device = "USB*"  # default: (not set)' in lines
    assert "min_snr_db = 3.0" in lines
    keys = [
        f"{section.name}.{key.name}"
        for section in fields(Settings)
        for key in fields(section.default_factory() if section.default is MISSING else section.default)
    ]
    shown = [line.removeprefix("# ").split()[0] for line in lines[1:] if line and not line.startswith("[")]
    assert shown == [key.split(".")[1] for key in keys]


def test_the_documented_settings_are_those_of_the_program() -> None:
    assert (Path(__file__).parents[1] / "docs" / "configuration.md").read_text("utf-8") == document()


def refusal(config: Path, text: str) -> str:
    """Why ``config check`` refuses a configuration of ``text``."""
    config.write_text(text)
    ran = voiceid("config", "check", "--config", config, "--json")
    assert ran.code is ExitCode.SETTINGS
    return str(ran.error["message"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('kind = "file"\nfile = "/no/such.wav"\n', "/no/such.wav: no such recording or pipe; make it"),
        (f'kind = "file"\nfile = "/{"x" * 300}"\n', "File name too long"),
        ('kind = "file"\n', "needs file"),
        ('kind = "voice"\nfile = "/"\n', "/: is a folder"),
        ('kind = "push_to_talk"\nfile = "/dev/null"\n', "neither a recording nor a pipe"),
    ],
)
def test_check_looks_at_the_recording_that_takes_the_microphones_place(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in refusal(tmp_path / "config.toml", f"[activation]\n{text}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[paths]\nvault = '/dev/null'\n", "[paths] vault: /dev/null: is no folder"),
        ("[paths]\nvault = '/dev/null/voices'\n", "cannot be made, since /dev/null is no folder"),
        ("[paths]\nvault = 'voices'\n", "[paths] vault: voices: would lie wherever voiceid is started"),
        ("[paths]\ndevice_key = '/dev'\n", "[paths] device_key: /dev: is no file"),
        ("[service]\nsocket = '/dev/null'\n", "[service] socket: /dev/null: is no socket"),
        ("[service]\nmetrics_file = '/dev/null/m.prom'\n", "[service] metrics_file: /dev/null/m.prom: cannot be made"),
    ],
)
def test_check_refuses_paths_that_cannot_be_meant(tmp_path: Path, text: str, problem: str) -> None:
    config = tmp_path / "config.toml"
    message = refusal(config, text)
    assert problem in message and str(config) in message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("".join(f"a.b{number}.c = 1\n" for number in range(50_000)), "larger than 65536 bytes"),
        ("a." * 5_000 + "b = 1\n", "line 1 has over 100 dots"),
        ('\n{ "a b" = { ' + '"a b".' * 5_000 + "b = 1 } }\n", "line 2 has over 100 dots"),
        ("a = " + "[" * 20_000, "nested too deeply"),
    ],
)
def test_a_configuration_that_would_take_forever_to_read_is_refused_at_once(
    tmp_path: Path, text: str, problem: str
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(text)
    began = time.monotonic()
    with pytest.raises(SettingsError, match=problem):
        load_settings(config)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[models]\nidentiy = 'x'\n", "unknown key 'identiy'"),
        ("[quality]\nmin_net_speech = 'long'\n", "expected float"),
        ("[models]\nthreads = true\n", "expected int"),
        ("[models]\noperating_point = 'lax'\n", "'convenience', 'balanced', 'strict'"),
        ("[models\n", "not valid TOML"),
        ("[quality]\nmax_clipped = 2\n", "between 0 and 1"),
    ],
)
@pytest.mark.parametrize("command", [("config", "check"), ("users", "list"), ("models", "list")])
def test_a_wrong_configuration_stops_every_command(
    tmp_path: Path, text: str, problem: str, command: tuple[str, str]
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(text)
    ran = voiceid(*command, "--config", config, "--json")
    assert ran.code is ExitCode.SETTINGS and ran.out == ""
    assert problem in ran.error["message"] and str(config) in ran.error["message"]


def test_a_missing_configuration_that_was_named_is_an_error(tmp_path: Path) -> None:
    ran = voiceid("config", "show", "--config", tmp_path / "none.toml")
    assert ran.code is ExitCode.SETTINGS and "no such configuration file" in ran.err


def test_set_key_makes_replaces_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "config.toml"
    set_key(path, "models", "identity", "first")
    path.write_text("# mine\n" + path.read_text() + "threads = 2  # two\n[paths]\nvault = '/v'\n")
    set_key(path, "models", "identity", 'with "quotes" and \\')
    set_key(path, "models", "units", "u")
    table = tomllib.loads(path.read_text())
    assert table["models"] == {"identity": 'with "quotes" and \\', "threads": 2, "units": "u"}
    assert table["paths"] == {"vault": "/v"} and path.read_text().startswith("# mine\n")
    assert [p.name for p in path.parent.iterdir()] == ["config.toml"]


def test_set_key_removes_one_key_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("# mine\n[models]\nguard = 'guard'  # noise\nthreads = 2\n[paths]\nvault = '/v'\n")
    set_key(path, "models", "guard", None)
    assert path.read_text() == "# mine\n[models]\nthreads = 2\n[paths]\nvault = '/v'\n"
    set_key(path, "quality", "guard", None)
    assert path.read_text() == "# mine\n[models]\nthreads = 2\n[paths]\nvault = '/v'\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[models]\nguard = 'guard'\n", ""),
        ("[paths]\nvault = '/v'\n\n[models]\nguard = 'guard'\n", "[paths]\nvault = '/v'\n"),
        ("[models]\nguard = 'guard'\n\n[paths]\nvault = '/v'\n", "[paths]\nvault = '/v'\n"),
        ("# mine\n[models]\n\nguard = 'guard'\n[paths]\nvault = '/v'\n", "# mine\n[paths]\nvault = '/v'\n"),
        ("[quality]\n\n[models]\nguard = 'guard'\n\n[paths]\n", "[quality]\n\n[paths]\n"),
        ("[models]\nguard = 'guard'\n# identity = 'old'\n", "[models]\n# identity = 'old'\n"),
        ("[models]\n[paths]\nvault = '/v'\n", "[models]\n[paths]\nvault = '/v'\n"),
    ],
)
def test_set_key_removes_a_section_that_it_leaves_empty(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(before)
    set_key(path, "models", "guard", None)
    assert path.read_text() == after


def test_choosing_and_resetting_leaves_the_configuration_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("# mine\n[paths]\nvault = '/v'\n")
    for _ in range(2):
        set_key(path, "models", "guard", "guard")
        set_key(path, "models", "guard", None)
    assert path.read_text() == "# mine\n[paths]\nvault = '/v'\n"


@pytest.mark.parametrize("text", ["models.guard = 'x'\n", "models = {guard = 'x'}\n", '[models]\nguard = """\nx"""\n'])
def test_set_key_leaves_a_file_alone_whose_key_it_cannot_remove(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match="remove there: guard"):
        set_key(path, "models", "guard", None)
    assert path.read_text() == text


@pytest.mark.parametrize("text", ["models.threads = 2\n", "models = {threads = 2}\n", "['models']\nthreads = 2\n"])
def test_set_key_leaves_a_file_alone_that_it_would_break(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match='identity = "first"'):
        set_key(path, "models", "identity", "first")
    assert path.read_text() == text


def test_new_files_are_private_and_old_ones_keep_their_mode(tmp_path: Path) -> None:
    new, old, config = tmp_path / "new", tmp_path / "old", tmp_path / "deep" / "er" / "config.toml"
    old.touch(0o640)
    mask = os.umask(0)
    try:
        write_file(new, b"one")
        write_file(old, b"two")
        set_key(config, "models", "identity", "first")
    finally:
        os.umask(mask)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (new, old, config, config.parent, config.parents[1])]
    assert modes == [0o600, 0o640, 0o644, 0o755, 0o755]


def test_an_output_is_refused_beforehand_where_it_could_not_be_written(tmp_path: Path) -> None:
    for good in (tmp_path / "new", Path("/dev/null")):
        check_file(good)
    for bad in (tmp_path, tmp_path / "no" / "where", tmp_path / ("x" * 256), Path("/proc/version/x")):
        with pytest.raises(OSError, match=re.escape(str(bad))):
            check_file(bad)


def test_output_goes_through_links_and_into_pipes_and_replaces_neither(tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("target")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_file(link, b"one")
    write_file(pipe, b"two")
    assert link.is_symlink() and (tmp_path / "target").read_bytes() == b"one"
    assert pipe.is_fifo() and os.read(reader, 9) == b"two"
    os.close(reader)


PARTY = ("--relying-party", "shop.example.org", "--challenge", "A" * 32)


@pytest.mark.parametrize(
    ("command", "counted"),
    [
        (("verify", "ada", "FILE"), True),
        (("authenticate", "ada", "FILE", *PARTY, "-o", "/dev/null"), True),
        (("credentials", "register", "ada", "FILE", *PARTY), True),
        (("credentials", "list"), False),
        (("users", "list"), False),
        (("users", "show", "ada"), False),
        (("lockout", "show", "ada"), False),
        (("privacy", "show"), False),
        (("users", "delete", "ada", "--yes"), False),
    ],
)
def test_a_daemon_that_should_run_and_does_not_is_told_where_it_would_count(
    tmp_path: Path, speech: Path, command: tuple[str, ...], counted: bool
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[service]\nsocket = "{tmp_path / "gone.sock"}"\n[paths]\nvault = "{tmp_path / "vault"}"\n')
    arguments = [speech if argument == "FILE" else argument for argument in command]
    ran = voiceid("--config", config, *arguments)
    assert ran.code == ExitCode.VAULT
    warning = f"no daemon answers at {tmp_path / 'gone.sock'}: this works on the vault itself, and counts no failures"
    assert (warning in ran.err) == counted and len(ran.err.strip().splitlines()) == 1 + counted
    named = voiceid("--config", config, *arguments, "--vault", tmp_path / "vault")
    assert named.code == ExitCode.VAULT and "answers" not in named.err


@pytest.mark.parametrize("command", [("status",), ("pin", "enter", "ada")])
def test_what_needs_a_daemon_says_how_to_start_the_one_of_this_configuration(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    config = tmp_path / "a b.toml"
    config.write_text(f'[service]\nsocket = "{tmp_path / "gone.sock"}"\n')
    ran = voiceid(*command, "--config", config)
    assert ran.code is ExitCode.SERVICE and len(ran.err.splitlines()) == 1
    assert f"start it with \"voiceid --config '{config}' daemon\"" in " ".join(ran.err.split())
