"""``voiceid enroll``: a new user."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from voiceid.cli.arguments import Device, Microphone, Name, check_source, read_all
from voiceid.cli.context import command_app, context_of
from voiceid.cli.guided import check_storing, collect, enrol_remotely, enrolled, finish, start_session
from voiceid.cli.loading import all_templates, find_template, open_vault
from voiceid.cli.remote import daemon
from voiceid.errors import EnrolmentError

app = command_app()

Files = Annotated[
    list[Path] | None, typer.Argument(metavar="FILES", help="Recordings of one person.", show_default=False)
]


@app.command()
def enroll(
    ctx: typer.Context, name: Name, files: Files = None, microphone: Microphone = False, device: Device = None
) -> None:
    """Enrol a voice from several recordings, or guided from the microphone.

    Every utterance is judged on its own: too short, quiet, clipped or noisy, another speaker than before, synthetic or
    replayed ones are refused with the reason. Nothing is stored until there is enough speech: three utterances and 8 s
    in all, if \\[enrolment] does not say otherwise. Where a daemon runs and no [bold]--vault[/] is named, the daemon
    does it, and the enrolment belongs to you.

    Examples:

    voiceid enroll ada one.wav two.wav three.wav

    voiceid enroll ada --microphone
    """
    context = context_of(ctx)
    with daemon(context) as client:
        if client is not None:
            made = enrol_remotely(client, context, name, files or [], microphone, device)
            context.emit({"name": made["user"], "enrolled": True, **made}, enrolled(made))
            return
    settings = context.settings(device=device)
    check_source(files or [], microphone, settings.capture)
    recordings = read_all(files or [])
    from voiceid.enrolment.names import check_name

    name = check_name(name)
    vault = open_vault(settings, create=True)
    if find_template(vault, name) is not None:
        raise EnrolmentError(f"{name!r} is enrolled already; run 'voiceid users reenroll {name}' to start anew")
    check_storing(vault)
    session = start_session(settings, all_templates(vault))
    utterances = collect(session, recordings, settings.capture)
    result = finish(session, name, utterances, context)
    vault.save_template(result.template)
    template = result.template
    context.emit(
        {
            "name": name,
            "enrolled": True,
            "utterance_count": template.utterance_count,
            "net_speech": template.net_speech,
            "model_name": template.model_name,
            "similar": result.similar,
            "utterances": utterances,
        },
        enrolled({"user": name, "utterance_count": template.utterance_count, "net_speech": template.net_speech}),
    )
