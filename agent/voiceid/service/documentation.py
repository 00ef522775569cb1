"""``python -m voiceid.service.documentation > docs/service.md``: the protocol's description for people."""

from __future__ import annotations

import sys

from voiceid.service.fields import MAX_HANDED_SECONDS
from voiceid.service.methods import METHODS, NOTIFICATIONS
from voiceid.service.schema import Access, Fault, Field, Kind, Method
from voiceid.service.wire import MAX_ANSWER, MAX_MESSAGE, PROTOCOL

_INTRODUCTION = f"""# The daemon's protocol

<!-- Made by `python -m voiceid.service.documentation > docs/service.md`; see agent/voiceid/service/methods.py. -->

`voiceid daemon` listens on a Unix socket and speaks [JSON-RPC 2.0](https://www.jsonrpc.org/specification), version
{PROTOCOL} of the methods below, one message a line in UTF-8. In Python use `voiceid.service.client`. From a shell:

    printf '{{"jsonrpc":"2.0","id":1,"method":"status"}}\\n' | socat -t 5 - UNIX:/run/voiceid/voiceid.sock

- A message to the daemon has at most {MAX_MESSAGE} bytes, one from it at most {MAX_ANSWER}. What is larger, or no JSON
  object, ends the connection. Keys must be unique; batches and requests without an id are not taken. Bytes are
  base64url without padding.
- Requests of one connection run side by side; `cancel` stops one at once. The end of a connection cancels all of its
  requests and gives the capture session back. Who only ends sending (`shutdown`) still hears what is under way.
- One client at a time has the capture session: by `claim`, or for the time of one `verify`, `authenticate`, `enrol` or
  `credentials.register`. A claim holds at most {MAX_HANDED_SECONDS} seconds of audio that a client handed over.
- Who calls is known from the kernel (`SO_PEERCRED`). An ordinary client hears `accepted`, `denied`, `try_again` or
  `locked`, never a score or a reason; fields marked *admins* are taken out for everybody else. The owner of an
  enrolment hears how long its lock lasts (`retry_after`, as from `lockout.show`).
- A client that sends too fast is read more slowly; one that does not read its answers is disconnected.
"""


def document() -> str:
    """The text of ``docs/service.md``."""
    access = "\n".join(f"- *{rule.value}*: {rule.meaning}" for rule in Access)
    methods = "\n\n".join(_method(method) for method in METHODS)
    notifications = "\n\n".join(f"### {n.name}\n\n{n.text}\n\n{_table('parameter', n.params)}" for n in NOTIFICATIONS)
    faults = "\n".join(f"| {fault.code} | {fault.value} | {fault.meaning} |" for fault in Fault)
    return (
        f"{_INTRODUCTION}\n## Access\n\nAdmins may call everything. For others every rule named must hold.\n\n"
        f"{access}\n\n"
        f"## Methods\n\n{methods}\n\n## Notifications\n\n{notifications}\n\n"
        f"## Errors\n\n`error.code` and `error.data.name`:\n\n| code | name | meaning |\n|---|---|---|\n{faults}\n"
    )


def _method(method: Method) -> str:
    rules = " and ".join(rule.value for rule in method.access)
    parts = [f"### {method.name}", f"{method.text} Access: *{rules}*."]
    parts += [_table(title, fields) for title, fields in (("parameter", method.params), ("result", method.result))]
    if method.notifications:
        parts.append("Notifications: " + ", ".join(f"`{name}`" for name in method.notifications) + ".")
    return "\n\n".join(part for part in parts if part)


def _table(title: str, fields: tuple[Field, ...]) -> str:
    rows = "\n".join(f"| {field.name} | {field.kind.value}{_bounds(field)} | {_remarks(field)} |" for field in fields)
    return f"| {title} | type | |\n|---|---|---|\n{rows}" if rows else ""


def _bounds(field: Field) -> str:
    unit = {Kind.TEXT: " characters", Kind.BYTES: " bytes"}.get(field.kind, "")
    return f", {field.least} to {field.most}{unit}" if field.most else ""


def _remarks(field: Field) -> str:
    marks = [word for word, holds in (("optional", field.optional), ("admins", field.admin)) if holds]
    return field.text + (f" (*{', '.join(marks)}*)" if marks else "")


if __name__ == "__main__":
    sys.stdout.write(document())
