"""The root command: help, version, global options anywhere, exit codes and how errors are told."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from tests.cli_helpers import voiceid
from voiceid import __version__, errors
from voiceid.cli.exit_codes import ExitCode, code_of_error, code_of_outcome
from voiceid.cli.group import COMMANDS, global_options_first
from voiceid.cli.output import plain
from voiceid.credentials.keys import create_device_key
from voiceid.enrolment.vault import Vault
from voiceid.types import Outcome


def run_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from voiceid.cli.start import main; main()", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


def test_help_names_every_command_and_exit_code() -> None:
    ran = voiceid("--help")
    assert ran.code is ExitCode.ACCEPTED
    assert all(name in ran.out for name in COMMANDS)
    assert all(f"{code.value:>3}" in ran.out and code.meaning[:30] in ran.out for code in ExitCode)


def test_help_loads_no_heavy_module() -> None:
    script = (
        "import sys\n"
        "from voiceid.cli.main import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('numpy', 'onnxruntime', 'cryptography', 'soundfile', 'matplotlib') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip().endswith("[]")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_its_summary_and_the_global_options(name: str) -> None:
    command = typer.main.get_command(importlib.import_module(f"voiceid.cli.{name}").app)
    ran = voiceid(name, "--help")
    assert ran.code is ExitCode.ACCEPTED
    assert "may follow the command" in " ".join(ran.out.split())
    assert command.help and command.help.split()[0].strip(".,") in COMMANDS[name]


def test_version() -> None:
    assert voiceid("--version").out.strip() == f"voiceid {__version__}"


@pytest.mark.parametrize("command", ["verify", "enroll", "authenticate"])
def test_help_fills_the_lines_of_its_paragraphs_and_keeps_examples_together(command: str) -> None:
    lines = [line.strip() for line in run_process(command, "--help", COLUMNS="80").stdout.splitlines()]
    assert max(map(len, lines)) <= 80
    first = next(i for i, line in enumerate(lines) if line.startswith("Example"))
    for line, following in itertools.pairwise(lines[2:first]):
        assert not (line and following) or len(line) + 1 + len(following.split()[0]) > 77, "a line that ends too early"
    assert lines[first + 1].startswith(f"voiceid {command} ")


def test_runs_as_a_module_too() -> None:
    ran = subprocess.run([sys.executable, "-m", "voiceid", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("voiceid ")


def test_no_argument_shows_help_and_is_a_usage_error() -> None:
    assert voiceid().code is ExitCode.USAGE


@pytest.mark.parametrize("arguments", [["verfy"], ["verify"], ["units", "--codebook", "64", "x"], ["--nonsense"]])
def test_wrong_usage(arguments: list[str]) -> None:
    ran = voiceid(*arguments)
    assert ran.code is ExitCode.USAGE
    assert ran.err.startswith("error: ") and len(ran.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("models", "reset", "nothing"),
            "ROLE: 'nothing' is not one of 'identity', 'spoofing', 'liveness', ",
        ),
        (("units", "x", "--codebook", "70"), "--codebook: '70' is not one of '50', '100', '200'"),
        (("devices", "--seconds", "soon"), "--seconds is 'soon'; it must be a number"),
        (("devices", "--seconds", "900"), "--seconds is '900'; it must be at most 60"),
        (("devices", "--seconds", "0"), "--seconds is '0'; it must be at least 0.5"),
        (("privacy", "set", "x", "--codebook", "many"), "--codebook is 'many'; it must be a whole number"),
        (("verify", "README.md", "x"), "NAME: 'README.md' is a file"),
        (("verify", "ada"), "give either audio files or --microphone"),
        (("benchmark", "--minutes", "1"), "--minutes needs --service"),
    ],
)
def test_a_value_that_cannot_be_used_is_told_in_our_own_words(
    arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[1])
    ran = voiceid(*arguments)
    assert ran.code is ExitCode.USAGE and ran.err.startswith(f"error: {said}"), ran.err


def test_a_misspelt_command_is_suggested() -> None:
    assert "'verify'" in voiceid("verfy").err


def test_errors_are_json_with_json_anywhere(tmp_path: Path) -> None:
    for arguments in (["--json", "users", "list"], ["users", "--json", "list"], ["users", "list", "--json"]):
        ran = voiceid(*arguments, "--vault", tmp_path / "none")
        assert ran.code is ExitCode.VAULT and ran.out == ""
        assert ran.error["type"] == "VaultError" and ran.error["exit_code"] == 25 and ran.error["exit_name"] == "vault"
        assert str(tmp_path / "none") in ran.error["message"]


def test_usage_errors_are_json_too() -> None:
    assert voiceid("verify", "--json").error["exit_name"] == "usage"


def test_global_options_move_before_the_command() -> None:
    moved = global_options_first(["verify", "ada", "--vault", "v", "--json", "x.wav", "--config=c", "--", "--json"])
    assert moved == ["--vault", "v", "--json", "--config=c", "verify", "ada", "x.wav", "--", "--json"]
    assert global_options_first(["users", "list", "--vault"]) == ["--vault", "users", "list"]


def test_vault_option_and_configuration_reach_the_settings(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text("[models]\nthreads = 2\n")
    settings = voiceid("config", "show", "--json", "--config", config, "--vault", tmp_path / "v").json
    assert settings["models"]["threads"] == 2 and settings["paths"]["vault"] == str(tmp_path / "v")


def test_every_error_class_has_an_exit_code_of_its_own() -> None:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.VoiceIdError)]
    of_devices = [c for c in classes if issubclass(c, errors.AudioDeviceError)]
    others = [c for c in classes if c is not errors.VoiceIdError and c not in of_devices]
    codes = [code_of_error(c("x")) for c in others]
    assert {code_of_error(c("x")) for c in of_devices} == {ExitCode.DEVICE}
    assert ExitCode.INTERNAL not in codes and ExitCode.DEVICE not in codes
    assert len(set(codes)) == len(codes)


def test_every_outcome_has_an_exit_code() -> None:
    codes = {code_of_outcome(outcome) for outcome in Outcome}
    assert len(codes) == len(Outcome) and code_of_outcome(Outcome.ACCEPTED) == 0
    assert all(10 <= code < 20 for code in codes if code)


def test_unexpected_errors_show_no_traceback_unless_asked() -> None:
    script = (
        "from voiceid.cli import main, context\n"
        "def broken(*a): raise KeyError('fuse')\n"
        "context.Context.settings = broken\n"
        "main.app(['config', 'show'])"
    )
    quiet = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert quiet.returncode == ExitCode.INTERNAL and len(quiet.stderr.strip().splitlines()) == 1
    assert "KeyError" in quiet.stderr and "VOICEID_DEBUG" in quiet.stderr
    loud = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, "VOICEID_DEBUG": "1"}
    )
    assert "Traceback" in loud.stderr


def test_a_full_output_device_is_a_system_error() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-c", "from voiceid.cli.start import main; main()", "config", "show", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ran.returncode == ExitCode.SYSTEM and "No space left" in ran.stderr and "Traceback" not in ran.stderr


PROGRAM = (sys.executable, "-c", "from voiceid.cli.start import main; main()")


@pytest.mark.parametrize("arguments", [("config", "show"), ("config", "show", "--json"), ("--help",)])
def test_a_standard_output_that_nobody_reads_ends_quietly(arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run([*PROGRAM, *arguments], stdout=writer, stderr=subprocess.PIPE, text=True)
    both = subprocess.run([*PROGRAM, *arguments], stdout=writer, stderr=writer)
    os.close(writer)
    assert ran.returncode == both.returncode == ExitCode.CLOSED_PIPE and ran.stderr == ""


def test_an_error_that_nobody_reads_keeps_its_exit_code(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    for option in ((), ("--json",)):
        command = [*PROGRAM, "users", "list", "--vault", str(tmp_path), *option]
        assert subprocess.run(command, stdout=subprocess.PIPE, stderr=writer).returncode == ExitCode.VAULT
    os.close(writer)


@pytest.mark.parametrize(("closed", "code"), [("0<&-", 25), ("1>&-", 28), ("2>&-", 25), ("0<&- 1>&- 2>&-", 28)])
def test_closed_standard_streams_are_told_and_no_file_takes_their_place(tmp_path: Path, closed: str, code: int) -> None:
    command = ["sh", "-c", f'"$@" {closed}', "sh", *PROGRAM, "users", "list", "--vault", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == code and ran.stdout == ""
    assert ("standard output: closed; send it to a file" in ran.stderr) == (closed == "1>&-")


@pytest.mark.parametrize("module", ["typer", "voiceid.cli.group", "voiceid.cli.users", "cryptography"])
def test_an_interrupt_while_modules_load_ends_with_one_line_and_code_130(tmp_path: Path, module: str) -> None:
    script = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # the test itself may run where it is ignored
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from voiceid.cli.start import main\nmain()"
    )
    (tmp_path / "format").touch()
    command = [sys.executable, "-c", script, "users", "list", "--vault", str(tmp_path), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == ExitCode.INTERRUPTED and ran.stdout == ""
    assert json.loads(ran.stderr)["error"]["message"] == "interrupted"


@pytest.mark.parametrize(
    ("name", "encoding", "shown"),
    [
        ("ada\N{GRINNING FACE}", "utf-8", "'ada\N{GRINNING FACE}' contains an emoji or symbol '\N{GRINNING FACE}';"),
        ("ada\N{GRINNING FACE}", "ascii", r"user name 'ada\U0001f600' contains an emoji or symbol '\U0001f600';"),
        ("\N{GREEK SMALL LETTER ALPHA}/", "utf-8", "user name '\N{GREEK SMALL LETTER ALPHA}/' contains the path"),
        ("ada\x1b[31m", "utf-8", r"user name 'ada\x1b[31m' contains a control character '\x1b';"),
        ("\u202eada", "utf-8", r"user name '\u202eada' contains an invisible formatting character '\u202e';"),
    ],
)
def test_what_can_be_printed_is_shown_as_it_is(tmp_path: Path, name: str, encoding: str, shown: str) -> None:
    vault = tmp_path / "vault"
    vault.mkdir(mode=0o700)
    Vault.open(vault, create_device_key(vault / "device.key"), create=True)
    command = [*PROGRAM, "users", "show", name, "--vault", str(vault)]
    ran = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding})
    assert ran.returncode == ExitCode.ENROLMENT
    assert shown in ran.stderr.decode(encoding)


def test_pipes_get_no_colour_and_terminals_obey_no_color() -> None:
    assert "\x1b[" not in run_process("--help").stdout
    assert "\x1b[" not in run_process("nonsense", NO_COLOR="1").stderr


def test_plain_turns_values_into_json() -> None:
    import numpy as np

    value = {
        "a": np.float32(1.5),
        "b": np.arange(3, dtype=np.int16),
        "c": b"\xff\xfe",
        "d": float("nan"),
        "e": Path("/x"),
    }
    assert json.loads(json.dumps(plain(value))) == {"a": 1.5, "b": [0, 1, 2], "c": "__4", "d": None, "e": "/x"}


def test_the_documented_exit_codes_are_those_of_the_program() -> None:
    page = (Path(__file__).parents[1] / "docs" / "command-line.md").read_text("utf-8")
    rows = {f"| {code.value} | {code.name.lower()} | {code.meaning} |" for code in ExitCode}
    assert rows == {line for line in page.splitlines() if line[2:3].isdigit()}
