"""Every method, parameter, result and notification of the daemon.

``python -m voiceid.service.documentation > docs/service.md`` writes this down for people.
"""

from __future__ import annotations

from voiceid.service.fields import ADMIN, ANYONE, DETAIL, DONE
from voiceid.service.listening_methods import LISTENING, LISTENING_NOTIFICATIONS
from voiceid.service.record_methods import RECORDS
from voiceid.service.schema import Field, Kind, Method, Notification

GENERAL: tuple[Method, ...] = (
    Method(
        "hello",
        "Agree on the protocol. Calling it is good manners, not a must.",
        ANYONE,
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
        ANYONE,
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
        "cancel",
        "Stop a request of this connection at once; it fails with `cancelled`.",
        ANYONE,
        (Field("request", Kind.TEXT, "id of the request (numbers as text)", least=1, most=64),),
        (Field("cancelled", Kind.BOOLEAN, "whether it was under way"),),
    ),
    Method(
        "subscribe",
        "Hear of events from now on. Ordinary clients hear of the microphone, admins of every decision too.",
        ANYONE,
        result=(DONE,),
        notifications=("event",),
    ),
    Method(
        "reload",
        "Read the configuration and the models again. If that fails the former ones stay, and the error says why.",
        ADMIN,
        result=(
            DONE,
            Field("restart", Kind.TEXTS, "settings that changed but only count after a restart"),
        ),
    ),
    Method(
        "metrics",
        "The metrics in Prometheus' text format.",
        ADMIN,
        result=(Field("text", Kind.TEXT, "the metrics"),),
    ),
)

_EVENT: tuple[Notification, ...] = (
    Notification(
        "event",
        "Something happened.",
        (
            Field("kind", Kind.TEXT, "`microphone`, `reload` or `decision`"),
            Field("state", Kind.TEXT, "state of the microphone, result of a reload, or the answer"),
            DETAIL,
        ),
    ),
)

METHODS: tuple[Method, ...] = (*GENERAL, *LISTENING, *RECORDS)
NOTIFICATIONS: tuple[Notification, ...] = (*LISTENING_NOTIFICATIONS, *_EVENT)

METHOD_OF: dict[str, Method] = {method.name: method for method in METHODS}
NOTIFICATION_OF: dict[str, Notification] = {notification.name: notification for notification in NOTIFICATIONS}
