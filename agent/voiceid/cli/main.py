"""``voiceid``: the root command and its global options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from voiceid import __version__
from voiceid.cli.context import Context
from voiceid.cli.group import RootGroup

_EPILOG = """[bold]Examples[/]
voiceid doctor
voiceid enroll ada one.wav two.wav three.wav
voiceid verify ada command.wav --json"""

app = typer.Typer(
    cls=RootGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"voiceid {__version__}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    vault: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of templates and credentials, without the daemon; default: as configured.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Configuration file (TOML); default: $VOICEID_CONFIG, else ~/.config/voiceid/config.toml.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write one JSON document to standard output.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """On-device voice authentication: speaker, deepfake and liveness checks, and signed envelopes of speech units.

    Audio goes in; one decision and, only when accepted, one signed envelope comes out. Voices and keys stay here.
    """
    ctx.obj = Context(vault_folder=vault, config=config, json=json)
