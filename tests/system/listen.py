"""Run by the system tests: captures until its input ends, and writes what happens, one JSON object a line.

``listen.py CAPTURE ACTIVATION``: both settings as JSON objects. Lines of input call the capture: suspend, resume,
report, close. Every utterance is appended to the file that ``UTTERANCES`` names as 16-bit PCM.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

from voiceid.activation import UtteranceCollector, make_activation
from voiceid.audio.capture import Capture
from voiceid.audio.capture_state import CaptureEvent
from voiceid.settings import ActivationSettings, CaptureSettings


def tell(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def on_event(event: CaptureEvent) -> None:
    tell(state=event.state.value, detail=event.detail)


def obey(capture: Capture) -> None:
    for line in sys.stdin:
        command = line.strip()
        if command == "report":
            counters = capture.counters
            tell(frames=counters.frames, dropped=counters.dropped, opens=counters.opens, device=capture.device)
        else:
            getattr(capture, command)()
    capture.close()


def main() -> None:
    settings = ActivationSettings(**json.loads(sys.argv[2]))
    capture = Capture(CaptureSettings(**json.loads(sys.argv[1])), on_event=on_event)
    activation = make_activation(settings)
    collector: UtteranceCollector | None = None
    threading.Thread(target=obey, args=(capture,), daemon=True).start()
    for frame in capture.frames():
        if frame.gap:
            activation.reset()
            collector = None
        if collector is None:
            if (event := activation.feed(frame.samples)) is not None:
                collector = UtteranceCollector(settings, capture.source, lead=capture.recent(event.lookback))
        elif (waveform := collector.feed(frame.samples)) is not None:
            pcm = (np.clip(waveform.samples, -1, 1) * 32767).astype("<i2")
            with Path(os.environ["UTTERANCES"]).open("ab") as file:
                file.write(pcm.tobytes())
            tell(ending=collector.ending, seconds=waveform.seconds, source=waveform.source, kind=activation.kind)
            collector = None
            activation.reset()


main()
