"""How the daemon's answers are shown."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from voiceid.cli.remote import emit_answer


class Recorder:
    """A context that keeps what is written."""

    def emit(self, value: Any, *shown: Any) -> None:
        self.value, self.shown = value, shown


def shown(result: dict[str, Any]) -> tuple[int, str, dict[str, Any]]:
    """Exit code, text and JSON of an answer to a question about Ada."""
    recorder = Recorder()
    code = emit_answer(recorder, {"decision": "d1", **result}, "ada")
    console = Console(width=200)
    with console.capture() as capture:
        for part in recorder.shown:
            console.print(part)
    return int(code), capture.get(), recorder.value


def test_admins_see_the_fused_score_and_others_see_none() -> None:
    detail = {"outcome": "accepted", "reasons": ["all judges agree"], "voiceid": 0.9274, "voiceid_threshold": 0.2196}
    code, text, value = shown({"answer": "accepted", "detail": detail})
    assert code == 0 and text.splitlines()[0] == "accepted  ada  VoiceID score 0.927 (accepted from 0.220)"
    assert value["voiceid"] == 0.9274
    code, text, value = shown({"answer": "denied"})
    assert code == 10 and text.splitlines()[0] == "denied  ada" and "voiceid" not in value


def test_without_a_score_there_is_none_to_see() -> None:
    detail = {"outcome": "inconclusive", "reasons": ["too little speech"], "voiceid": None, "voiceid_threshold": None}
    code, text, _ = shown({"answer": "try_again", "detail": detail})
    assert code == 14 and text.splitlines()[0] == "try again  ada"
