"""Settings: strict keys, types and ranges, each refusal naming file, key and value."""

from __future__ import annotations

from pathlib import Path

import pytest

from voiceid.cli.config_file import to_toml
from voiceid.errors import SettingsError
from voiceid.settings import Settings, load_settings


def test_values_reach_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        '[quality]\nmin_snr_db = 5\n[models]\noperating_point = "strict"\nthreads = 2\n'
        '[paths]\nvault = "/var/lib/voiceid"\ndevice_key = "/etc/voiceid/key"\n'
    )
    settings = load_settings(path)
    assert settings.quality.min_snr_db == 5.0
    assert settings.models.operating_point == "strict"
    assert settings.models.threads == 2
    assert settings.paths.vault == Path("/var/lib/voiceid")
    assert settings.paths.device_key == Path("/etc/voiceid/key")
    assert settings.enrolment == Settings().enrolment


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[activation]\nkind = "file"\n', "kind 'file' needs file"),
        ("[activation]\nmin_speech = 2\nstart_timeout = 1.5\n", "min_speech is 2, but must be less than start_timeout"),
        ("[activation]\nend_silence = 4\nmax_seconds = 4\n", "end_silence is 4, but must be less than max_seconds"),
        ("[quality]\nmin_net_speech = 20\n", "no utterance is longer than 15 s"),
        ("[enrolment]\nmin_net_speech = 500\n", "have at most 15 s each"),
        ('[paths]\nvault = "/v"\ndevice_key = "/v"\n', "device_key and vault are both /v"),
        ('[service]\nsocket = "/s"\nmetrics_file = "/s"\n', "socket and metrics_file are both /s"),
        ("[qualiti]\n", "unknown key 'qualiti'"),
        ("[quality]\nmin_snr = 3\n", "quality: unknown key 'min_snr'"),
        ('[quality]\nmin_snr_db = "high"\n', "min_snr_db is 'high'; expected float"),
        ("[quality]\nmin_snr_db = true\n", "min_snr_db is True"),
        ("[models]\nthreads = 1.5\n", "threads is 1.5; expected int"),
        ("[models]\nthreads = 0\n", "threads is 0; it must lie between 1 and 64"),
        ('[models]\noperating_point = "lax"\n', "operating_point is 'lax'; use one of"),
        ("quality = 3\n", "quality: expected a table, found int"),
        ("[quality\n", "not valid TOML"),
        ("[quality]\nmin_net_speech = 0.1\n", "min_net_speech is 0.1; it must lie between 0.5 and 60"),
        ("[enrolment]\nsame_speaker_llr = nan\n", "same_speaker_llr is not a number"),
        ("[capture]\nhistory = 0\n", "capture: history is 0; it must lie between 0.5 and 30"),
        ("[capture]\nreopen_first = 60\n", "reopen_first is 60; it must lie between 0.1 and 10"),
        ('[activation]\nkind = "clap"\n', "kind is 'clap'; use one of 'wake_word', 'push_to_talk', 'voice', 'file'"),
        ("[capture]\ndevice = ''\n", "device is ''; it must not be empty"),
        ("[activation]\nwake_threshold = 1.5\n", "wake_threshold is 1.5; it must lie between 0 and 1"),
        ("[activation]\nmax_seconds = 600\n", "max_seconds is 600; it must lie between 1 and 60"),
        ("[service]\nmax_clients = 1\n", "max_clients is 1; it must lie between 16 and 4096"),
        ("[service]\nadmins = [-1]\n", "admins[0] is -1; it must lie between 0 and 4.29497e+09"),
        ('[service.relying_parties]\n"shop.example.org" = ["root"]\n', "shop.example.org[0] is 'root'; expected int"),
        ('[service.relying_parties]\n"Shop" = [0]\n', "it must have domains in lower case for keys"),
        ("[paths]\nvault = '~no-such-user/v'\n", "no such home folder"),
        ("[paths]\nvault = ''\n", "vault is ''; it must not be empty"),
        ("[paths]\ndevice_key = ''\n", "device_key is ''; it must not be empty"),
        ('[paths]\nvault = "/a\\u0000b"\n', "or hold a NUL character"),
        ('[models]\nunits = "a\\u0000b"\n', "or hold a NUL character"),
        ("[models]\nidentity = ' '\n", "identity is ' '; it must not be empty"),
        ("[quality]\nmin_speech_dbfs = 1e308\n", "min_speech_dbfs is 1e+308; it must lie between -120 and 0"),
        ("[quality]\nmin_snr_db = -inf\n", "min_snr_db is -inf; it must lie between 0 and 60"),
        ("[quality]\nmax_clipped = -0.1\n", "it must lie between 0 and 1"),
        ("[enrolment]\nmin_net_speech = 0\n", "min_net_speech is 0; it must lie between 1 and 600"),
        ("[enrolment]\nmin_utterances = -3\n", "it must lie between 1 and 20"),
        (f"[quality]\nmin_snr_db = {'9' * 400}\n", "min_snr_db is larger than any float"),
        (f"[models]\nthreads = {'9' * 5000}\n", "not valid TOML"),
        (f"[models]\nthreads = 0x{'f' * 5000}\n", "threads is a number of thousands of digits"),
        (f"[models]\nunits = {'[' * 50_000}\n", "not valid TOML"),
        (f"[models]\nthreads = '{'x' * 5000}'\n", "expected int"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 300


def test_grants_are_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[service]\nadmins = [1000]\n[service.relying_parties]\n"shop.example.org" = [1000, 1001]\n')
    settings = load_settings(path)
    assert settings.service.admins == (1000,)
    assert settings.service.relying_parties == {"shop.example.org": [1000, 1001]}
    path.write_text(to_toml(settings))
    assert load_settings(path) == settings


def test_the_defaults_lie_in_their_ranges(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(to_toml(Settings()))
    assert load_settings(path) == Settings()


def test_no_file_means_defaults_unless_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VOICEID_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert load_settings().paths.vault == tmp_path / "state" / "voiceid"
    with pytest.raises(SettingsError, match="no such configuration file"):
        load_settings(tmp_path / "none.toml")
    monkeypatch.setenv("VOICEID_CONFIG", str(tmp_path / "gone.toml"))
    with pytest.raises(SettingsError, match="no such configuration file"):
        load_settings()


def test_binary_configuration_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(path)
