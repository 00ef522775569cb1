"""Putting a backup into a vault: what is new, what is there already, what contradicts; then user by user, each whole.

Nothing is written before all of it is known to be possible. An interrupted restoration is complete after another one:
what was restored by then counts as there. Lock-out and PIN of users who are there stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from voiceid.credentials.credential import Credential
from voiceid.enrolment.backup import Backup
from voiceid.enrolment.template import Template
from voiceid.enrolment.vault import Vault
from voiceid.errors import BackupError, UnknownUserError


@dataclass(frozen=True, slots=True)
class Plan:
    """What a restoration would do, by user names and relying parties."""

    new: tuple[str, ...]
    unchanged: tuple[str, ...]
    replaced: tuple[str, ...]
    """Users whose enrolment here is another than in the backup."""
    strangers: tuple[str, ...]
    """Names that belong to another user here: never replaced."""
    profiles: tuple[str, ...]
    """Relying parties whose privacy profile here is another than in the backup."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restoration did."""

    plan: Plan
    ended: dict[str, tuple[Credential, ...]]
    """Credentials of replaced enrolments, by user."""


def plan_restoration(vault: Vault, backup: Backup) -> Plan:
    """Compare ``backup`` with ``vault``."""
    groups: dict[str, list[str]] = {"new": [], "unchanged": [], "replaced": [], "strangers": []}
    for user in backup.users:
        groups[_group(vault, user.template)].append(user.template.name)
    present = vault.privacy_profiles()
    profiles = [rp_id for rp_id, profile in backup.profiles.items() if present.get(rp_id, profile) != profile]
    return Plan(**{group: tuple(names) for group, names in groups.items()}, profiles=tuple(profiles))


def with_owners(backup: Backup, owners: Mapping[int, int]) -> Backup:
    """``backup`` with the uids of owners changed as ``owners`` maps them.

    Raises:
        BackupError: it maps a uid that owns nobody in the backup.
    """
    there = {user.template.owner_uid for user in backup.users}
    if strange := sorted(set(owners) - there):
        raise BackupError(
            f"uid {strange[0]} owns nobody in the backup; its owners are {', '.join(map(str, sorted(there))) or 'none'}"
        )
    users = tuple(
        replace(u, template=replace(u.template, owner_uid=owners.get(u.template.owner_uid, u.template.owner_uid)))
        for u in backup.users
    )
    return replace(backup, users=users)


def restore(vault: Vault, backup: Backup, *, overwrite: bool = False) -> Restored:
    """Put ``backup`` into ``vault``; with ``overwrite`` also over enrolments and profiles that are other.

    Raises:
        BackupError: it contradicts what is there; nothing was changed.
        VaultError: disk full, read-only or damaged; what was restored until then is whole, and stays.
    """
    plan = plan_restoration(vault, backup)
    if plan.strangers:
        raise BackupError(
            f"{', '.join(map(repr, plan.strangers))}: enrolled here as other users than in the backup; delete them "
            "first ('voiceid users delete'). Nothing was changed"
        )
    if (plan.replaced or plan.profiles) and not overwrite:
        what = ", ".join([*map(repr, plan.replaced), *plan.profiles])
        raise BackupError(
            f"{what}: other here than in the backup; --overwrite takes the backup's and ends the credentials of "
            "enrolments that it replaces. Nothing was changed"
        )
    vault.check_writable()
    ended: dict[str, tuple[Credential, ...]] = {}
    for user in backup.users:
        template = user.template
        if template.name not in plan.unchanged:
            ended[template.name] = vault.save_template(template, replace=template.name in plan.replaced)
        present = vault.load_template(template.name).models
        for matching in template.renewed:
            if matching.model_sha256 not in present:
                vault.save_matching(template.name, matching)
    for rp_id, profile in backup.profiles.items():
        vault.set_privacy_profile(rp_id, profile)
    return Restored(plan, {name: credentials for name, credentials in ended.items() if credentials})


def _group(vault: Vault, template: Template) -> str:
    try:
        present = vault.load_template(template.name)
    except UnknownUserError:
        return "new"
    if present.user_id != template.user_id:
        return "strangers"
    return "unchanged" if present.to_bytes() == template.to_bytes() else "replaced"
