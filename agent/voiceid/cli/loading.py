"""Loading what commands work with: vault, judges and pipeline."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from voiceid.cli.output import progress, stderr
from voiceid.errors import ModelError, UnknownUserError

if TYPE_CHECKING:
    from voiceid.credentials.keys import DeviceKey
    from voiceid.enrolment.template import Template
    from voiceid.enrolment.vault import Vault
    from voiceid.pipeline import Pipeline
    from voiceid.settings import Settings


def load_pipeline(settings: Settings) -> Pipeline:
    """Every model, loaded.

    Raises:
        ModelError: one cannot be used.
    """
    with progress("loading models"):
        from voiceid.pipeline import Pipeline

        return Pipeline.load(settings)


def open_vault(settings: Settings, *, create: bool = False) -> Vault:
    """The vault of ``settings``.

    Raises:
        VaultError: it cannot be opened.
        CredentialError: the device key is missing or unusable.
    """
    return open_vault_and_key(settings, create=create)[0]


def open_vault_and_key(settings: Settings, *, create: bool = False) -> tuple[Vault, DeviceKey]:
    """As :func:`open_vault`, with the device key for an authenticator."""
    from voiceid.enrolment.opening import open_vault

    return open_vault(settings.paths, create=create)


def find_template(vault: Vault, name: str) -> Template | None:
    """The template of ``name``, or None where nobody of that name is enrolled."""
    try:
        return vault.load_template(name)
    except UnknownUserError:
        return None


def all_templates(vault: Vault) -> list[Template]:
    """Every template that can be read; a warning for each record that cannot."""
    for problem in vault.problems():
        warn(problem)
    return [vault.load_template(user.name) for user in vault.list_users()]


def identity_in_use(settings: Settings) -> str | None:
    """SHA-256 of the identity model in use; None where its card cannot be read, which is another command's to tell."""
    from voiceid.models.store import known_sha256

    return known_sha256(settings.models.identity)


def relative_detectors(settings: Settings) -> dict[str, str]:
    """Role and SHA-256 of each detector in use that can judge relative to an owner, as far as cards can be read."""
    from voiceid.models.card import read_card
    from voiceid.models.store import card_path
    from voiceid.scoring.owner import ENTRY

    found = {}
    for reference in (settings.models.spoofing, settings.models.liveness):
        with contextlib.suppress(ModelError):
            card = read_card(card_path(reference))
            if ENTRY in card.parameters:
                found[str(card.role)] = card.sha256
    return found


def warn(message: str) -> None:
    """One warning on standard error."""
    console = stderr()
    console.print("warning:", style="bold yellow", end=" ")
    console.print(message, markup=False, soft_wrap=True)
