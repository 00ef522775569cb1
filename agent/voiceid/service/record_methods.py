"""The methods that read and change what is stored: users, credentials, privacy profiles, lock-out and PIN."""

from __future__ import annotations

from voiceid.service.fields import ADMIN, ANYONE, CREDENTIAL, DONE, MAX_PIN, MIN_PIN, OWNER, PIN, RP, USER, optional
from voiceid.service.schema import Field, Kind, Method

_USER_FACTS = (
    "name, created (Unix seconds), net_speech (seconds), utterance_count, model_name, model_sha256, models (SHA-256 of "
    "every one that there is a matching template for), owner_uid, credential_count, measured_by (SHA-256 of every "
    "spoofing and liveness model whose scores of the enrolment are known), renew (the model in use is none of models), "
    "not_relative (which of spoofing and liveness cannot judge relative to this user for want of these scores)"
)

RECORDS: tuple[Method, ...] = (
    Method(
        "users.list",
        "The caller's own users; for admins all.",
        ANYONE,
        result=(Field("users", Kind.OBJECTS, _USER_FACTS),),
    ),
    Method(
        "users.show",
        "What is stored of `user`.",
        OWNER,
        (USER,),
        (
            Field("user", Kind.OBJECT, "as in users.list"),
            Field("credentials", Kind.OBJECTS, "as in credentials.list"),
        ),
    ),
    Method(
        "users.delete",
        "Delete template, credentials, counters and lock-out state of `user`.",
        OWNER,
        (USER,),
        (Field("report", Kind.OBJECT, "what was removed"),),
    ),
    Method(
        "credentials.list",
        "The credentials of `user`; without it, of all users that the caller may see.",
        ANYONE,
        (optional(USER),),
        (
            Field(
                "credentials",
                Kind.OBJECTS,
                "user, relying_party, credential_id, user_handle, created (Unix seconds); sound ones only",
            ),
            Field("damaged", Kind.OBJECT, "number of credentials that cannot be read, by user, where there are any"),
        ),
    ),
    Method(
        "credentials.revoke",
        "Revoke a credential of `user`.",
        OWNER,
        (USER, CREDENTIAL),
        (Field("credential", Kind.OBJECT, "what it was"),),
    ),
    Method(
        "credentials.revoke_damaged",
        "Remove the credentials of `user` that cannot be read.",
        OWNER,
        (USER,),
        (Field("removed", Kind.INTEGER, "how many there were"),),
    ),
    Method(
        "privacy.show",
        "What a relying party is given; for admins without `relying_party`, every profile that was set.",
        ANYONE,
        (optional(RP),),
        (Field("profiles", Kind.OBJECT, "codebook, merge_runs and durations by relying party"),),
    ),
    Method(
        "privacy.set",
        "Choose what a relying party is given from now on.",
        ADMIN,
        (
            RP,
            Field("codebook", Kind.INTEGER, "50, 100 or 200", least=1, most=1000),
            Field("merge_runs", Kind.BOOLEAN, "merge equal units in a row"),
            Field("durations", Kind.BOOLEAN, "share how long each unit lasts"),
        ),
        (DONE,),
    ),
    Method(
        "lockout.show",
        "Whether `user` is locked.",
        OWNER,
        (USER,),
        (
            Field("locked", Kind.BOOLEAN, "whether a ceremony would be answered with `locked`"),
            Field("disabled", Kind.BOOLEAN, "whether only an admin can end it"),
            Field("retry_after", Kind.INTEGER, "seconds of delay left; 0 where there is none, or no end to it"),
            Field("pin", Kind.BOOLEAN, "whether there is a PIN with tries left"),
            Field("failures", Kind.INTEGER, "failures in a row", admin=True),
            Field("inconclusives", Kind.INTEGER, "inconclusive utterances in a row", admin=True),
            Field("pin_tries", Kind.INTEGER, "tries of the PIN left", admin=True),
            Field("problem", Kind.TEXT, "what is wrong with the state", optional=True, admin=True),
        ),
    ),
    Method(
        "lockout.reset",
        "Forget all failures of `user`, also where voice is disabled or the state is damaged.",
        ADMIN,
        (USER,),
        (DONE,),
    ),
    Method(
        "pin.set",
        "Give `user` a PIN. Whoever is not an admin needs the present one, and cannot while locked.",
        OWNER,
        (
            USER,
            Field("pin", Kind.TEXT, "the new PIN", least=MIN_PIN, most=MAX_PIN),
            Field("current", Kind.TEXT, "the present PIN", optional=True, least=1, most=MAX_PIN),
        ),
        (DONE,),
    ),
    Method(
        "pin.clear",
        "Remove the PIN of `user`. Whoever is not an admin needs it.",
        OWNER,
        (USER, Field("current", Kind.TEXT, "the present PIN", optional=True, least=1, most=MAX_PIN)),
        (DONE,),
    ),
    Method(
        "pin.enter",
        "Check the PIN of `user`. The right one ends the delay, but does not enable a user who is disabled. After 8 "
        "wrong ones in a row it is blocked until an admin resets the lock-out.",
        OWNER,
        (USER, PIN),
        (Field("answer", Kind.TEXT, "`accepted`, `denied` or `locked`"),),
    ),
)
