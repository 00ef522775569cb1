"""The error of this study, and how many files may fail before there is one."""

from tools.evaluation.parallel import Account
from voiceid.errors import VoiceIdError

MOST_FAILURES = 0.05
"""Share of files that may be unreadable or impossible to make."""


class StudyError(VoiceIdError):
    """Data or options from which no honest number can come; the message says what is wrong and what to do."""


def refuse_failures(account: Account) -> None:
    """Raise :class:`StudyError` where too many files failed for the rest to stand for all."""
    if account.failure_share() > MOST_FAILURES:
        first = "; ".join(list(account.failed.values())[:3])
        raise StudyError(
            f"{len(account.failed)} of {account.chosen} files failed, more than {MOST_FAILURES:.0%}: {first}"
        )
