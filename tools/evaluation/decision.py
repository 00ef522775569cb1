"""The full decision: owners, other speakers and attacks through the whole pipeline at one operating point."""

from __future__ import annotations

import argparse
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.evaluation import det
from tools.evaluation.baselines import baselines_of
from tools.evaluation.deciding import GATES, SIMULATED_REPLAY, SPLICE, Deciding, Verdict, load_pipeline
from tools.evaluation.judging import Asking
from tools.evaluation.options import Options
from tools.evaluation.parallel import Account, each
from tools.evaluation.points import Point, at_points, point_rows, points_of
from tools.evaluation.report import card_summary, detection, partition, percent, rate, table
from tools.evaluation.selection import choose, limited, system
from tools.evaluation.trials import Embedding, Enrolled, enrol, same_recording
from tools.train import metrics
from tools.train.data.corpus import Item
from voiceid.enrolment.template import Template
from voiceid.models.card import OPERATING_POINTS, read_card
from voiceid.models.store import find_model
from voiceid.settings import ModelSettings, Settings

ATTACKS = ("tts", "vc", "vocoder", "replay", "adversarial")
UNTARGETED = " (not aimed)"
"""Marks attacks that were tried on a seeded template because their speaker is not enrolled."""
NET_SPEECH = 8.0
"""What a template is said to rest on, in seconds; nothing depends on it here."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--point", choices=OPERATING_POINTS, default="balanced", help="operating point (default balanced)"
    )
    parser.add_argument(
        "--impostors",
        type=int,
        default=10,
        metavar="N",
        help="templates of others that each bona fide file is tried on (default 10)",
    )
    parser.add_argument(
        "--seconds", type=float, help="cut longer files (but splices) to a seeded stretch of this length"
    )
    parser.add_argument(
        "--splices", type=int, default=0, metavar="N", help="also N commands spliced of an owner and another speaker"
    )
    parser.add_argument(
        "--replays",
        type=int,
        default=0,
        metavar="N",
        help="also N simulated replays of owners (rooms and loudspeakers of the test)",
    )
    parser.add_argument(
        "--absolute", action="store_true", help="judge as where the detectors' scores of enrolments are not known"
    )
    det.add_option(parser)
    parser.epilog = (
        f"Attacks without --kinds: {', '.join(ATTACKS)}. Attacks whose speaker is not enrolled are tried on a seeded "
        "template and counted apart."
    )


def measure(options: Options, arguments: argparse.Namespace) -> tuple[dict[str, Any], str, Account]:
    """Returns the result, its table, and the account of files."""
    settings = Settings(models=replace(_models(options.card), operating_point=arguments.point))
    items = choose(options, ATTACKS)
    account, dropped = Account(), Counter[str]()
    embeddings: dict[Item, Embedding] = {}

    def embed_all(batch: list[Item]) -> dict[Item, Embedding]:
        asking = Asking("identity", settings.models.identity, options.cache)
        found = dict(each(asking, batch, jobs=options.jobs, account=account, label="enrol"))
        embeddings.update(found)
        return found

    bonafide = [item for item in items if item.kind == "bonafide"]
    enrolled = enrol(bonafide, embed_all, seed=options.seed, dropped=dropped)
    card = find_model(settings.models.identity, "identity").card
    enrolments = {e.speaker: e.items for e in enrolled}
    baselines = baselines_of(settings.models, enrolments, jobs=options.jobs, cache=options.cache)
    templates = {
        name: Template.create(
            name,
            np.stack([embeddings[i] for i in own]),
            model=card,
            net_speech=NET_SPEECH,
            owner_uid=0,
            baselines=() if arguments.absolute else baselines[name],
        )
        for name, own in enrolments.items()
    }
    plan, untargeted = plan_trials(items, enrolled, arguments, options)
    account.dropped.update(dropped)
    deciding = Deciding(settings, templates, plan, options.seed, options.cache, arguments.seconds)
    decided = each(deciding, limited(list(plan), options), jobs=options.jobs, account=account, label="decide")
    trials = [(item, verdict) for item, verdicts in decided for verdict in verdicts]
    judges = load_pipeline(settings, cache=False).judges
    cards = (judges.identity, judges.spoofing, judges.liveness, judges.fusion)
    result = {
        "command": "decision",
        "cards": [card_summary(judge.card) for judge in cards],
        "operating_point": arguments.point,
        "condition": {"seconds": arguments.seconds, "absolute": arguments.absolute},
        "n_speakers": len(enrolled),
        **summarise(trials, untargeted, arguments.point, points_of(judges, absolute=arguments.absolute)),
    }
    return result, describe(result), account


def plan_trials(
    items: list[Item], enrolled: list[Enrolled], arguments: argparse.Namespace, options: Options
) -> tuple[dict[Item, tuple[str, ...]], set[Item]]:
    """Which templates each file is tried on, and the attacks that are not aimed at any enrolled speaker."""
    chance = random.Random(options.seed)
    names = [e.speaker for e in enrolled]
    by_name = {e.speaker: e for e in enrolled}
    plan: dict[Item, tuple[str, ...]] = {}
    untargeted: set[Item] = set()
    for item in items:
        owner = by_name.get(item.speaker)
        if item.kind != "bonafide":
            if owner is None:
                untargeted.add(item)
            plan[item] = (item.speaker,) if owner else (chance.choice(names),)
            continue
        others = chance.sample(
            [n for n in names if n != item.speaker], min(arguments.impostors, len(names) - (owner is not None))
        )
        if owner is not None and item in owner.rest and not any(same_recording(i, item) for i in owner.items):
            plan[item] = (item.speaker, *others)
        elif owner is None and item.speaker:
            plan[item] = tuple(others)
    made = _made(enrolled, chance, SPLICE, arguments.splices) + _made(
        enrolled, chance, SIMULATED_REPLAY, arguments.replays
    )
    return {item: tried for item, tried in plan.items() if tried} | {item: (item.speaker,) for item in made}, untargeted


def _made(enrolled: list[Enrolled], chance: random.Random, kind: str, count: int) -> list[Item]:
    """Rows for ``count`` attacks that are made of enrolled speakers' other utterances."""
    rows = []
    for _ in range(count):
        owner = chance.choice(enrolled)
        item = chance.choice(owner.rest)
        other = chance.choice([e for e in enrolled if e is not owner] or [owner])
        pair = str(chance.choice(other.rest).path) if kind == SPLICE else ""
        rows.append(replace(item, kind=kind, set=kind, pair=pair, note=""))
    return list(dict.fromkeys(rows))


