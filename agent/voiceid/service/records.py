"""The methods that read and change the vault. They run in the storage thread, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from voiceid.enrolment.reports import UserSummary
from voiceid.enrolment.vault import Vault
from voiceid.errors import SettingsError, UnknownUserError, VaultError
from voiceid.scoring.judges import Judges
from voiceid.service.audit import Audit
from voiceid.service.connection import Call
from voiceid.service.lockout import Lockout
from voiceid.service.permissions import not_permitted
from voiceid.service.protocol import RequestError
from voiceid.service.schema import Fault
from voiceid.units.privacy import PrivacyProfile

Blocking = Callable[[Call], dict[str, Any]]


class Records:
    """Handlers over ``vault``; :meth:`handlers` names the method of each."""

    def __init__(self, vault: Vault, lockout: Lockout, audit: Audit, judges: Callable[[], Judges]) -> None:
        """``judges`` are those in use."""
        self._vault, self._lockout, self._audit, self._judges = vault, lockout, audit, judges

    def handlers(self) -> dict[str, Blocking]:
        """The handler of each method."""
        return {
            "users.list": self.list_users,
            "users.show": self.show_user,
            "users.delete": self.delete_user,
            "credentials.list": self.list_credentials,
            "credentials.revoke": self.revoke_credential,
            "credentials.revoke_damaged": self.revoke_damaged,
            "privacy.show": self.show_privacy,
            "privacy.set": self.set_privacy,
            "lockout.show": self.show_lockout,
            "lockout.reset": self.reset_lockout,
            "pin.set": self.set_pin,
            "pin.clear": self.clear_pin,
            "pin.enter": self.enter_pin,
        }

    def list_users(self, call: Call) -> dict[str, Any]:
        judges = self._judges()
        return {"users": [_facts(user, judges) for user in self._visible(call)]}

    def show_user(self, call: Call) -> dict[str, Any]:
        user = self._vault.show_user(call.params["user"])
        credentials = [c.facts(user.name) for c in self._vault.credentials(user.name)]
        return {"user": _facts(user, self._judges()), "credentials": credentials}

    def delete_user(self, call: Call) -> dict[str, Any]:
        name = call.params["user"]
        report = self._vault.delete_user(name)
        self._audit.change("user_deleted", call.peer, name)
        return {"report": report.facts()}

    def list_credentials(self, call: Call) -> dict[str, Any]:
        names = [user.name for user in self._visible(call)]
        if (wanted := call.params.get("user")) is not None:
            name = self._own(call, wanted)
            names = [name]
        found = [c.facts(name) for name in names for c in self._vault.credentials(name)]
        counts = {name: self._vault.damaged_credentials(name) for name in names}
        return {"credentials": found, "damaged": {name: count for name, count in counts.items() if count}}

    def revoke_credential(self, call: Call) -> dict[str, Any]:
        name = call.params["user"]
        credential = self._vault.delete_credential(name, call.params["credential_id"])
        self._audit.change("credential_revoked", call.peer, name)
        return {"credential": credential.facts(name)}

    def revoke_damaged(self, call: Call) -> dict[str, Any]:
        name = call.params["user"]
        removed = self._vault.delete_damaged_credentials(name)
        self._audit.change("damaged_credentials_removed", call.peer, name)
        return {"removed": removed}

    def show_privacy(self, call: Call) -> dict[str, Any]:
        rp_id = call.params.get("relying_party")
        if rp_id is None and not call.admin:
            raise not_permitted("privacy.show of all relying parties")
        profiles = {rp_id: self._vault.privacy_profile(rp_id)} if rp_id else self._vault.privacy_profiles()
        return {"profiles": {name: profile.to_dict() for name, profile in profiles.items()}}

    def set_privacy(self, call: Call) -> dict[str, Any]:
        values = {key: call.params[key] for key in ("codebook", "merge_runs", "durations")}
        try:
            profile = PrivacyProfile(**values)
        except SettingsError as error:
            raise RequestError(Fault.INVALID_PARAMS, str(error)) from None
        self._vault.set_privacy_profile(call.params["relying_party"], profile)
        self._audit.change("privacy_set", call.peer)
        return {"done": True}

    def show_lockout(self, call: Call) -> dict[str, Any]:
        return asdict(self._lockout.report(call.params["user"]))

    def reset_lockout(self, call: Call) -> dict[str, Any]:
        self._lockout.reset(call.params["user"])
        self._audit.change("lockout_reset", call.peer, call.params["user"])
        return {"done": True}

    def set_pin(self, call: Call) -> dict[str, Any]:
        params = call.params
        self._lockout.set_pin(params["user"], params["pin"], current=params.get("current"), admin=call.admin)
        self._audit.change("pin_set", call.peer, call.params["user"])
        return {"done": True}

    def clear_pin(self, call: Call) -> dict[str, Any]:
        self._lockout.clear_pin(call.params["user"], current=call.params.get("current"), admin=call.admin)
        self._audit.change("pin_cleared", call.peer, call.params["user"])
        return {"done": True}

    def enter_pin(self, call: Call) -> dict[str, Any]:
        right = self._lockout.enter_pin(call.params["user"], call.params["pin"])
        answer = {True: "accepted", False: "denied", None: "locked"}[right]
        self._audit.change(f"pin_{answer}", call.peer, call.params["user"])
        return {"answer": answer}

    def owner_of(self, name: str) -> int | None:
        """The uid that owns the enrolment of ``name``, None where there is none, or none that can be read."""
        try:
            return self._vault.load_template(name).owner_uid
        except UnknownUserError:
            return None
        except VaultError:
            self._vault.list_users()  # raises where not even the vault can be read
            return None

    def _visible(self, call: Call) -> list[UserSummary]:
        return [user for user in self._vault.list_users() if call.admin or user.owner_uid == call.peer.uid]

    def _own(self, call: Call, name: str) -> str:
        if not call.admin and self.owner_of(name) != call.peer.uid:
            raise not_permitted(call.request.method.name)
        return name


def _facts(user: UserSummary, judges: Judges) -> dict[str, Any]:
    return user.facts(judges.identity.card.sha256, judges.relative_detectors)
