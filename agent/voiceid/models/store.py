"""Finding a card by name or path and verifying the files it names."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from voiceid.errors import ModelError
from voiceid.models.card import OPTIONAL_ROLES, ROLES, Card, Role, read_card
from voiceid.regular_file import open_regular
from voiceid.settings import ModelSettings


@dataclass(frozen=True, slots=True)
class VerifiedModel:
    """A card whose files were found with the right hashes."""

    card: Card
    folder: Path

    @property
    def onnx(self) -> Path:
        return self.folder / self.card.file

    def asset(self, suffix: str) -> Path:
        """The one asset whose name ends with ``suffix``.

        Raises:
            ModelError: the card names none.
        """
        for name in self.card.assets:
            if name.endswith(suffix):
                return self.folder / name
        raise ModelError(f"card {self.card.name!r} names no asset ending in {suffix!r}")


def shipped_folder() -> Path:
    """The folder of shipped models: ``$VOICEID_MODELS``, else inside the package, else the checkout's ``models/``.

    Raises:
        ModelError: ``$VOICEID_MODELS`` names no folder.
    """
    if configured := os.environ.get("VOICEID_MODELS"):
        if not Path(configured).is_dir():
            raise ModelError(f"VOICEID_MODELS names {configured}, which is no folder; correct or unset it")
        return Path(configured)
    package = Path(__file__).resolve().parents[1]
    installed = package / "_models"
    return installed if installed.is_dir() else package.parents[1] / "models"


def shipped_cards() -> list[Path]:
    """Paths of all shipped cards, by name.

    Raises:
        ModelError: as :func:`shipped_folder`.
    """
    return sorted(shipped_folder().glob("*.json"))


def card_path(reference: str) -> Path:
    """Where the card named, or at path, ``reference`` lies; it need not exist.

    Raises:
        ModelError: in the home folder of nobody, or as :func:`shipped_folder`.
    """
    if not (reference.endswith(".json") or os.sep in reference):
        return shipped_folder() / f"{reference}.json"
    try:
        return Path(reference).expanduser()
    except RuntimeError:
        raise ModelError(f"{reference}: there is no such home folder; name the card by its whole path") from None


def known_sha256(reference: str) -> str | None:
    """SHA-256 of the model of the card named or at path ``reference``; None where that card cannot be read."""
    try:
        return read_card(card_path(reference)).sha256
    except ModelError:
        return None


def find_model(reference: str, role: Role) -> VerifiedModel:
    """Find the card named or at path ``reference`` for ``role`` and verify its files.

    Raises:
        ModelError: card or file missing, wrong hash, or a card of another role.
    """
    path = card_path(reference)
    card = read_card(path)
    if card.role != role:
        raise ModelError(f"{path}: a card for {card.role}, but it is set for {role}; choose another in [models]")
    return verify_model(card, path.parent)


def references(settings: ModelSettings) -> dict[Role, str]:
    """The card that ``settings`` names for each role; the guard's only where it is switched on."""
    named = {role: getattr(settings, role) for role in (*ROLES, *OPTIONAL_ROLES)}
    return {role: reference for role, reference in named.items() if reference is not None}


def verify_model(card: Card, folder: Path) -> VerifiedModel:
    """Check the hash of every file of ``card`` in ``folder``.

    Raises:
        ModelError: a file is missing or differs.
    """
    for name, expected in {card.file: card.sha256, **card.assets}.items():
        file = folder / name
        try:
            with open_regular(file) as stream:
                actual = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise ModelError(f"{file}: model file cannot be read ({error.strerror}); reinstall voiceid") from error
        if actual != expected:
            raise ModelError(
                f"{file}: sha256 {actual[:16]}... differs from the card's {expected[:16]}...; "
                "the file is damaged or altered: reinstall it"
            )
    return VerifiedModel(card, folder)
