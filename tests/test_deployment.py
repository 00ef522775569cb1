"""What an admin installs with: example configuration, pinned wheels, install script, PAM recipe, launchd, Ansible."""

from __future__ import annotations

import os
import plistlib
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.cli_helpers import need_shipped_models, voiceid

CHECKOUT = Path(__file__).resolve().parents[1]
DEPLOY = CHECKOUT / "deploy"
EXAMPLES = DEPLOY / "examples"

debian = pytest.mark.skipif(shutil.which("dpkg") is None, reason="dpkg is not installed")


@pytest.mark.parametrize("name", ["config.toml", "user-session.toml"])
def test_an_example_configuration_is_accepted(name):
    need_shipped_models()
    assert voiceid("--config", EXAMPLES / name, "config", "check", "--json").json["ok"] is True


@pytest.mark.parametrize("name", ["config.toml", "user-session.toml"])
def test_an_example_configuration_is_accepted_with_its_suggestions(tmp_path, name):
    text = re.sub(r'^# (\[|"?[a-z_.]+"? = )', r"\1", (EXAMPLES / name).read_text("utf-8"), flags=re.MULTILINE)
    assert text != (EXAMPLES / name).read_text("utf-8")
    config = tmp_path / name
    config.write_text(text, "utf-8")
    assert voiceid("--config", config, "config", "show").code == 0


def test_the_package_pins_everything_that_the_agent_needs():
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    locked = (DEPLOY / "debian" / "requirements.txt").read_text("utf-8")
    pins = dict(re.findall(r"^([a-z0-9-]+)==([^ ]+)(?: ;.*)? \\\n    --hash=sha256:[0-9a-f]{64}", locked, re.MULTILINE))
    needed = [*project["dependencies"], *project["optional-dependencies"].get("wakeword", [])]
    assert needed
    for requirement in map(Requirement, needed):
        assert requirement.specifier.contains(pins[requirement.name]), requirement


def install(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([DEPLOY / "install.sh", *arguments], capture_output=True, text=True, timeout=60, check=False)


@debian
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--colour",), "unknown argument: --colour"),
        (("--purge",), "--purge needs --uninstall"),
        (("--deb",), "--deb needs a value"),
        (("--deb", "/nowhere/voiceid.deb", "--dry-run"), "/nowhere/voiceid.deb: no such package"),
        (("--client", "nobody-of-that-name", "--dry-run"), "there is no such user"),
        (("--uninstall", "--client", "root"), "--uninstall takes neither"),
    ],
)
def test_the_install_script_says_what_is_wrong(arguments, complaint):
    run = install(*arguments)
    assert run.returncode == 1
    assert complaint in run.stderr


@debian
def test_a_dry_run_only_tells(tmp_path):
    package = tmp_path / "voiceid.deb"
    package.write_bytes(b"no package: it is not opened")
    run = install("--deb", str(package), "--client", "root", "--dry-run")
    assert run.returncode == 0, run.stderr
    steps = [line.removeprefix("+ ").removeprefix("sudo ") for line in run.stdout.splitlines() if line.startswith("+ ")]
    assert steps == [
        f"apt-get install --yes --allow-downgrades {package}",
        "usermod --append --groups voiceid-clients root",
    ]


@pytest.fixture
def unlock(tmp_path: Path):
    """The PAM script with a stand-in for the client, which writes its arguments to ``asked`` and exits as told."""
    asked, client = tmp_path / "asked", tmp_path / "voiceid"
    client.write_text(f'#!/bin/sh\necho "$@" > {asked}\nexit "${{CODE:-0}}"\n', "utf-8")
    client.chmod(0o755)
    script = tmp_path / "unlock"
    text = (DEPLOY / "pam" / "voiceid-unlock").read_text("utf-8")
    assert "/usr/bin/voiceid" in text
    script.write_text(text.replace("/usr/bin/voiceid", str(client)), "utf-8")

    def run(typed: bytes = b"", **environment: str) -> tuple[bool, str]:
        asked.unlink(missing_ok=True)
        pam = {"PAM_SERVICE": "swaylock", "PAM_TYPE": "auth", "PAM_USER": "ada", **environment}
        ran = subprocess.run(["sh", script], input=typed, env={"PATH": os.environ["PATH"], **pam}, timeout=60)
        return ran.returncode == 0, asked.read_text("utf-8").strip() if asked.exists() else ""

    return run


@pytest.mark.parametrize("typed", [b"", b"\0"])
def test_a_screen_opens_to_the_voice_when_nothing_was_typed(unlock, typed):
    assert unlock(typed) == (True, "verify --microphone -- ada")


def test_a_refused_voice_is_a_failure(unlock):
    assert unlock(CODE="10") == (False, "verify --microphone -- ada")


def test_a_typed_password_goes_straight_to_the_password(unlock):
    assert unlock(b"correct horse\0") == (False, "")


@pytest.mark.parametrize("service", ["sudo", "sudo-i", "su", "su-l", "sshd", "login", "gdm-password", "polkit-1", ""])
def test_nothing_but_a_screen_locker_opens_to_the_voice(unlock, service):
    assert unlock(PAM_SERVICE=service) == (False, "")


@pytest.mark.parametrize("name", ["PAM_TYPE", "PAM_USER"])
def test_nothing_opens_without_knowing_what_is_asked(unlock, name):
    assert unlock(**{name: ""}) == (False, "")


def test_nobody_far_away_opens_a_screen(unlock):
    assert unlock(PAM_RHOST="elsewhere.example") == (False, "")


def test_the_pam_example_always_leads_on_to_the_password():
    lines = [line for line in (DEPLOY / "pam" / "swaylock").read_text("utf-8").splitlines() if not line.startswith("#")]
    control = re.match(
        r"auth (\[.*?\]) pam_exec\.so quiet expose_authtok /usr/share/voiceid/pam/voiceid-unlock$", lines[0]
    )
    assert control
    assert control[1] == "[success=done default=ignore]"
    assert lines[1] == "@include common-auth"


def test_the_pages_of_the_package_lead_to_each_other_and_nowhere_else(tmp_path):
    subprocess.run([DEPLOY / "debian" / "pages.sh", CHECKOUT, tmp_path], check=True, timeout=60)
    listed = (DEPLOY / "debian" / "packaging" / "voiceid.docs").read_text("utf-8").split()
    assert {path.name for path in tmp_path.iterdir()} == set(listed) - {"examples"}
    links = {link for path in tmp_path.iterdir() for link in re.findall(r"\]\(([^)]+)\)", path.read_text("utf-8"))}
    local = {link.partition("#")[0] for link in links if not link.startswith("https://")}
    assert {"configuration.md", "limits.md", "systemd.md"} <= local <= set(listed)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_shell_scripts_are_clean():
    packaging = DEPLOY / "debian" / "packaging"
    scripts = [
        DEPLOY / "install.sh",
        DEPLOY / "pam" / "voiceid-unlock",
        *(DEPLOY / "debian").glob("*.sh"),
        *(packaging / name for name in ("postinst", "prerm", "postrm")),
    ]
    run = subprocess.run(
        ["shellcheck", "-x", *map(str, scripts)], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, "")


def test_the_launch_agent_is_a_property_list():
    agent = plistlib.loads((DEPLOY / "macos" / "org.voiceid.agent.plist").read_bytes())
    assert agent["ProgramArguments"][1:] == ["daemon"]
    assert agent["Umask"] == 0o077


def test_the_ansible_files_are_yaml():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    files = sorted((DEPLOY / "ansible").rglob("*.yml"))
    assert files
    for path in files:
        assert yaml.safe_load(path.read_text("utf-8")), path
