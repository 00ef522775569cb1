"""The report as a page: the measures beside their floors, then the tables behind them and the commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tools.evaluation.decision import UNTARGETED
from tools.evaluation.fusion import COLUMNS
from tools.evaluation.points import point_rows
from tools.evaluation.report import percent

Result = Mapping[str, Any]
TEACHERS = {"campplus": "CAM++", "resemblyzer": "Resemblyzer"}


def page(report: Mapping[str, Any], figures: Sequence[str] = ()) -> str:
    """Markdown of a report as ``tools/report.py`` gathers it, with the ``figures`` that lie beside the page.

    Absent measures are said to be absent.
    """
    measures: dict[str, Any] = {name: entry["result"] for name, entry in report["measures"].items()}
    parts = [
        "# Measurements",
        "Written by `python tools/report.py`; the JSON beside this page holds every detail. Rates are "
        "per cent, intervals 95 % (bootstrap over speakers for EER, Wilson's over trials for rates). Speakers, "
        "attack systems, rooms and loudspeakers measured here are in no training or development data.",
        _models(report["cards"]),
        "## Floors",
        "The first floor is that of version 1, the second what version 2 has to reach.",
        _floors(measures),
        *(section(measures) for section in (_verification, _groups, _teachers)),
        _curves(figures),
        *(section(measures) for section in (_detection, _decision, _fusion, _units, _keys)),
        "## Commands",
        "Run in this order; `$VOICEID_CORPUS` and `$VOICEID_REFERENCE` must be set.",
        "```\n" + "\n".join(entry["command"] for entry in report["measures"].values()) + "\n```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _models(cards: list[dict[str, Any]]) -> str:
    rows = [[c["name"], c["version"], c["sha256"][:16], c["description"].split(".")[0]] for c in cards]
    return _table(["model", "version", "sha256", ""], rows)


def _floors(measures: Mapping[str, Result]) -> str:
    rows = [
        ["unseen speakers, 3 s, enrolled from 3 utterances: EER", "5; 2.5 %", *_eer(measures, "verification-3s")],
        ["the same, 2 s", "-; 4 %", *_eer(measures, "verification-2s")],
        ["the same, whole utterances", "-; 1.5 %", *_eer(measures, "verification-full")],
        ["the same, 3 s in noise at 10 dB", "-; 6 %", *_eer(measures, "verification-noise")],
        *(
            [f"CPU of identity a second of speech to {title}'s", "-; 0.5", *_cpu_ratio(measures, name)]
            for name, title in TEACHERS.items()
        ),
        ["unseen synthesis and conversion: EER", "20; 15 %", *_eer(measures, "spoofing")],
        ["worst family of at least 30 clips: APCER at BPCER 5 %", "-; 45 %", *_worst_family(measures)],
        ["simulated replay, unseen room and loudspeaker: EER", "15; 8 %", *_eer(measures, "liveness-simulated")],
        ["real replays caught (balanced)", "report", *_real_replays(measures)],
        ["VOID features of ASVspoof 2017, train to dev: EER", "20; 20 %", *_void(measures, "train_dev_eer")],
        ["the same, folds by speaker: EER", "8; 8 %", *_void(measures, "speaker_grouped_eer")],
        ["owner's FRR, balanced", "-; 8 %", *_rate(measures, "frr")],
        ["zero-effort FAR, balanced", "-; 1 %", *_rate(measures, "far")],
        ["worst species aimed at the owner: IAPAR, balanced", "-; 20 %", *_worst_species(measures)],
        ["spliced commands caught, balanced", "-; >= 80 %", *_splices(measures)],
        ["units, k = 100: mutual information with phones to that of MFCC", "-; >= 1.3", *_phones(measures)],
        ["units, k = 100: EER of who tells speakers by them (by mel)", "-; >= 35 % (<= 10 %)", *_attacker(measures)],
        ["same key in accepted attempts", "100 of 100", *_same_key(measures)],
        ["forbidden imports", "none", *_imports(measures)],
        ["CPU of decision and units (3 s, 1 thread) to official AASIST-L", "1; 0.6", *_ratio(measures)],
        ["peak resident memory", "250; 200 MB", *_peak(measures)],
    ]
    return _table(["measure", "floors", "measured", "interval", "trials"], rows)


def _verification(measures: Mapping[str, Result]) -> str:
    names = [name for name in measures if name.startswith("verification")]
    if not names:
        return ""
    rows = []
    for name in names:
        result = measures[name]
        points = [f"{percent(t['frr'])} / {percent(t['far'])}" for t in result.get("thresholds", {}).values()] or [
            "-",
            "-",
            "-",
        ]
        rows.append([name.removeprefix("verification-"), *_eer(measures, name), *points])
    head = ["test", "EER", "interval", "trials", "FRR / FAR convenience", "balanced", "strict"]
    return "## Verification\n\nBy LibriSpeech test readers unless *all*; noise is at 10 dB.\n\n" + _table(head, rows)


def _groups(measures: Mapping[str, Result]) -> str:
    """Verification by conditions and by what is known of speakers and files."""
    rows = [[name, *_cells(part)] for name, part in measures.get("verification-full", {}).get("conditions", {}).items()]
    result = measures.get("verification-all", {})
    for key in ("set", "sex", "language", "duration", "codec"):
        rows += [[f"{key}: {name}", *_cells(part)] for name, part in result.get("by", {}).get(key, {}).items()]
    if not rows:
        return ""
    text = (
        "### By condition and group\n\nConditions (crops, noise) are of the LibriSpeech test readers, groups of *all*, "
        "by what is tried; by sex and language, only pairs of the same."
    )
    if untold := result.get("not_told"):
        text += f" Neither the index nor its notes tell: {', '.join(untold)}."
    return text + "\n\n" + _table(["", "EER", "interval", "trials"], rows)


def _teachers(measures: Mapping[str, Result]) -> str:
    if (result := measures.get("teachers")) is None:
        return ""
    rows = [
        [f"{name}, {score.replace('_', ' ')}", *_cells(part[score]), f"{part['cpu_ms_per_second']:.1f} ms"]
        for name, part in result["embedders"].items()
        for score in ("as_shipped", "cosine")
        if score in part
    ]
    text = f"The same trials of {result['condition']['seconds']:g} s; CPU time on one thread, front ends included."
    head = ["", "EER", "interval", "trials", "CPU a second of speech"]
    return f"### Beside larger speaker models\n\n{text}\n\n" + _table(head, rows)


def _curves(figures: Sequence[str]) -> str:
    if not figures:
        return ""
    links = [f"![{name.removesuffix('.svg').replace('-', ' ')}]({name})" for name in figures]
    return "## Detection error trade-off\n\nOf groups with at least 30 trials of each class.\n\n" + "\n\n".join(links)


def _detection(measures: Mapping[str, Result]) -> str:
    sections = []
    for name in ("spoofing", "spoofing-adversarial", "liveness-simulated", "liveness-real"):
        if name not in measures:
            continue
        result = measures[name]
        rows = []
        for label, part in _parts(result):
            fixed = part.get("apcer_at_bpcer", {})
            point = part.get("thresholds", {}).get("balanced", {})
            rows.append(
                [
                    label,
                    percent(part["eer"]),
                    _interval(part["ci95"]),
                    f"{part['n_bonafide']} / {part['n_spoof']}",
                    percent(fixed.get("0.05")),
                    percent(point.get("bpcer", {}).get("rate")),
                    percent(point.get("apcer", {}).get("rate")),
                ]
            )
        head = ["", "EER", "interval", "bona fide / attacks", "APCER at BPCER 5 %", "BPCER balanced", "APCER balanced"]
        sections.append(f"## {name.capitalize().replace('-', ', ')}\n\n" + _table(head, rows))
    return "\n\n".join(sections)


def _parts(result: Result) -> list[tuple[str, Result]]:
    parts: list[tuple[str, Result]] = [("all", result)]
    for key in ("kind", "vocoder", "family", "note"):
        groups = result["by"].get(key, {})
        parts += [(f"{key}: {name}", part) for name, part in groups.items() if part["n_spoof"] >= 4]
    return parts


def _decision(measures: Mapping[str, Result]) -> str:
    if (result := measures.get("decision")) is None:
        return ""
    rates = result["rates"]
    rows = [["FRR", *_rate_cells(rates["frr"])], ["FAR", *_rate_cells(rates["far"])]]
    rows += [[f"IAPAR {kind}", *_rate_cells(part)] for kind, part in rates["iapar"].items()]
    rows += [[f"owners refused by {gate}", *_rate_cells(part)] for gate, part in result["frr_by_gate"].items()]
    rows += [[f"inconclusive {kind}", *_rate_cells(part)] for kind, part in result["inconclusive"].items()]
    cost = (
        "-" if result["a_dcf"] is None else f"{result['a_dcf']:.4f} (least over thresholds {result['min_a_dcf']:.4f})"
    )
    text = (
        f"{result['n_speakers']} speakers, {result['operating_point']} point, a-DCF {cost}. Of conclusive trials. "
        "*Not aimed*: the attack's speaker is not enrolled, and it was tried on another's template."
    )
    parts = [f"## Decision\n\n{text}", _table(["", "rate", "interval", "trials"], rows)]
    if points := result.get("points"):
        parts += ["The same trials at every operating point:", _table(["", *points], point_rows(points))]
    return "\n\n".join(parts)


def _fusion(measures: Mapping[str, Result]) -> str:
    if (result := measures.get("fusion")) is None:
        return ""
    parts = ["## Fusion"]
    for title, key in (
        (f"The paper's protocol: {result['n_combinations']} combinations of independent scores.", "paper_protocol"),
        ("Folds disjoint by speaker and attack system, half authentic, scores of the same clip.", "honest_protocol"),
    ):
        rows = [[name, *(_spread(figures[c]) for c in COLUMNS)] for name, figures in result[key].items()]
        parts += [title, _table(["%", *(c.replace("_", " ") for c in COLUMNS)], rows)]
    parts.append(f"Each SVM learnt {result['svm_training_trials']} seeded trials of its fold; the others all of them.")
    return "\n\n".join(parts)


def _spread(figure: Mapping[str, float]) -> str:
    return f"{100 * figure['mean']:.2f} ± {100 * figure['sd']:.2f}"


def _units(measures: Mapping[str, Result]) -> str:
    if (result := measures.get("units")) is None:
        return ""
    rows = [
        [
            size,
            f"{part['phones']['pnmi']:.3f}",
            f"{part['phones_mfcc']['pnmi']:.3f}",
            *_cells(part["attacker"]),
            f"{part['bits_per_second']:.0f}",
            f"{part['bits_per_second_with_durations']:.0f}",
        ]
        for size, part in result["by"]["codebook"].items()
    ]
    text = (
        f"{result['utterances']} utterances; phone-normalised mutual information (PNMI) with a forced alignment of "
        f"{result['phone_utterances']} of them, beside k-means on MFCC; equal error rate of an attacker trained "
        f"to tell speakers by their units (by mel features: {percent(result['mel']['eer'])})."
    )
    head = ["k", "PNMI", "of MFCC", "attacker", "interval", "trials", "bit/s merged", "with durations"]
    return f"## Units\n\n{text}\n\n" + _table(head, rows)


def _keys(measures: Mapping[str, Result]) -> str:
    if (result := measures.get("keys")) is None:
        return ""
    return (
        f"## Credential keys\n\n{result['accepted']} accepted attempts ({result['attempts']} made), of which "
        f"{result['verified_with_the_registered_key']} verified with the registered key; {result['other_keys']} keys "
        f"for another relying party, salt, device or enrolment, all distinct: {result['all_distinct']}."
    )


def _eer(measures: Mapping[str, Result], name: str) -> list[str]:
    return _optional(lambda: _cells(measures[name]))


def _cells(part: Result) -> list[str]:
    counts = [str(value) for key, value in part.items() if key in ("n_target", "n_nontarget", "n_bonafide", "n_spoof")]
    return [percent(part["eer"]), _interval(part["ci95"]), " / ".join(counts)]


def _cpu_ratio(measures: Mapping[str, Result], teacher: str) -> list[str]:
    def compute() -> list[str]:
        own, other = (measures["teachers"]["embedders"][name]["cpu_ms_per_second"] for name in ("identity", teacher))
        return [f"{own / other:.2f}", "", f"{own:.1f} ms / {other:.1f} ms"]

    return _optional(compute)


def _worst_family(measures: Mapping[str, Result]) -> list[str]:
    def compute() -> list[str]:
        worst = measures["spoofing"]["worst_family"]
        value, between, trials = _rate_cells(worst["apcer"])
        return [f"{value} ({worst['family']})", between, trials]

    return _optional(compute)


def _worst_species(measures: Mapping[str, Result]) -> list[str]:
    def compute() -> list[str]:
        aimed = {
            k: r for k, r in measures["decision"]["rates"]["iapar"].items() if not k.endswith(UNTARGETED) and r["n"]
        }
        kind = max(aimed, key=lambda kind: aimed[kind]["rate"])
        value, between, trials = _rate_cells(aimed[kind])
        return [f"{value} ({kind})", between, trials]

    return _optional(compute)


def _splices(measures: Mapping[str, Result]) -> list[str]:
    return _optional(lambda: _rate_cells(measures["decision"]["points"]["balanced"]["splices_caught"]["decision"]))


def _rate(measures: Mapping[str, Result], name: str) -> list[str]:
    if (result := measures.get("decision")) is None:
        return ["not measured", "", ""]
    return _rate_cells(result["rates"][name])


def _rate_cells(part: Result) -> list[str]:
    return [percent(part["rate"]), _interval(part["ci95"]), str(part["n"])]


def _optional(compute: Callable[[], list[str]]) -> list[str]:
    try:
        return compute()
    except (KeyError, TypeError, ValueError):  # ValueError: no species
        return ["not measured", "", ""]


def _real_replays(measures: Mapping[str, Result]) -> list[str]:
    def compute() -> list[str]:
        part = measures["liveness-real"]["thresholds"]["balanced"]["apcer"]
        return [f"{part['n'] - part['errors']} of {part['n']}", "", str(part["n"])]

    return _optional(compute)


def _void(measures: Mapping[str, Result], figure: str) -> list[str]:
    """The recipe on all 97 features whose settings were chosen on the training part."""

    def compute() -> list[str]:
        result = measures["void-asvspoof2017"]
        name = [name for name in result["rows"] if name.startswith("all 97")][-1]
        row, dev = result["rows"][name], result["dev"]
        interval = _interval(row["train_dev_ci95"]) if figure == "train_dev_eer" else ""
        return [percent(row[figure]), interval, f"{dev['n_genuine']} / {dev['n_replay']} dev"]

    return _optional(compute)


def _phones(measures: Mapping[str, Result]) -> list[str]:
    def compute() -> list[str]:
        part = measures["units"]["by"]["codebook"]["100"]
        ratio = part["phones"]["pnmi"] / part["phones_mfcc"]["pnmi"]
        return [f"{ratio:.2f}", "", f"{measures['units']['phone_utterances']} utterances"]

    return _optional(compute)


def _attacker(measures: Mapping[str, Result]) -> list[str]:
    def compute() -> list[str]:
        result = measures["units"]
        eer, *rest = _cells(result["by"]["codebook"]["100"]["attacker"])
        return [f"{eer} ({percent(result['mel']['eer'])})", *rest]

    return _optional(compute)


def _same_key(measures: Mapping[str, Result]) -> list[str]:
    def compute() -> list[str]:
        result = measures["keys"]
        return [f"{result['verified_with_the_registered_key']} of {result['accepted']}", "", str(result["attempts"])]

    return _optional(compute)


def _imports(measures: Mapping[str, Result]) -> list[str]:
    return _optional(lambda: [", ".join(measures["import"]["forbidden"]) or "none", "", ""])


def _ratio(measures: Mapping[str, Result]) -> list[str]:
    def compute() -> list[str]:
        part = measures["benchmark"]["reference"]
        return [f"{part['ratio']:.2f}", "", f"{part['agent_cpu_ms']:.0f} ms / {part['cpu_ms']:.0f} ms"]

    return _optional(compute)


def _peak(measures: Mapping[str, Result]) -> list[str]:
    return _optional(lambda: [f"{measures['benchmark']['cold_start']['peak_rss_mib'] * 1.048576:.0f} MB", "", ""])


def _interval(values: list[float] | None) -> str:
    return "" if values is None else f"{100 * values[0]:.2f} - {100 * values[1]:.2f}"


def _table(headers: list[str], rows: list[list[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)
