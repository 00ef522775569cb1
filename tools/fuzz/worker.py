"""The process that fuzzes one target until its time is up or it finds something: ``python -m tools.fuzz.worker``."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    """Arguments: target, folder of the corpus, seconds of processor time; the rest goes to libFuzzer."""
    import atheris

    name, corpus, seconds, *rest = sys.argv[1:]
    with atheris.instrument_imports(include=["voiceid", "fido2"]):
        from tools.fuzz.json_mutation import mutate_json
        from tools.fuzz.target import load_target

        target = load_target(name, Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-")))
    for number, seed in enumerate(target.seeds):
        (Path(corpus) / f"seed-{number:03}").write_bytes(seed)
    words = Path(corpus).with_suffix(".words")
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words), "ascii")
    began = time.process_time()

    def run(data: bytes) -> None:
        target.run(data)
        if time.process_time() - began > float(seconds):
            os.kill(os.getpid(), signal.SIGUSR1)  # libFuzzer says what it did, and ends

    options = [f"-max_len={target.max_length}", f"-dict={words}", "-print_final_stats=1", "-timeout=120"]
    options += ["-rss_limit_mb=2048", "-len_control=0", *rest]

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        return mutate_json(data, seed, lambda: bytes(atheris.Mutate(data, len(data))))[:max_size]

    atheris.Setup([sys.argv[0], corpus, *options], run, custom_mutator=mutate if target.json else None)
    atheris.Fuzz()


def _escaped(word: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word.encode())


if __name__ == "__main__":
    main()
