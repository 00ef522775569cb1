"""How many files may fail before there is an error."""

from tools.evaluation.parallel import Account
from tools.studies.errors import StudyError

MOST_FAILURES = 0.05
"""Share of files that may be unreadable or impossible to make."""


def refuse_failures(account: Account) -> None:
    """Raise :class:`StudyError` where too many files failed for the rest to stand for all."""
    if account.failure_share() > MOST_FAILURES:
        first = "; ".join(list(account.failed.values())[:3])
        raise StudyError(
            f"{len(account.failed)} of {account.chosen} files failed, more than {MOST_FAILURES:.0%}: {first}"
        )
