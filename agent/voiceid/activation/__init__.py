"""What makes the agent listen: a wake word, a call, any speech or a recording; and when an utterance is over."""

from voiceid.activation.activation import Activated, Activation, ActivationKind
from voiceid.activation.endpoint import Ending, UtteranceCollector
from voiceid.activation.making import make_activation, open_source

__all__ = [
    "Activated",
    "Activation",
    "ActivationKind",
    "Ending",
    "UtteranceCollector",
    "make_activation",
    "open_source",
]
