"""Relying party ids: lower-case domain names."""

from __future__ import annotations

import re

from voiceid.errors import CredentialError

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def check_rp_id(rp_id: str) -> str:
    """Return ``rp_id`` if it is a domain name of at least two labels (or ``localhost``, for tests).

    International names are written in their ``xn--`` form, IP addresses and ports are none (WebAuthn section 5.1.2).

    Raises:
        CredentialError: anything else.
    """
    if not is_rp_id(rp_id):
        raise CredentialError(
            f"{rp_id[:80]!r} is no relying party id; use its domain in lower case, as shop.example.org"
        )
    return rp_id


def is_rp_id(rp_id: str) -> bool:
    """Whether :func:`check_rp_id` takes ``rp_id``."""
    labels = rp_id.split(".")
    valid = len(rp_id) <= 253 and all(_LABEL.fullmatch(label) for label in labels)
    return valid and (rp_id == "localhost" or (len(labels) >= 2 and not labels[-1].isdigit()))


def origin_of(rp_id: str) -> str:
    """The one origin that voiceid signs for ``rp_id``."""
    return f"https://{rp_id}"
