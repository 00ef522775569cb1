"""What a service provider installs: check registrations and envelopes. Needs no microphone and no models."""

from voiceid.relying_party.registration import Registration, verify_registration
from voiceid.relying_party.verification import VerifiedEnvelope, verify

__all__ = ["Registration", "VerifiedEnvelope", "verify", "verify_registration"]
