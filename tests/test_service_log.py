"""What the daemon writes down: metrics and the audit log, without names and scores."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import socket
import stat
import urllib.request
from pathlib import Path

import pytest

from voiceid.audio.capture_state import CaptureCounters, CaptureState
from voiceid.credentials.authenticator import Registered
from voiceid.errors import ServiceError
from voiceid.service.audit import Audit, JournalHandler, StreamLog
from voiceid.service.judge import Answer, Verdict
from voiceid.service.metrics import Metrics
from voiceid.service.peers import Peer
from voiceid.types import Decision, Outcome, Source

VERDICT = Verdict(
    "d" * 32,
    Decision(Outcome.SPOOF, ("sounds artificial: spoofing -3.21 is below +0.50",), voiceid=0.123),
    Source.FILE,
    "Ada",
)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_four_plain_answers_stand_for_eight_outcomes():
    assert {outcome: Answer.of(outcome).value for outcome in Outcome} == {
        Outcome.LOCKED_OUT: "locked",
        Outcome.NOT_ENROLLED: "denied",
        Outcome.INCONCLUSIVE: "try_again",
        Outcome.SPOOF: "denied",
        Outcome.REPLAY: "denied",
        Outcome.INCONSISTENT: "denied",
        Outcome.REJECTED: "denied",
        Outcome.ACCEPTED: "accepted",
    }


def test_the_first_failed_reload_is_seen_as_a_rise(tmp_path):
    metrics = Metrics()
    line = 'voiceid_reloads_total{result="failed"}'
    assert f"{line} 0.0\n" in metrics.text()
    metrics.reload("failed")
    assert f"{line} 1.0\n" in metrics.text()


def test_metrics_count_and_are_written_for_their_group(tmp_path):
    metrics = Metrics()
    metrics.decision("verify", "spoof", 0.05)
    metrics.decision("verify", "locked_out", None)
    metrics.request("status", "ok", 0.001)
    metrics.clients(3)
    counters = CaptureCounters(100, 7, 1, 2, 4, {CaptureState.LOST: 1})
    metrics.microphone("lost", counters)
    path = tmp_path / "metrics.prom"
    metrics.write(path)
    metrics.write(path)
    text = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 and list(tmp_path.iterdir()) == [path]
    for line in (
        'voiceid_decisions_total{ceremony="verify",outcome="spoof"} 1.0',
        "voiceid_judging_seconds_count 1.0",
        'voiceid_requests_total{method="status",result="ok"} 1.0',
        "voiceid_clients 3.0",
        'voiceid_microphone_state{state="lost"} 1.0',
        'voiceid_microphone_state{state="listening"} 0.0',
        "voiceid_dropped_samples_total 7.0",
    ):
        assert line in text
    with pytest.raises(OSError):
        metrics.write(tmp_path / "none" / "metrics.prom")


def test_a_port_only_on_this_machine():
    metrics, port = Metrics(), free_port()
    metrics.serve(port)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert b"voiceid_info" in answer.read()
    with pytest.raises(ServiceError, match="metrics_port"):
        Metrics().serve(port)


def test_one_audit_event_a_decision_without_name_score_or_reason(caplog):
    caplog.set_level(logging.INFO, "voiceid.audit")
    Audit(lambda name: "13e2048a47c6").decision("authenticate", VERDICT, Peer(1000, 1000, 1), "shop.example.org")
    (record,) = caplog.records
    assert record.fields["VOICEID_DECISION"] == VERDICT.decision_id
    assert record.fields["VOICEID_OUTCOME"] == "spoof" and record.fields["VOICEID_UID"] == "1000"
    assert record.fields["VOICEID_USER"] == "13e2048a47c6" and record.fields["VOICEID_SIGNED"] == "no"
    written = record.getMessage() + str(record.fields)
    assert not any(secret in written for secret in ("Ada", "0.123", "3.21", "sounds"))


SIGNED = dataclasses.replace(VERDICT, registered=Registered(None, {}))


@contextlib.contextmanager
def logged_by(handler):
    """What is audited goes to ``handler`` alone."""
    log = logging.getLogger("voiceid.audit")
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = True


def test_nothing_that_is_signed_goes_unlogged(tmp_path, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)
    audit, peer = Audit(lambda name: "13e2048a47c6"), Peer(1000, 1000, 1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "journal"))
        gone = JournalHandler(tmp_path / "journal")
    with contextlib.suppress(OSError), Path("/dev/full").open("w") as full:
        for handler in (gone, StreamLog(full)):
            with logged_by(handler):
                audit.decision("verify", VERDICT, peer, None)
                audit.change("pin_set", peer, "Ada")
                with pytest.raises(ServiceError, match="audit log cannot be written"):
                    audit.decision("register", SIGNED, peer, "shop.example.org")


def test_journald_gets_fields(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "journal"))
        handler = JournalHandler(tmp_path / "journal")
        fields = {"VOICEID_EVENT": "decision", "VOICEID_USER": "two\nlines"}
        record = logging.LogRecord("voiceid.audit", logging.WARNING, "", 0, "done", None, None)
        record.fields = fields
        handler.emit(record)
        sent = journal.recv(4096)
    assert b"MESSAGE=done\n" in sent and b"PRIORITY=4\n" in sent and b"VOICEID_EVENT=decision\n" in sent
    assert b"VOICEID_USER\n" + (9).to_bytes(8, "little") + b"two\nlines\n" in sent
    handler.emit(record)  # the journal is gone
