"""The WebAuthn authenticator: registers and uses credentials, each time on the strength of an accepted decision.

A credential id is AES-256-GCM(version, enrolment id, salt, user handle) under the ``seal`` sub-key with the hash of
the relying party id as associated data: the device knows its own ids, and whose they are, before it listens.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from fido2 import cbor as fido_cbor
from fido2.cose import ES256
from fido2.webauthn import (
    Aaguid,
    AttestationObject,
    AttestedCredentialData,
    AuthenticatorAttachment,
    AuthenticatorAttestationResponse,
    AuthenticatorData,
    CollectedClientData,
    RegistrationResponse,
)

from voiceid.credentials.credential import Credential
from voiceid.credentials.derivation import derive_private_key, length_prefixed
from voiceid.credentials.envelope import Assertion, Contents, Envelope, SpeechUnits
from voiceid.credentials.keys import DeviceKey, Purpose
from voiceid.credentials.rp_id import check_rp_id, origin_of
from voiceid.enrolment.template import Template
from voiceid.enrolment.vault import Vault
from voiceid.errors import CredentialError
from voiceid.types import Decision, Source
from voiceid.wall_clock import unix_milliseconds, unix_seconds

AAGUID = Aaguid.parse("5cee1575-2b41-4b3e-8f68-28effc360a14")
"""Of all voiceid authenticators; without attestation it is a label, not a proof."""

USER_VERIFIED = AuthenticatorData.FLAG.UP | AuthenticatorData.FLAG.UV
"""Flags of an assertion: present and verified; not eligible for backup, not backed up."""

MIN_CHALLENGE = 16
MAX_USER_HANDLE = 64

_ID_VERSION = 1
_NONCE, _ENROLMENT, _SALT = 12, 16, 32


@dataclass(frozen=True, slots=True)
class Registered:
    """A new credential, and ``response``: WebAuthn's RegistrationResponseJSON for the relying party."""

    credential: Credential
    response: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Sealed:
    """What a credential id holds."""

    enrolment_id: bytes
    salt: bytes
    user_handle: bytes


