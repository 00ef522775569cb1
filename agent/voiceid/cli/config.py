"""``voiceid config``: what is configured, and whether it holds together."""

from __future__ import annotations

import typer
from rich.text import Text

from voiceid.cli.config_file import to_toml
from voiceid.cli.context import command_app, context_of
from voiceid.cli.output import progress
from voiceid.errors import AudioError, SettingsError
from voiceid.places import misplaced
from voiceid.settings import Settings, default_config_path

app = command_app("Show and check the configuration.")


@app.command()
def show(ctx: typer.Context) -> None:
    """Show the settings in force as a configuration file (TOML): every key, also those not set."""
    context = context_of(ctx)
    settings = context.settings()
    context.emit(settings, Text(f"# from {_source(ctx)}\n\n{to_toml(settings)}"))


@app.command()
def check(ctx: typer.Context) -> None:
    """Check every key and value, that they go together, and that what they name is there and sound: the models, the
    wake word, the recording that takes the microphone's place. Vault, key, socket and metrics may be missing, but
    nothing else may lie in their places."""
    context = context_of(ctx)
    settings = context.settings()
    if problem := next(misplaced(settings), None):
        raise SettingsError(f"{_source(ctx)}: {problem}")
    _check_activation(settings)
    with progress("loading models"):
        from voiceid.pipeline import Pipeline

        Pipeline.load(settings)
    context.emit(
        {"ok": True, "source": _source(ctx), "operating_point": settings.models.operating_point},
        Text(f"ok: {_source(ctx)}; operating point {settings.models.operating_point}"),
    )


def _check_activation(settings: Settings) -> None:
    from voiceid.activation import make_activation
    from voiceid.audio.file_source import FileSource

    make_activation(settings.activation)
    if settings.activation.file is not None:
        try:
            FileSource(settings.activation.file)
        except AudioError as error:
            raise SettingsError(f"[activation] file: {error}") from error


def _source(ctx: typer.Context) -> str:
    path = context_of(ctx).config or default_config_path()
    return str(path) if path.exists() else f"defaults ({path} does not exist)"
