"""The methods that need the capture session, and what a client hears of them meanwhile."""

from __future__ import annotations

from voiceid.credentials.authenticator import MAX_USER_HANDLE
from voiceid.credentials.envelope import MAX_NONCE, MIN_NONCE
from voiceid.service.fields import (
    ANSWER,
    ANYONE,
    AUDIO,
    CREDENTIAL,
    DECISION,
    DETAIL,
    MAX_CHUNK,
    MAX_CLAIM_SECONDS,
    MAX_PIN,
    NONCE,
    OWNER,
    PURPOSE,
    RETRY,
    RP,
    USER,
    optional,
)
from voiceid.service.schema import Access, Field, Kind, Method, Notification

LISTENING: tuple[Method, ...] = (
    Method(
        "claim",
        "Take the capture session; only one client has it. With `relying_party`, `purpose` and `nonce` it is armed: "
        "each utterance that a wake word begins from now on is judged among the enrolled, and the answer comes as the "
        "notification `utterance`; the first that brings an envelope ends the claim. Where two users cannot be told "
        "apart the answer is `denied`. Not armed, it ends after 60 seconds, or after `[service] claim_idle` seconds "
        "(by default 10) without `audio.append` or another use; then its uid cannot claim again for as long. The end "
        "of the connection ends it too. A uid that hears `busy` and asks again within 3 seconds, as often as it takes, "
        "goes before the one that has the session.",
        ANYONE,
        (
            Field(RP.name, RP.kind, "arm for this relying party; needs the grant", True, RP.least, RP.most),
            optional(PURPOSE),
            optional(NONCE),
            Field("seconds", Kind.INTEGER, "how long at most; 60 by default", True, least=1, most=MAX_CLAIM_SECONDS),
        ),
        (Field("claim", Kind.TEXT, "id of the claim"), Field("seconds", Kind.INTEGER, "how long it holds")),
        ("utterance", "claim.ended"),
    ),
    Method(
        "release",
        "Give the capture session back and forget the audio that was handed over.",
        ANYONE,
        result=(Field("released", Kind.BOOLEAN, "whether this client had it"),),
    ),
    Method(
        "audio.append",
        "Hand over audio: mono, 16 kHz, 16-bit little-endian. Needs the claim. Whatever is signed of it says `file`.",
        ANYONE,
        (
            Field("pcm", Kind.BYTES, "an even number of bytes, at most one second", least=2, most=MAX_CHUNK),
            Field("end", Kind.BOOLEAN, "whether a recording ends here"),
        ),
        (Field("seconds", Kind.NUMBER, "what is held now"),),
    ),
    Method(
        "verify",
        "Listen and decide whether `user` speaks, live. Counts in the lock-out.",
        OWNER,
        (
            USER,
            PURPOSE,
            Field("challenge", Kind.BYTES, "random bytes, repeated in the result", least=MIN_NONCE, most=MAX_NONCE),
            AUDIO,
        ),
        (ANSWER, RETRY, DECISION, Field("challenge", Kind.BYTES, "as sent"), DETAIL),
        ("progress",),
    ),
    Method(
        "authenticate",
        "As `verify`, for a relying party: an acceptance brings a signed envelope. The credential is checked before "
        "the microphone is listened to.",
        (Access.GRANTED,),
        (USER, RP, PURPOSE, NONCE, optional(CREDENTIAL), AUDIO),
        (
            ANSWER,
            RETRY,
            DECISION,
            Field("envelope", Kind.BYTES, "the signed envelope (CBOR)", optional=True),
            Field("source", Kind.TEXT, "`microphone` or `file`, as signed", optional=True),
            DETAIL,
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
            USER,
            Field("replace", Kind.BOOLEAN, "enrol anew, which ends all credentials", optional=True),
            Field(
                "renew",
                Kind.BOOLEAN,
                "a matching template for the identity model in use; all credentials stay. A former model must know "
                "every utterance, which counts in the lock-out; where none is there, `pin` or `unverified` is needed",
                optional=True,
            ),
            Field(
                "again",
                Kind.BOOLEAN,
                "`renew` also where nothing is to be renewed: replaces the template for the model in use",
                optional=True,
            ),
            Field("pin", Kind.TEXT, "the user's PIN, for `renew`", optional=True, least=1, most=MAX_PIN),
            Field("unverified", Kind.BOOLEAN, "`renew` without any check of the person (admins)", optional=True),
            Field("owner_uid", Kind.INTEGER, "owner of a new enrolment (admins)", True, least=0, most=2**32 - 2),
            AUDIO,
        ),
        (
            Field("user", Kind.TEXT, "user name"),
            Field("utterance_count", Kind.INTEGER, "utterances in the template"),
            Field("net_speech", Kind.NUMBER, "seconds of speech in the template"),
            Field("model_name", Kind.TEXT, "identity model"),
            Field(
                "changed",
                Kind.BOOLEAN,
                "false where `renew` without `again` found a template for the identity model in use, and scores by "
                "the detectors in use: nothing was listened to, judged or stored then, and the rest is that of the "
                "enrolment, as in users.show",
            ),
            Field("ended_credentials", Kind.OBJECTS, "credentials that this ended, as in credentials.list"),
            Field(
                "similar", Kind.TEXTS, "users who sound alike; others are not told, so as to be no oracle", admin=True
            ),
        ),
        ("progress", "enrol.progress"),
    ),
    Method(
        "credentials.register",
        "Listen, decide, and on acceptance make a credential of `user` for the relying party. Counts in the lock-out.",
        (Access.OWNER, Access.GRANTED),
        (
            USER,
            RP,
            Field("challenge", Kind.BYTES, "the relying party's challenge", least=MIN_NONCE, most=MAX_NONCE),
            Field("user_handle", Kind.BYTES, "handle at the relying party", True, least=1, most=MAX_USER_HANDLE),
            AUDIO,
        ),
        (
            ANSWER,
            RETRY,
            DECISION,
            Field("credential", Kind.OBJECT, "as in credentials.list", optional=True),
            Field("registration", Kind.OBJECT, "WebAuthn RegistrationResponseJSON", optional=True),
            DETAIL,
        ),
        ("progress",),
    ),
)

LISTENING_NOTIFICATIONS: tuple[Notification, ...] = (
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
            ANSWER,
            DECISION,
            Field("user", Kind.TEXT, "who was accepted", optional=True),
            Field("envelope", Kind.BYTES, "the signed envelope (CBOR)", optional=True),
            Field("source", Kind.TEXT, "`microphone` or `file`, as signed", optional=True),
            DETAIL,
        ),
    ),
    Notification(
        "claim.ended",
        "The claim is over.",
        (Field("claim", Kind.TEXT, "id of the claim"), Field("reason", Kind.TEXT, "`used`, `expired`, `idle`")),
    ),
)
