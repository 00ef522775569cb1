"""What synthesizers say: sentences of LibriSpeech training speakers, and commands to a voice assistant."""

from __future__ import annotations

from itertools import product

from tools.train.data.corpus import read_index

MAX_CHARACTERS = 110
"""About seven seconds: longer sentences cost more than they teach."""
OPENINGS = ("Alexa,", "Hey Jarvis,", "Okay, house,", "Computer,", "Please")
REQUESTS = (
    "open the front door",
    "turn off the alarm in the garage",
    "send two hundred dollars to Peter",
    "set the living room lights to forty percent",
    "what is my account balance?",
    "read me the latest message from my doctor",
    "call the bank and confirm the transfer",
    "start the car and unlock it",
    "play some quiet music in the bedroom",
    "order the same groceries as last week",
    "make the kitchen a little warmer",
    "remind me at half past seven to take my medicine",
)


def training_texts() -> list[str]:
    """Distinct sentences, commands last; the same list on every run."""
    sentences = {
        item.text.strip().capitalize() + "."
        for item in read_index()
        if item.split == "train" and item.speaker.startswith("ls") and 15 <= len(item.text) <= MAX_CHARACTERS
    }
    commands = [
        f"{opening} {request}{'' if request.endswith('?') else '.'}" for opening, request in product(OPENINGS, REQUESTS)
    ]
    return sorted(sentences) + commands * 2
