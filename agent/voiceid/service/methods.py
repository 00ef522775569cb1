"""Every method, parameter, result and notification of the daemon, in one place.

``python -m voiceid.service.documentation > docs/service.md`` writes this down for people.
"""

from __future__ import annotations

from voiceid.credentials.authenticator import MAX_USER_HANDLE
from voiceid.credentials.envelope import MAX_NONCE, MAX_PURPOSE, MIN_NONCE
from voiceid.enrolment.names import MAX_NAME
from voiceid.service.schema import Access, Field, Kind, Method, Notification

MAX_CHUNK = 32_000
"""Bytes of audio in one message: one second of 16-bit samples at 16 kHz."""
MAX_HANDED_SECONDS = 240
"""Seconds of audio that a claim may hold."""
MAX_CLAIM_SECONDS = 300
MAX_HANDING_SECONDS = 60
"""Seconds that a claim lasts at most in which no wake word is waited for."""
MIN_PIN, MAX_PIN = 4, 64

_ANYONE, _ADMIN, _OWNER = (Access.ANYONE,), (Access.ADMIN,), (Access.OWNER,)

_USER = Field("user", Kind.TEXT, "user name", least=1, most=MAX_NAME)
_RP = Field("relying_party", Kind.TEXT, "relying party id, as shop.example.org", least=1, most=253)
_PURPOSE = Field("purpose", Kind.TEXT, "what the user is asked to confirm", least=1, most=MAX_PURPOSE)
_NONCE = Field("nonce", Kind.BYTES, "fresh random bytes of the relying party", least=MIN_NONCE, most=MAX_NONCE)
_AUDIO = Field(
    "audio",
    Kind.BOOLEAN,
    "judge what `audio.append` handed over instead of the microphone: source `file`",
    optional=True,
)
_CREDENTIAL = Field("credential_id", Kind.BYTES, "credential id", least=1, most=1023)
_PIN = Field("pin", Kind.TEXT, "the PIN", least=1, most=MAX_PIN)
_ANSWER = Field("answer", Kind.TEXT, "`accepted`, `denied`, `try_again` or `locked`")
_RETRY = Field(
    "retry_after",
    Kind.INTEGER,
    "with `locked`, for the owner of the enrolment: seconds of delay left, 0 where only an admin can end the lock",
    optional=True,
)
_DECISION = Field("decision", Kind.TEXT, "id of the decision, as in the audit log")
_DETAIL = Field("detail", Kind.OBJECT, "outcome, reasons, scores, thresholds, times, early", optional=True, admin=True)
_USER_FACTS = (
    "name, created (Unix seconds), net_speech (seconds), utterance_count, model_name, model_sha256, models (SHA-256 of "
    "every one that there is a matching template for), owner_uid, credential_count, renew (the model in use is none of "
    "them)"
)
_DONE = Field("done", Kind.BOOLEAN, "true")


def _optional(field: Field) -> Field:
    return Field(field.name, field.kind, field.text, optional=True, least=field.least, most=field.most)