def summarise(
    trials: list[tuple[Item, Verdict]], untargeted: set[Item], decided_at: str, points: dict[str, Point]
) -> dict[str, Any]:
    """Error rates of conclusive trials, IAPAR per attack kind, a-DCF, outcomes, and refusals of owners per gate.

    ``decided_at`` names the one of ``points`` that the trials were decided at; the rates at all of them come beside.
    """
    kinds = np.array([_species(item, verdict, untargeted) for item, verdict in trials])
    verdicts = [verdict for _, verdict in trials]
    conclusive = np.array([v.conclusive for v in verdicts], bool)
    accepted = np.array([v.accepted for v in verdicts], bool)
    scores = np.array([v.score for v in verdicts], float)
    speakers = np.array([v.speaker for v in verdicts])
    target, nontarget = (kinds == "target") & conclusive, (kinds == "nontarget") & conclusive
    attack = conclusive & ~np.isin(kinds, ("target", "nontarget"))
    aimed = attack & ~np.char.endswith(kinds, UNTARGETED)

    def compare(rows: NDArray[np.bool_], name: str) -> dict[str, Any]:
        groups = (list(speakers[target]), list(speakers[rows]))
        part = detection(scores[target], scores[rows], groups, ("target", name))
        passed = rate(*_counts(accepted, rows))
        if "curve" in part:
            part["thresholds"] = {decided_at: {"frr": float(np.mean(~accepted[target])), "far": passed["rate"]}}
        return part | {"accepted": passed}

    owner_rows = [v for v, is_owner in zip(verdicts, target, strict=True) if is_owner]
    result = compare(nontarget | attack, "other")
    species = [k for k in sorted(set(kinds)) if k not in ("target", "nontarget")]
    rates = {
        "frr": rate(int((~accepted[target]).sum()), int(target.sum())),
        "far": rate(int(accepted[nontarget].sum()), int(nontarget.sum())),
    }
    iapar = {k: rate(*_counts(accepted, (kinds == k) & conclusive)) for k in species}
    result |= {
        "n_nontarget": int(nontarget.sum()),
        "n_spoof": int(attack.sum()),
        "frr": rates["frr"]["rate"],
        "far": rates["far"]["rate"],
        "iapar": {k: r["rate"] for k, r in iapar.items()},
        "a_dcf": None,
        "rates": {**rates, "iapar": iapar},
        "frr_by_gate": {g: rate(sum(g in v.failed for v in owner_rows), len(owner_rows)) for g in (*GATES, "voiceid")},
        "inconclusive": {k: rate(*_counts(~conclusive, kinds == k)) for k in sorted(set(kinds))},
        "outcomes": {
            k: dict(Counter(str(v.outcome) for v, kind in zip(verdicts, kinds, strict=True) if kind == k))
            for k in sorted(set(kinds))
        },
    }
    if target.any() and nontarget.any() and aimed.any():
        columns = (scores[target], scores[nontarget], scores[aimed])
        result["a_dcf"] = metrics.a_dcf(*columns, threshold=points[decided_at].voiceid)
        result["min_a_dcf"] = metrics.a_dcf(*columns)
    else:
        result["a_dcf_reason"] = "needs owners, other speakers and attacks on enrolled speakers"
    result["points"] = at_points(verdicts, kinds, points)
    sets = np.array([item.set for item, _ in trials])
    notes = np.array(
        [system(item) if k not in ("target", "nontarget") else "" for (item, _), k in zip(trials, kinds, strict=True)]
    )
    other = conclusive & (kinds != "target")
    result["by"] = {
        "kind": {k: compare((kinds == k) & conclusive, "other") for k in ["nontarget", *species]},
        "set": {k: compare((sets == k) & other, "other") for k in partition(list(sets[other]))},
        "note": {k: compare((notes == k) & other, "other") for k in partition(list(notes[other]))},
    }
    return result


