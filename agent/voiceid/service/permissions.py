"""Who may do what: admins, owners of enrolments, and the uids that an admin lists for a relying party."""

from __future__ import annotations

import contextlib
import os
import pwd
from typing import Any

from voiceid.enrolment.names import name_key
from voiceid.errors import EnrolmentError
from voiceid.service.peers import Peer
from voiceid.service.protocol import RequestError
from voiceid.service.schema import Access, Fault, Method
from voiceid.settings import ServiceSettings

MAX_USERS_OF_UID = 8
"""Enrolments that one uid may own, unless an admin makes more."""


class Permissions:
    """The rules of :class:`voiceid.service.schema.Access` for one configuration."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._admins = frozenset({0, os.geteuid(), *settings.admins})
        self._grants = {rp_id: frozenset(uids) for rp_id, uids in settings.relying_parties.items()}

    def is_admin(self, peer: Peer) -> bool:
        return peer.uid in self._admins

    def is_granted(self, peer: Peer, rp_id: str) -> bool:
        """Whether ``peer`` may ask on behalf of ``rp_id``."""
        return self.is_admin(peer) or peer.uid in self._grants.get(rp_id, ())

    def check(self, peer: Peer, method: Method, params: dict[str, Any], owner: int | None) -> None:
        """Check every rule of ``method``: the same answer for what is forbidden and for what is not there.

        A name that another uid has enrolled may be asked for as a new one: only the end of the enrolment tells.

        ``owner`` is the uid that owns the enrolment of ``params["user"]``, None where nobody of that name is enrolled.

        Raises:
            RequestError: not permitted.
            EnrolmentError: no possible user name.
        """
        if not all(self._holds(rule, peer, params, owner) for rule in method.access):
            raise not_permitted(method.name)

    def _holds(self, rule: Access, peer: Peer, params: dict[str, Any], owner: int | None) -> bool:
        if rule is Access.ANYONE or self.is_admin(peer):
            return True
        if rule is Access.GRANTED:
            return self.is_granted(peer, params["relying_party"])
        if rule is Access.OWNER:
            return owner == peer.uid
        if rule is Access.CREATOR:
            return owner == peer.uid or (_is_new(params) and not is_login_of_another(params["user"], peer.uid))
        return False


def _is_new(params: dict[str, Any]) -> bool:
    return not params.get("replace") and not params.get("renew")


def is_login_of_another(name: str, uid: int) -> bool:
    """Whether ``name``, in any spelling that the vault takes for the same, is the login of another uid than ``uid``.

    Without this rule somebody could enrol their own voice under the login of somebody else and unlock that login.

    Raises:
        EnrolmentError: no possible user name.
    """
    key = name_key(name)
    entries = list(pwd.getpwall())
    with contextlib.suppress(KeyError, ValueError):  # a directory service need not list its users
        entries.append(pwd.getpwnam(name.casefold()))
    return any(entry.pw_uid != uid and _is_same(entry.pw_name, key) for entry in entries)


def not_permitted(what: str) -> RequestError:
    """The one refusal that ordinary clients get."""
    return RequestError(Fault.NOT_PERMITTED, f"{what}: not permitted, or there is no such user")


def _is_same(login: str, key: bytes) -> bool:
    try:
        return name_key(login) == key
    except EnrolmentError:
        return False
