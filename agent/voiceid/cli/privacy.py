"""``voiceid privacy``: what each relying party gets to see."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.table import Table

from voiceid.cli.context import command_app, context_of
from voiceid.cli.loading import open_vault
from voiceid.cli.remote import daemon
from voiceid.errors import SettingsError
from voiceid.units.privacy import PrivacyProfile

app = command_app("Show and choose what each relying party gets to see: units only, and how much of them.")

Party = Annotated[str, typer.Argument(metavar="RP", help="Relying party, as shop.example.org.", show_default=False)]


@app.command()
def show(
    ctx: typer.Context,
    relying_party: Annotated[
        str | None,
        typer.Argument(metavar="RP", help="Relying party, as shop.example.org; default: all.", show_default=False),
    ] = None,
) -> None:
    """Show the profile of relying party RP, or all that were set."""
    context = context_of(ctx)
    with daemon(context) as client:
        if client is not None:
            found = client.call("privacy.show", relying_party=relying_party)["profiles"]
            profiles = {rp_id: PrivacyProfile.from_dict(table) for rp_id, table in found.items()}
        else:
            vault = open_vault(context.settings())
            profiles = (
                {relying_party: vault.privacy_profile(relying_party)} if relying_party else vault.privacy_profiles()
            )
    context.emit(profiles, _table(profiles))


@app.command("set")
def set_profile(
    ctx: typer.Context,
    relying_party: Party,
    codebook: Annotated[
        int | None, typer.Option(help="Number of different units: 50, 100 or 200; fewer say less.", show_default=False)
    ] = None,
    merge_runs: Annotated[
        bool | None, typer.Option("--merge/--keep-runs", help="Merge equal units in a row.", show_default=False)
    ] = None,
    durations: Annotated[
        bool | None,
        typer.Option("--durations/--no-durations", help="Share how long each unit lasts (rhythm).", show_default=False),
    ] = None,
) -> None:
    """Choose what RP gets from now on; what is not named stays as it is.

    Example:

    voiceid privacy set shop.example.org --codebook 50 --merge --no-durations
    """
    context = context_of(ctx)
    wanted = {"codebook": codebook, "merge_runs": merge_runs, "durations": durations}
    changes = {key: value for key, value in wanted.items() if value is not None}
    with daemon(context) as client:
        if client is not None:
            former = client.call("privacy.show", relying_party=relying_party)["profiles"][relying_party]
            profile = _changed(PrivacyProfile.from_dict(former), changes)
            client.call("privacy.set", relying_party=relying_party, **profile.to_dict())
        else:
            vault = open_vault(context.settings())
            profile = _changed(vault.privacy_profile(relying_party), changes)
            vault.set_privacy_profile(relying_party, profile)
    context.emit({relying_party: profile}, _table({relying_party: profile}))


def _changed(former: PrivacyProfile, changes: dict[str, Any]) -> PrivacyProfile:
    try:
        return replace(former, **changes)
    except SettingsError as error:
        raise typer.BadParameter(str(error)) from error


def _table(profiles: dict[str, PrivacyProfile]) -> Table | str:
    if not profiles:
        return "no profile was set; every relying party gets the default (see 'voiceid privacy show RP')"
    table = Table("relying party", "codebook", "runs merged", "durations", box=None)
    for rp_id, profile in profiles.items():
        yes_no = ("yes" if value else "no" for value in (profile.merge_runs, profile.durations))
        table.add_row(rp_id, str(profile.codebook), *yes_no)
    return table
