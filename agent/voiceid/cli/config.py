"""``voiceid config``: what is configured, and whether it holds together."""

from __future__ import annotations

import typer
from rich.text import Text

from voiceid.cli.config_file import to_toml
from voiceid.cli.context import command_app, context_of
from voiceid.cli.output import progress
from voiceid.settings import default_config_path

app = command_app("Show and check the configuration.")


@app.command()
def show(ctx: typer.Context) -> None:
    """Show the settings in force, defaults included, as a configuration file (TOML)."""
    context = context_of(ctx)
    settings = context.settings()
    context.emit(settings, Text(f"# from {_source(ctx)}\n\n{to_toml(settings)}"))


@app.command()
def check(ctx: typer.Context) -> None:
    """Check every key and value, and that the models named there exist, are sound and fit their roles."""
    context = context_of(ctx)
    settings = context.settings()
    with progress("loading models"):
        from voiceid.pipeline import Pipeline

        Pipeline.load(settings)
    context.emit(
        {"ok": True, "source": _source(ctx), "operating_point": settings.models.operating_point},
        Text(f"ok: {_source(ctx)}; operating point {settings.models.operating_point}"),
    )


def _source(ctx: typer.Context) -> str:
    path = context_of(ctx).config or default_config_path()
    return str(path) if path.exists() else f"defaults ({path} does not exist)"
