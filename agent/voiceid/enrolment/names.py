"""User names: what people type, never what files are called."""

from __future__ import annotations

import unicodedata

from voiceid.errors import EnrolmentError

MAX_NAME = 64
"""Characters (code points after NFC)."""

_PUNCTUATION = frozenset(" .-_'’@+")
_CATEGORIES = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd"})


def check_name(name: str) -> str:
    """Return ``name`` in NFC if it can be a user name.

    Allowed: letters, combining marks and digits of any script, and ``. - _ ' ’ @ +`` and single spaces, starting with a
    letter or digit, at most 64 characters. Refused: path separators, control and invisible characters, bidirectional
    controls, emoji and other symbols, all of which look alike or break terminals and logs.

    Raises:
        EnrolmentError: the name breaks a rule; the message says which.
    """
    name = unicodedata.normalize("NFC", name)
    shown = repr(name[:MAX_NAME])  # which escapes what cannot be printed
    if not name or len(name) > MAX_NAME:
        raise EnrolmentError(f"user name {shown} has {len(name)} characters; use 1 to {MAX_NAME}")
    for character in name:
        if not _allowed(character):
            raise EnrolmentError(
                f"user name {shown} contains {_describe(character)}; use letters, digits, spaces and . - _ ' @ +"
            )
    if not name[0].isalnum():
        raise EnrolmentError(f"user name {shown} must start with a letter or digit")
    if name.endswith(" ") or "  " in name:
        raise EnrolmentError(f"user name {shown} ends with a space or has two in a row")
    return name


def name_key(name: str) -> bytes:
    """What two spellings of one name share: case and compatibility forms do not make another user."""
    folded = unicodedata.normalize("NFKC", check_name(name)).casefold()
    return unicodedata.normalize("NFKC", folded).encode()


def _allowed(character: str) -> bool:
    variation_selector = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    known = character in _PUNCTUATION or unicodedata.category(character) in _CATEGORIES
    return known and not variation_selector


def _describe(character: str) -> str:
    kind = {"Cc": "a control character", "Cf": "an invisible formatting character", "So": "an emoji or symbol"}
    if character in "/\\":
        return f"the path separator {character!r}"
    return f"{kind.get(unicodedata.category(character), 'the character')} {character!r}"