class Authenticator:
    """Credentials of the users in ``vault``, with keys derived from ``device_key``."""

    def __init__(self, vault: Vault, device_key: DeviceKey) -> None:
        self._vault = vault
        self._device_key = device_key
        self._seal = AESGCM(device_key.subkey(Purpose.SEAL))

    def register(
        self,
        name: str,
        *,
        rp_id: str,
        challenge: bytes,
        decision: Decision,
        user_handle: bytes | None = None,
        deliver: Callable[[Registered], None] = lambda _: None,
    ) -> Registered:
        """Make a credential of user ``name`` for ``rp_id`` that answers ``challenge``, and store its record.

        Args:
            decision: the acceptance of ``name`` in this very ceremony.
            user_handle: the relying party's handle of the user (1 to 64 bytes); by default one is derived, different
                for each relying party.
            deliver: hands the answer over. The record is stored only when it returns: a credential that its relying
                party never heard of would otherwise be the newest from then on.

        Raises:
            CredentialError: not accepted, accepted for somebody else, or as :meth:`check_registration`.
            UnknownUserError: not enrolled.
        """
        template = self._accepted(name, decision)
        self.check_registration(name, rp_id=rp_id, challenge=challenge, user_handle=user_handle)
        handle = self._default_handle(template, rp_id) if user_handle is None else user_handle
        sealed = _Sealed(template.enrolment_id, secrets.token_bytes(_SALT), handle)
        credential_id = self._seal_id(sealed, rp_id)
        public_key = _cose_key(self._private_key(template, sealed, rp_id))
        credential = Credential(
            credential_id=credential_id,
            rp_id=rp_id,
            user_handle=handle,
            enrolment_id=template.enrolment_id,
            public_key=fido_cbor.encode(public_key),
            created=self._next_moment(name),
        )
        authenticator_data = AuthenticatorData.create(
            _rp_id_hash(rp_id),
            USER_VERIFIED | AuthenticatorData.FLAG.AT,
            0,
            AttestedCredentialData.create(AAGUID, credential_id, public_key),
        )
        response = RegistrationResponse(
            raw_id=credential_id,
            response=AuthenticatorAttestationResponse(
                client_data=_client_data(CollectedClientData.TYPE.CREATE, challenge, rp_id),
                attestation_object=AttestationObject.create("none", authenticator_data, {}),
            ),
            authenticator_attachment=AuthenticatorAttachment.PLATFORM,
        )
        registered = Registered(credential, dict(response))
        deliver(registered)
        self._vault.save_credential(name, credential)
        return registered

    def check_registration(self, name: str, *, rp_id: str, challenge: bytes, user_handle: bytes | None = None) -> None:
        """Fail as :meth:`register` would whatever is said; call it before the microphone opens.

        Raises:
            CredentialError: an impossible rp id, challenge or handle.
            UnknownUserError: not enrolled.
            VaultError: nothing can be stored.
            ClockError: the clock shows no date.
        """
        check_rp_id(rp_id)
        if len(challenge) < MIN_CHALLENGE:
            raise CredentialError(f"a challenge has at least {MIN_CHALLENGE} bytes, this one {len(challenge)}")
        if user_handle is not None and not 1 <= len(user_handle) <= MAX_USER_HANDLE:
            raise CredentialError(f"a user handle has 1 to {MAX_USER_HANDLE} bytes, this one {len(user_handle)}")
        self._vault.load_template(name)
        self._vault.check_writable()
        unix_seconds()

    def check_request(
        self,
        name: str,
        *,
        rp_id: str,
        nonce: bytes,
        credential_id: bytes | None = None,
        purpose: str | None = None,
    ) -> Credential:
        """The credential that :meth:`authenticate` would sign with, if it would at all; call it before the microphone
        opens.

        Raises:
            CredentialError: as :meth:`check_credential`.
            EnvelopeError: an impossible nonce or purpose.
            UnknownUserError: not enrolled.
            VaultError: the counter cannot be stored.
            ClockError: the clock shows no date.
        """
        credential = self.check_credential(name, rp_id=rp_id, credential_id=credential_id)
        Contents(rp_id, credential.credential_id, Source.FILE, unix_milliseconds(), 1, purpose).challenge(nonce)
        self._vault.check_writable()
        return credential

    def check_credential(self, name: str, *, rp_id: str, credential_id: bytes | None = None) -> Credential:
        """The credential that :meth:`authenticate` would use.

        Args:
            credential_id: one of ``name``'s at ``rp_id``; by default the newest.

        Raises:
            CredentialError: none there, made for another relying party, by another user or device, or revoked.
            UnknownUserError: not enrolled.
        """
        check_rp_id(rp_id)
        candidates = [c for c in self._vault.credentials(name) if c.rp_id == rp_id]
        if credential_id is None:
            if not candidates:
                raise CredentialError(f"{name!r} has no credential for {rp_id}; {self._how_to_get_one(name)}")
            credential_id = candidates[-1].credential_id
        sealed = self._unseal_id(credential_id, rp_id)
        if sealed.enrolment_id != self._vault.load_template(name).enrolment_id:
            raise CredentialError(
                f"the credential is not of {name!r}'s current enrolment: another user's, or ended by a re-enrolment; "
                "register a new one"
            )
        for candidate in candidates:
            if candidate.credential_id == credential_id:
                return candidate
        raise CredentialError(f"the credential for {rp_id} was revoked; register a new one")

    def _how_to_get_one(self, name: str) -> str:
        damaged = self._vault.damaged_credentials(name)
        if not damaged:
            return "register one first"
        return f"{damaged} of this user cannot be read ('voiceid credentials list {name}'): it may be one of those"

    def authenticate(
        self,
        name: str,
        *,
        rp_id: str,
        nonce: bytes,
        source: Source,
        decision: Decision,
        credential_id: bytes | None = None,
        units: SpeechUnits | None = None,
        purpose: str | None = None,
    ) -> Envelope:
        """Sign an envelope for ``rp_id``; the counter is on disk before the signature is made.

        Args:
            nonce: fresh random bytes of the relying party, 16 to 1024.
            source: where the judged audio came from.
            decision: the acceptance of ``name`` in this very ceremony.

        Raises:
            CredentialError: not accepted, accepted for somebody else, or as :meth:`check_request`.
            EnvelopeError, UnknownUserError, VaultError, ClockError: as there.
        """
        template = self._accepted(name, decision)
        credential = self.check_request(name, rp_id=rp_id, nonce=nonce, credential_id=credential_id, purpose=purpose)
        moment = unix_milliseconds()
        counter = self._vault.next_counter(credential.credential_id)
        contents = Contents(rp_id, credential.credential_id, source, moment, counter, purpose, units)
        client_data = _client_data(CollectedClientData.TYPE.GET, contents.challenge(nonce), rp_id)
        authenticator_data = AuthenticatorData.create(_rp_id_hash(rp_id), USER_VERIFIED, counter)
        key = self._private_key(template, self._unseal_id(credential.credential_id, rp_id), rp_id)
        signature = key.sign(authenticator_data + client_data.hash, ec.ECDSA(SHA256()))
        return Envelope(contents, Assertion(bytes(client_data), bytes(authenticator_data), signature))

    def _accepted(self, name: str, decision: Decision) -> Template:
        if not isinstance(decision, Decision):
            raise CredentialError(f"credentials need a decision, not {type(decision).__name__}")
        if not decision.accepted:
            raise CredentialError(f"credentials need an accepted decision; this one is {decision.outcome.value}")
        template = self._vault.load_template(name)
        if decision.user != template.name:
            raise CredentialError("the decision accepted somebody else than the user whose credential is asked for")
        return template

    def _next_moment(self, name: str) -> int:
        """Now in Unix seconds, but after every credential of ``name``: the clock of a Pi may go back."""
        return max([unix_seconds(), *(credential.created + 1 for credential in self._vault.credentials(name))])

    def _private_key(self, template: Template, sealed: _Sealed, rp_id: str) -> ec.EllipticCurvePrivateKey:
        return derive_private_key(
            self._device_key.subkey(Purpose.CREDENTIAL),
            rp_id=rp_id,
            user_handle=sealed.user_handle,
            salt=sealed.salt,
            frozen_features=template.frozen_features,
        )

    def _default_handle(self, template: Template, rp_id: str) -> bytes:
        key = self._device_key.subkey(Purpose.SEAL)
        return hmac.digest(key, length_prefixed(b"voiceid-user-handle-v1", rp_id.encode(), template.user_id), "sha256")

    def _seal_id(self, sealed: _Sealed, rp_id: str) -> bytes:
        nonce = secrets.token_bytes(_NONCE)
        plain = bytes([_ID_VERSION]) + sealed.enrolment_id + sealed.salt + sealed.user_handle
        return nonce + self._seal.encrypt(nonce, plain, _rp_id_hash(rp_id))

    def _unseal_id(self, credential_id: bytes, rp_id: str) -> _Sealed:
        nonce, sealed = credential_id[:_NONCE], credential_id[_NONCE:]
        try:
            plain = self._seal.decrypt(nonce, sealed, _rp_id_hash(rp_id))
        except (InvalidTag, ValueError):
            raise CredentialError(f"the credential was not made by this device for {rp_id}") from None
        if plain[0] != _ID_VERSION:
            raise CredentialError(f"a credential of version {plain[0]}, made by a newer voiceid; upgrade")
        salt_at, handle_at = 1 + _ENROLMENT, 1 + _ENROLMENT + _SALT
        return _Sealed(plain[1:salt_at], plain[salt_at:handle_at], plain[handle_at:])


def _client_data(kind: CollectedClientData.TYPE, challenge: bytes, rp_id: str) -> CollectedClientData:
    return CollectedClientData.create(type=kind.value, challenge=challenge, origin=origin_of(rp_id))


def _cose_key(key: ec.EllipticCurvePrivateKey) -> ES256:
    return cast(ES256, ES256.from_cryptography_key(key.public_key()))  # type: ignore[no-untyped-call]


def _rp_id_hash(rp_id: str) -> bytes:
    return hashlib.sha256(rp_id.encode()).digest()
