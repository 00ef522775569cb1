"""The log: lines for people, fields for journald, and one audit event a decision. No audio, no score, no name."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from voiceid.errors import ServiceError
from voiceid.service.judge import Verdict
from voiceid.service.peers import Peer

_JOURNAL = Path("/run/systemd/journal/socket")
_PRIORITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
_log = logging.getLogger("voiceid.audit")


class JournalHandler(logging.Handler):
    """Sends records to journald in its native protocol, with their ``fields`` as fields."""

    def __init__(self, path: Path = _JOURNAL) -> None:
        super().__init__()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | getattr(socket, "SOCK_CLOEXEC", 0))
        self._socket.setblocking(False)
        self._socket.connect(os.fspath(path))

    def emit(self, record: logging.LogRecord) -> None:
        fields = {
            "MESSAGE": self.format(record),
            "PRIORITY": str(_PRIORITY.get(record.levelno, 6)),
            "SYSLOG_IDENTIFIER": "voiceid",
            "VOICEID_MODULE": record.name,
            **getattr(record, "fields", {}),
        }
        try:
            self._socket.send(b"".join(_field(name, value) for name, value in fields.items()))
        except OSError:  # a full journal must not stop the daemon
            _raise_if_needed(record)


class StreamLog(logging.StreamHandler[TextIO]):
    """Writes lines to a stream; where it cannot, only records that are ``needed`` raise."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        _raise_if_needed(record)
        super().handleError(record)


def set_up_logging() -> None:
    """Log to journald where systemd connects us to it, else to standard error."""
    handler: logging.Handler = StreamLog(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    if os.environ.get("JOURNAL_STREAM"):
        with contextlib.suppress(OSError):
            handler = JournalHandler()
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


class Audit:
    """Writes one event for each decision. ``pseudonym`` tells what stands for a user's name.

    The event of what is signed is written before the signature is handed out, or it is not handed out.
    """

    def __init__(self, pseudonym: Callable[[str], str]) -> None:
        self._pseudonym = pseudonym

    def decision(self, ceremony: str, verdict: Verdict, peer: Peer | None, rp_id: str | None) -> None:
        """Log ``verdict``; ``peer`` asked for it, on behalf of ``rp_id``.

        Raises:
            ServiceError: it is signed, and cannot be logged.
        """
        signed = verdict.envelope is not None or verdict.registered is not None
        fields = {
            "VOICEID_EVENT": "decision",
            "VOICEID_DECISION": verdict.decision_id,
            "VOICEID_CEREMONY": ceremony,
            "VOICEID_OUTCOME": verdict.decision.outcome.value,
            "VOICEID_USER": self._pseudonym(verdict.user) if verdict.user else "",
            "VOICEID_UID": str(peer.uid) if peer else "",
            "VOICEID_RELYING_PARTY": rp_id or "",
            "VOICEID_SOURCE": verdict.source.value if verdict.source else "",
            "VOICEID_SIGNED": "yes" if signed else "no",
        }
        try:
            _log.info(_line(fields), extra={"fields": fields, "needed": signed})
        except (OSError, ValueError) as error:
            raise ServiceError(
                f"the audit log cannot be written ({error}), and nothing is signed without; see where it goes"
            ) from error

    def failure(self, ceremony: str, error: Exception, peer: Peer | None, user: str | None, rp_id: str | None) -> None:
        """Log that a ceremony broke off with ``error`` while it was judged or signed: nothing was handed out."""
        fields = {
            "VOICEID_EVENT": "failure",
            "VOICEID_CEREMONY": ceremony,
            "VOICEID_ERROR": type(error).__name__,
            "VOICEID_USER": self._pseudonym(user) if user else "",
            "VOICEID_UID": str(peer.uid) if peer else "",
            "VOICEID_RELYING_PARTY": rp_id or "",
            "VOICEID_SIGNED": "no",
        }
        _log.error(_line(fields), extra={"fields": fields})

    def change(self, what: str, peer: Peer, user: str | None = None) -> None:
        """Log that ``peer`` changed something of ``user``."""
        fields = {
            "VOICEID_EVENT": what,
            "VOICEID_USER": self._pseudonym(user) if user else "",
            "VOICEID_UID": str(peer.uid),
        }
        _log.info("event=%s user=%s uid=%s", what, fields["VOICEID_USER"] or "-", peer.uid, extra={"fields": fields})


def _raise_if_needed(record: logging.LogRecord) -> None:
    """Raise the error under way, which kept ``record`` from being written, if its caller must know."""
    if getattr(record, "needed", False):
        raise


def _line(fields: dict[str, str]) -> str:
    return " ".join(f"{name.removeprefix('VOICEID_').lower()}={value or '-'}" for name, value in fields.items())


def _field(name: str, value: str) -> bytes:
    data = value.encode("utf-8", "replace")
    if b"\n" not in data:
        return name.encode() + b"=" + data + b"\n"
    return name.encode() + b"\n" + len(data).to_bytes(8, "little") + data + b"\n"