def _counts(event: NDArray[np.bool_], rows: NDArray[np.bool_]) -> tuple[int, int]:
    return int(event[rows].sum()), int(rows.sum())


def _species(item: Item, verdict: Verdict, untargeted: set[Item]) -> str:
    """Target, nontarget, or the kind of attack; attacks on nobody enrolled are a kind of their own."""
    if item.kind == "bonafide":
        return "target" if item.speaker == verdict.speaker else "nontarget"
    return item.kind + (UNTARGETED if item in untargeted else "")


def _models(card: str | None) -> ModelSettings:
    """The shipped models, with ``card`` in the role it has."""
    if card is None:
        return ModelSettings()
    path = Path(card)
    role = read_card(path).role if path.suffix == ".json" else card.split("-")[0]
    return replace(ModelSettings(), **{role: card})


def describe(result: dict[str, Any]) -> str:
    """Accept rates per kind, then the owner's refusals by gate."""
    rates = result["rates"]
    rows = [["FRR (owners refused)", *_cells(rates["frr"])], ["FAR (other speakers accepted)", *_cells(rates["far"])]]
    rows += [[f"IAPAR {kind}", *_cells(r)] for kind, r in rates["iapar"].items()]
    lines = [table([f"at the {result['operating_point']} point", "rate", "95 % interval", "trials"], rows), ""]
    rows = [[f"owners refused by {gate}", *_cells(r)] for gate, r in result["frr_by_gate"].items()]
    rows += [[f"inconclusive: {kind}", *_cells(r)] for kind, r in result["inconclusive"].items()]
    lines += [table(["", "rate", "95 % interval", "trials"], rows), ""]
    lines += [table(["at the point", *result["points"]], point_rows(result["points"])), ""]
    cost = "-" if result["a_dcf"] is None else f"{result['a_dcf']:.4f} (least {result['min_a_dcf']:.4f})"
    lines.append(f"a-DCF {cost}; {result['n_speakers']} speakers enrolled")
    return "\n".join(lines)


def _cells(part: dict[str, Any]) -> list[str]:
    low_high = part["ci95"]
    between = "" if low_high is None else f"{100 * low_high[0]:.2f} - {100 * low_high[1]:.2f} %"
    return [percent(part["rate"]), between, str(part["n"])]