METHODS: tuple[Method, ...] = (
    Method(
        "hello",
        "Agree on the protocol. Calling it is good manners, not a must.",
        _ANYONE,
        (Field("protocol", Kind.INTEGER, "the version that the client speaks", least=0, most=1000),),
        (
            Field("protocol", Kind.INTEGER, "the version that the daemon speaks"),
            Field("version", Kind.TEXT, "version of voiceid"),
            Field("admin", Kind.BOOLEAN, "whether the daemon takes this client for an admin"),
        ),
    ),
    Method(
        "status",
        "How the daemon is. No user, no count, no decision.",
        _ANYONE,
        result=(
            Field("protocol", Kind.INTEGER, "version of the protocol"),
            Field("version", Kind.TEXT, "version of voiceid"),
            Field("microphone", Kind.TEXT, "state of the microphone"),
            Field("activation", Kind.TEXT, "what opens an utterance: wake_word, push_to_talk, voice or file"),
            Field("busy", Kind.BOOLEAN, "whether a client has the capture session"),
            Field("uptime", Kind.NUMBER, "seconds since the start, without suspensions"),
            Field("device", Kind.TEXT, "name of the microphone", optional=True, admin=True),
            Field("users", Kind.INTEGER, "number of users", optional=True, admin=True),
            Field("clients", Kind.INTEGER, "open connections", optional=True, admin=True),
            Field("models", Kind.OBJECT, "card and version for each role", optional=True, admin=True),
            Field("problems", Kind.TEXTS, "what an admin should look at", optional=True, admin=True),
        ),
    ),
    Method(
        "claim",
        "Take the capture session; only one client has it. With `relying_party`, `purpose` and `nonce` it is armed: "
        "the next utterance that a wake word begins from now on is judged among the enrolled, and its envelope comes "
        "as the notification `utterance`, which ends the claim. Where two users cannot be told apart the answer is "
        "`denied`. Not armed, it ends after 60 seconds, or after `[service] claim_idle` seconds (by default 10) "
        "without `audio.append` or another use; then its uid cannot claim again for as long. The end of the "
        "connection ends it too. A uid that hears `busy` and asks again within 3 seconds, as often as it takes, goes "
        "before the one that has the session.",
        _ANYONE,
        (
            Field(_RP.name, _RP.kind, "arm for this relying party; needs the grant", True, _RP.least, _RP.most),
            _optional(_PURPOSE),
            _optional(_NONCE),
            Field("seconds", Kind.INTEGER, "how long at most; 60 by default", True, least=1, most=MAX_CLAIM_SECONDS),
        ),
        (Field("claim", Kind.TEXT, "id of the claim"), Field("seconds", Kind.INTEGER, "how long it holds")),
        ("utterance", "claim.ended"),
    ),
    Method(
        "release",
        "Give the capture session back and forget the audio that was handed over.",
        _ANYONE,
        result=(Field("released", Kind.BOOLEAN, "whether this client had it"),),
    ),
    Method(
        "audio.append",
        "Hand over audio: mono, 16 kHz, 16-bit little-endian. Needs the claim. Whatever is signed of it says `file`.",
        _ANYONE,
        (
            Field("pcm", Kind.BYTES, "an even number of bytes, at most one second", least=2, most=MAX_CHUNK),
            Field("end", Kind.BOOLEAN, "whether a recording ends here"),
        ),
        (Field("seconds", Kind.NUMBER, "what is held now"),),
    ),
    Method(
        "verify",
        "Listen and decide whether `user` speaks, live. Counts in the lock-out.",
        _OWNER,
        (
            _USER,
            _PURPOSE,
            Field("challenge", Kind.BYTES, "random bytes, repeated in the result", least=MIN_NONCE, most=MAX_NONCE),
            _AUDIO,
        ),
        (_ANSWER, _RETRY, _DECISION, Field("challenge", Kind.BYTES, "as sent"), _DETAIL),
        ("progress",),
    ),
    Method(
        "authenticate",
        "As `verify`, for a relying party: an acceptance brings a signed envelope. The credential is checked before "
        "the microphone is listened to.",
        (Access.GRANTED,),
        (_USER, _RP, _PURPOSE, _NONCE, _optional(_CREDENTIAL), _AUDIO),
        (
            _ANSWER,
            _RETRY,
            _DECISION,
            Field("envelope", Kind.BYTES, "the signed envelope (CBOR)", optional=True),
            Field("source", Kind.TEXT, "`microphone` or `file`, as signed", optional=True),
            _DETAIL,
        ),
        ("progress",),
    ),
    Method(
        "enrol",
        "Enrol `user` from the microphone or from the audio that was handed over. A new name belongs to the caller; "
        "a login name of this machine only to that login or an admin. That a name is another uid's is told at the end, "
        "and three times an hour: then the caller cannot enrol new names until that hour is over.",
        (Access.CREATOR,),
        (
            _USER,
            Field("replace", Kind.BOOLEAN, "enrol anew, which ends all credentials", optional=True),
            Field(
                "renew",
                Kind.BOOLEAN,
                "a matching template for the identity model in use; all credentials stay. A former model must know "
                "every utterance, which counts in the lock-out; where none is there, `pin` or `unverified` is needed",
                optional=True,
            ),
            Field("pin", Kind.TEXT, "the user's PIN, for `renew`", optional=True, least=1, most=MAX_PIN),
            Field("unverified", Kind.BOOLEAN, "`renew` without any check of the person (admins)", optional=True),
            Field("owner_uid", Kind.INTEGER, "owner of a new enrolment (admins)", True, least=0, most=2**32 - 2),
            _AUDIO,
        ),
        (
            Field("user", Kind.TEXT, "user name"),
            Field("utterance_count", Kind.INTEGER, "utterances in the template"),
            Field("net_speech", Kind.NUMBER, "seconds of speech in the template"),
            Field("model_name", Kind.TEXT, "identity model"),
            Field("ended_credentials", Kind.OBJECTS, "credentials that this ended, as in credentials.list"),
            Field(
                "similar", Kind.TEXTS, "users who sound alike; others are not told, so as to be no oracle", admin=True
            ),
        ),
        ("progress", "enrol.progress"),
    ),
    Method(
        "cancel",
        "Stop a request of this connection at once; it fails with `cancelled`.",
        _ANYONE,
        (Field("request", Kind.TEXT, "id of the request (numbers as text)", least=1, most=64),),
        (Field("cancelled", Kind.BOOLEAN, "whether it was under way"),),
    ),
    Method(
        "subscribe",
        "Hear of events from now on. Ordinary clients hear of the microphone, admins of every decision too.",
        _ANYONE,
        result=(_DONE,),
        notifications=("event",),
    ),
    Method(
        "users.list",
        "The caller's own users; for admins all.",
        _ANYONE,
        result=(Field("users", Kind.OBJECTS, _USER_FACTS),),
    ),
    Method(
        "users.show",
        "What is stored of `user`.",
        _OWNER,
        (_USER,),
        (
            Field("user", Kind.OBJECT, "as in users.list"),
            Field("credentials", Kind.OBJECTS, "as in credentials.list"),
        ),
    ),
    Method(
        "users.delete",
        "Delete template, credentials, counters and lock-out state of `user`.",
        _OWNER,
        (_USER,),
        (Field("report", Kind.OBJECT, "what was removed"),),
    ),
    Method(
        "credentials.list",
        "The credentials of `user`; without it, of all users that the caller may see.",
        _ANYONE,
        (_optional(_USER),),
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
        "credentials.register",
        "Listen, decide, and on acceptance make a credential of `user` for the relying party. Counts in the lock-out.",
        (Access.OWNER, Access.GRANTED),
        (
            _USER,
            _RP,
            Field("challenge", Kind.BYTES, "the relying party's challenge", least=MIN_NONCE, most=MAX_NONCE),
            Field("user_handle", Kind.BYTES, "handle at the relying party", True, least=1, most=MAX_USER_HANDLE),
            _AUDIO,
        ),
        (
            _ANSWER,
            _RETRY,
            _DECISION,
            Field("credential", Kind.OBJECT, "as in credentials.list", optional=True),
            Field("registration", Kind.OBJECT, "WebAuthn RegistrationResponseJSON", optional=True),
            _DETAIL,
        ),
        ("progress",),
    ),
    Method(
        "credentials.revoke",
        "Revoke a credential of `user`.",
        _OWNER,
        (_USER, _CREDENTIAL),
        (Field("credential", Kind.OBJECT, "what it was"),),
    ),
    Method(
        "credentials.revoke_damaged",
        "Remove the credentials of `user` that cannot be read.",
        _OWNER,
        (_USER,),
        (Field("removed", Kind.INTEGER, "how many there were"),),
    ),
    Method(
        "privacy.show",
        "What a relying party is given; for admins without `relying_party`, every profile that was set.",
        _ANYONE,
        (_optional(_RP),),
        (Field("profiles", Kind.OBJECT, "codebook, merge_runs and durations by relying party"),),
    ),
    Method(
        "privacy.set",
        "Choose what a relying party is given from now on.",
        _ADMIN,
        (
            _RP,
            Field("codebook", Kind.INTEGER, "50, 100 or 200", least=1, most=1000),
            Field("merge_runs", Kind.BOOLEAN, "merge equal units in a row"),
            Field("durations", Kind.BOOLEAN, "share how long each unit lasts"),
        ),
        (_DONE,),
    ),
    Method(
        "lockout.show",
        "Whether `user` is locked.",
        _OWNER,
        (_USER,),
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
        _ADMIN,
        (_USER,),
        (_DONE,),
    ),
    Method(
        "pin.set",
        "Give `user` a PIN. Whoever is not an admin needs the present one, and cannot while locked.",
        _OWNER,
        (
            _USER,
            Field("pin", Kind.TEXT, "the new PIN", least=MIN_PIN, most=MAX_PIN),
            Field("current", Kind.TEXT, "the present PIN", optional=True, least=1, most=MAX_PIN),
        ),
        (_DONE,),
    ),
    Method(
        "pin.clear",
        "Remove the PIN of `user`. Whoever is not an admin needs it.",
        _OWNER,
        (_USER, Field("current", Kind.TEXT, "the present PIN", optional=True, least=1, most=MAX_PIN)),
        (_DONE,),
    ),
    Method(
        "pin.enter",
        "Check the PIN of `user`. The right one ends the delay, but does not enable a user who is disabled. After 8 "
        "wrong ones in a row it is blocked until an admin resets the lock-out.",
        _OWNER,
        (_USER, _PIN),
        (Field("answer", Kind.TEXT, "`accepted`, `denied` or `locked`"),),
    ),
    Method(
        "reload",
        "Read the configuration and the models again. If that fails the former ones stay, and the error says why.",
        _ADMIN,
        result=(
            _DONE,
            Field("restart", Kind.TEXTS, "settings that changed but only count after a restart"),
        ),
    ),
    Method(
        "metrics",
        "The metrics in Prometheus' text format.",
        _ADMIN,
        result=(Field("text", Kind.TEXT, "the metrics"),),
    ),
)

