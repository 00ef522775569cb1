"""``voiceid models``: which models there are, whether they are sound, and which one fills a role."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from voiceid.cli.config_file import set_key
from voiceid.cli.context import command_app, context_of
from voiceid.cli.exit_codes import ExitCode
from voiceid.cli.loading import warn
from voiceid.cli.output import progress
from voiceid.errors import ModelError
from voiceid.settings import ModelSettings, Settings, default_config_path, load_settings

if TYPE_CHECKING:
    from voiceid.models.card import Card

app = command_app("List, verify and choose models, and go back to the default ones.")


@app.command("list")
def list_models(ctx: typer.Context) -> None:
    """List shipped and configured model cards; * marks those in use. With --json: the whole cards."""
    context = context_of(ctx)
    from voiceid.models.card import read_card

    settings = context.settings()
    in_use = set(_configured(settings).values())
    table = Table("", "name", "role", "version", "size", "EER", "licence", box=None)
    rows = []
    for path in _cards(settings):
        try:
            card = read_card(path)
        except ModelError as error:
            warn(str(error))
            continue
        size = _size(card, path.parent)
        rows.append({"path": path, "in_use": path in in_use, "disk_bytes": size, "card": card})
        mark = "*" if path in in_use else ""
        eer = _eer(card.metrics, CONDITIONS.get(card.role, ""))
        table.add_row(
            mark,
            card.name,
            card.role,
            card.version,
            f"{size / 2**20:.2f} MiB",
            eer,
            card.licence,
        )
    if not rows:
        raise ModelError("no model cards found; reinstall voiceid, or set VOICEID_MODELS to their folder")
    context.emit(rows, table)


@app.command()
def verify(
    ctx: typer.Context,
    cards: Annotated[
        list[Path] | None, typer.Argument(metavar="CARD", help="Cards to verify.", show_default=False)
    ] = None,
) -> ExitCode:
    """Check hashes, load each model and compare its inputs and outputs with the card.

    Without CARD: every shipped and configured model, and that those configured work together. Exit code 22 if not.
    """
    context = context_of(ctx)
    settings = context.settings()
    from voiceid.models.card import read_card
    from voiceid.models.session import Session
    from voiceid.models.store import verify_model

    paths = cards or _cards(settings)
    if not paths:
        raise ModelError("no model cards found; reinstall voiceid, or set VOICEID_MODELS to their folder")
    results: list[dict[str, object]] = []
    with progress("verifying", len(paths)) as bar:
        for path in paths:
            bar.advance(f"verifying {path.stem}", 0)
            try:
                card = read_card(path)
                expected = [role for role, configured in _configured(settings).items() if configured == path]
                if wrong := [role for role in expected if role != card.role]:
                    raise ModelError(f"{path}: a card for {card.role}, but it is set for {wrong[0]}")
                Session(verify_model(card, path.parent))
                results.append({"path": path, "ok": True, "problem": None})
            except ModelError as error:
                results.append({"path": path, "ok": False, "problem": str(error)})
            bar.advance()
        if not cards and all(result["ok"] for result in results):
            results.append(_fit_together(settings))
    lines = Text()
    for result in results:
        lines.append("ok    " if result["ok"] else "FAIL  ", style="green" if result["ok"] else "bold red")
        lines.append(f"{result['problem'] or result['path']}\n")
    lines.rstrip()
    context.emit(results, lines)
    return ExitCode.ACCEPTED if all(result["ok"] for result in results) else ExitCode.MODEL


@app.command()
def use(
    ctx: typer.Context,
    card: Annotated[str, typer.Argument(metavar="CARD", help="A shipped card's name, or a path to a card.")],
) -> None:
    """Let CARD fill its role from now on, after verifying it; this edits the configuration file.

    A running daemon takes it up with [bold]sudo systemctl reload voiceid[/]. [bold]voiceid models reset ROLE[/] is the
    way back.

    Example:

    voiceid models use ~/models/spoofing-aasist-l.json
    """
    context = context_of(ctx)
    from voiceid.models.card import read_card
    from voiceid.models.session import Session
    from voiceid.models.store import card_path, references, shipped_folder, verify_model

    config = context.config or default_config_path()
    settings = context.settings() if config.exists() else Settings()
    path = card_path(card).resolve()
    found = read_card(path)
    if found.role not in {field.name for field in fields(ModelSettings)}:
        raise ModelError(
            f"{path}: a card for {found.role}, which no device uses; name it to 'voiceid understand --model'"
        )
    Session(verify_model(found, path.parent))
    facts = {"role": found.role, "name": found.name, "path": path, "config": config}
    in_use = references(settings.models).get(found.role)
    if in_use is not None and card_path(in_use).resolve() == path:
        text = f"{found.role}: {found.name} {found.version} is in use already; nothing changes"
        context.emit({**facts, "changed": False}, Text(text))
        return
    shipped = path.parent == shipped_folder().resolve()
    set_key(config, "models", found.role, path.stem if shipped else str(path))
    load_settings(config)
    _warn_of_templates(found.role)
    context.emit(
        {**facts, "changed": True},
        Text(f"{found.role}: {found.name} {found.version} (in {config})"),
    )


@app.command()
def reset(
    ctx: typer.Context,
    role: Annotated[
        Literal["identity", "spoofing", "liveness", "fusion", "units", "resynthesis", "guard"],
        typer.Argument(metavar="ROLE", help="As [bold]models list[/] names it.", show_default=False),
    ],
) -> None:
    """Let ROLE be filled as by default again: by a shipped card, the guard by none. This edits the configuration file.

    A running daemon takes it up with [bold]sudo systemctl reload voiceid[/].

    Example:

    voiceid models reset guard
    """
    context = context_of(ctx)
    from voiceid.models.store import find_model

    config = context.config or default_config_path()
    chosen = getattr(context.settings().models, role) if config.exists() else None
    default: str | None = getattr(ModelSettings(), role)
    if default is not None:
        find_model(default, role)
    changed = chosen not in (None, default)
    if changed:
        set_key(config, "models", role, None)
        load_settings(config)
        _warn_of_templates(role)
    outcome = f"{role}: {default or 'none'}" + (f" (in {config})" if changed else " by default; nothing changes")
    context.emit({"role": role, "name": default, "config": config, "changed": changed}, Text(outcome))


def _warn_of_templates(role: str) -> None:
    """Say what a change of the model for ``role`` means for the users."""
    if role == "identity":
        warn("users enrolled with another identity model must speak again: 'voiceid users renew' keeps credentials")


def _fit_together(settings: Settings) -> dict[str, object]:
    """Whether the pipeline takes the configured models: roles, calibration, thresholds, front ends."""
    from voiceid.pipeline import Pipeline

    try:
        Pipeline.load(settings)
    except ModelError as error:
        return {"path": "pipeline", "ok": False, "problem": str(error)}
    return {"path": "pipeline", "ok": True, "problem": None}


def _configured(settings: Settings) -> dict[str, Path]:
    """Path of the card that fills each role."""
    from voiceid.models.store import card_path, references

    return {role: card_path(reference) for role, reference in references(settings.models).items()}


def _cards(settings: Settings) -> list[Path]:
    from voiceid.models.store import shipped_cards

    return list(dict.fromkeys([*shipped_cards(), *_configured(settings).values()]))


def _size(card: Card, folder: Path) -> int:
    paths = (folder / name for name in (card.file, *card.assets))
    return sum(path.stat().st_size for path in paths if path.exists())


CONDITIONS = {"liveness": "simulated replay", "units": "telling speakers; higher is better"}
"""What the error rate of a card is of, where its measures do not say it by their names."""


def _eer(metrics: dict[str, Any], path: str = "") -> str:
    """The card's first equal error rate, with the condition that it was measured under."""
    if isinstance(metrics.get("eer"), float):
        return f"{metrics['eer']:.1%}{f' ({path})' if path else ''}"
    nested = ((key, value) for key, value in metrics.items() if isinstance(value, dict))
    found = (_eer(value, f"{path}, {key}" if path else key) for key, value in nested)
    return next((text for text in found if text), "")
