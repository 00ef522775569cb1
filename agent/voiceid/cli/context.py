"""What every command shares: the global options and what they lead to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer
from rich.console import RenderableType
from rich.text import Text

from voiceid.cli.output import stdout, write_json
from voiceid.settings import Settings, load_settings


@dataclass(frozen=True, slots=True)
class Context:
    """The global options."""

    vault_folder: Path | None = None
    config: Path | None = None
    json: bool = False

    def settings(self, *, device: str | None = None) -> Settings:
        """The settings, with ``--vault`` in place of the configured folder and ``--device`` of the microphone.

        Raises:
            SettingsError: see :func:`voiceid.settings.load_settings`.
        """
        settings = load_settings(self.config)
        if self.vault_folder is not None:
            settings = replace(settings, paths=replace(settings.paths, vault=self.vault_folder))
        if device is not None:
            settings = replace(settings, capture=replace(settings.capture, device=device))
        return settings

    def emit(self, value: Any, *renderables: RenderableType) -> None:
        """Write a command's result: ``value`` as JSON with ``--json``, else ``renderables`` for people."""
        if self.json:
            write_json(value)
        else:
            console = stdout()
            for renderable in renderables:
                if renderable:
                    console.print(renderable, markup=False, soft_wrap=isinstance(renderable, (str, Text)))


def context_of(ctx: typer.Context) -> Context:
    """The global options of a running command."""
    found = ctx.find_root().obj
    return found if isinstance(found, Context) else Context()


def command_app(summary: str | None = None) -> typer.Typer:
    """The typer app of one command's module; with ``summary``, of a group of commands."""
    return typer.Typer(
        help=summary,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