NOTIFICATIONS: tuple[Notification, ...] = (
    Notification(
        "progress",
        "Where a request stands.",
        (
            Field("request", Kind.TEXT, "id of the request"),
            Field("stage", Kind.TEXT, "`listening`, `speech`, `judging`"),
        ),
    ),
    Notification(
        "enrol.progress",
        "What became of one utterance of an enrolment.",
        (
            Field("request", Kind.TEXT, "id of the request"),
            Field("accepted", Kind.BOOLEAN, "whether it was taken"),
            Field("fault", Kind.TEXT, "why not; `unsuitable` where only admins are told more", optional=True),
            Field("message", Kind.TEXT, "for people"),
            Field("progress", Kind.NUMBER, "0 to 1"),
        ),
    ),
    Notification(
        "utterance",
        "The answer to an utterance after a spontaneous wake word, for the client whose claim is armed.",
        (
            Field("claim", Kind.TEXT, "id of the claim"),
            _ANSWER,
            _DECISION,
            Field("user", Kind.TEXT, "who was accepted", optional=True),
            Field("envelope", Kind.BYTES, "the signed envelope (CBOR)", optional=True),
            Field("source", Kind.TEXT, "`microphone` or `file`, as signed", optional=True),
            _DETAIL,
        ),
    ),
    Notification(
        "claim.ended",
        "The claim is over.",
        (Field("claim", Kind.TEXT, "id of the claim"), Field("reason", Kind.TEXT, "`used`, `expired`, `idle`")),
    ),
    Notification(
        "event",
        "Something happened.",
        (
            Field("kind", Kind.TEXT, "`microphone`, `reload` or `decision`"),
            Field("state", Kind.TEXT, "state of the microphone, result of a reload, or the answer"),
            _DETAIL,
        ),
    ),
)

METHOD_OF: dict[str, Method] = {method.name: method for method in METHODS}
NOTIFICATION_OF: dict[str, Notification] = {notification.name: notification for notification in NOTIFICATIONS}
