"""A run in a few plain sentences: which policy, how good, how sure, what is open, and what to do next."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Any, NamedTuple

from polinfer.analysis.explanation import explain
from polinfer.analysis.reward_scale import FLAT, PEAKED
from polinfer.core.errors import PolinferError
from polinfer.core.formatting import amount, effectively
from polinfer.posterior.posterior import Posterior
from polinfer.posterior.saving import named_code

_EXAMINED = 30  # states, the most visited ones, whose choices are looked at
_FAR = 0.15  # of the way: shares that differ by more are explained
_SELDOM = 1e-3  # of the visits to the most visited state: choices in rarer ones are left out
_NAMED = 3  # toss-ups that are named
_LOST = 0.05  # of the way: what mixing policies costs is then said


class Line(NamedTuple):
    """One line of the account."""

    about: str
    sentence: str


def choices_of(posterior: Posterior) -> dict[str, Any] | None:
    """Return how many choices of the most visited states are clear, and the toss-ups; None without table."""
    try:
        found = explain(posterior, _EXAMINED)
    except PolinferError:
        return None
    often = [one for one in found.choices if one.occupancy >= _SELDOM * found.choices[0].occupancy]
    counts = Counter(choice.verdict for choice in often)
    open_ones = [choice for choice in often if choice.verdict == "toss-up"]
    return {
        "examined": len(often),
        "left_out": found.left_out + len(found.choices) - len(often),
        **{name: counts[name] for name in ("clear", "leaning", "toss-up")},
        "toss_ups": [
            {"state": one.name, "actions": list(one.action_names[:2]), "probs": list(one.probs[:2])}
            for one in open_ones
        ],
    }


def account(record: dict[str, Any]) -> list[Line]:
    """Return the account of a run from the record that ``summary.json`` holds."""
    lines = [Line("policy", _policy(record)), Line("how good", standing_sentence(record))]
    lines.append(Line("how sure", how_sure(record)))
    if record.get("choices"):
        lines.append(Line("open", _open(record["choices"])))
    advice = advice_sentence(record)
    if advice:
        lines.append(Line("reward scale", advice))
    return [*lines, Line("next", _next(record))]


def _policy(record: dict[str, Any]) -> str:
    what = "one policy drawn per episode" if record["mode"] == "thompson" else "an action drawn at every step"
    facts = record.get("posterior")
    if facts is None:
        return f"{record['method']}, {what}; the pictures in {record['run']} show it."
    top = facts["top"][0]
    return (
        f"{what}; {effectively(facts['effective_policies'])} of {amount(facts['policies'])} policies matter. "
        f"The most probable single one earns {top['return']:.3f}."
    )


def standing_sentence(record: dict[str, Any]) -> str:
    """Return the returns of the uniform policy, the answer and the optimum, on one line."""
    standing, executed = record.get("standing"), record["return"]["mean"]
    if standing is None:
        return f"return {executed:.3f}; without a table the optimum is not known."
    begin = _reference(record)
    error = (record.get("certificate", {}).get("table_error") or {}).get("return_stderr")
    about = f" ± {error:.3f} for the draws of the table" if error and not record["episodes"] else ""
    ends = f"({begin} {standing['uniform']:.3f}, optimum {standing['optimum']:.3f})"
    returns = f"return {executed:.3f}{about} {ends}"
    share = standing["share"]
    if share is None:
        return f"{returns}: the {begin} policy is as good as the optimum."
    return f"{returns}: {round(100 * share)}% of the way."  # an integer: no "-0%"


def _reference(record: dict[str, Any]) -> str:
    """Return what the way begins at: the uniform policy, or the prior that was given."""
    return "prior" if record.get("terms", {}).get("prior") == "given" else "uniform"


def how_sure(record: dict[str, Any]) -> str:
    """Return the verdict with its reason, and why it holds beside findings that seem to say otherwise."""
    certificate = record["certificate"]
    verdict, reason = certificate["verdict"], certificate["reason"]
    sentence = f"{verdict}: {reason}."
    if record.get("stopped"):
        sentence = f"stopped early by {record['stopped']}; of what was found: {sentence}"
    if record.get("check_stopped"):
        sentence += f" The check was cut short by {record['check_stopped']}."
    warnings = [
        found
        for found in record["diagnostics"]
        if found["severity"] != "fact" and found["code"] != "stopped-early"
    ]
    if verdict == "trust" and warnings:
        names = ", ".join(found["code"] for found in warnings)
        basis = certificate["known_from"] or "a proof"
        sentence += (
            f" Single sweeps look poor ({names}), but the verdict rests on the {basis}, not on their weights."
        )
    if verdict != "trust" and certificate["remedy"]:
        sentence += f" What would help: {certificate['remedy']}."
    return sentence


def _open(choices: dict[str, Any]) -> str:
    examined, even = choices["examined"], choices["toss-up"]
    if not examined:
        return "no visited state has a choice."
    most = f"the {examined} most visited" if choices["left_out"] else f"{examined} visited"
    if not even:
        return f"no toss-ups; {choices['clear']} of {most} choices are clear."
    named = "; ".join(
        f"{one['state']}: {' or '.join(one['actions'])} ({' : '.join(f'{p:.2f}' for p in one['probs'])})"
        for one in choices["toss_ups"][:_NAMED]
    )
    more = f"; {even - _NAMED} more" if even > _NAMED else ""
    return (
        f"{even} toss-up{'s' if even > 1 else ''}, nearly even or with little to lose, among {most} choices: "
        f"{named}{more}."
    )


def advice_sentence(record: dict[str, Any]) -> str:
    """Return what is to be said of the reward scale; empty where the answer is well between the ends."""
    chosen, advice, standing = record.get("reward_scale"), record.get("scale_advice"), record.get("standing")
    if chosen is not None:
        # The search is coarse; how far the answer itself came is said above.
        nearest = "" if chosen["reached"] else f"; the nearest found is {100 * chosen['share']:.0f}%"
        return (
            f"{chosen['scale']:g} was chosen, to come about {100 * chosen['wanted']:.0f}% of the way"
            f"{nearest}. {_other_table(record, chosen)}{_mixed(chosen)}Returns are in rewards times "
            f"{chosen['scale']:g}. It is not a setting of the method: it changes the preferences that the "
            "rewards express."
        )
    share = None if standing is None else standing["share"]
    if share is None or FLAT <= share <= PEAKED:
        return ""
    near = f"hardly differs from the {_reference(record)} policy" if share < FLAT else "is nearly the optimum"
    words = f"at this scale the posterior-induced policy {near}, which is correct."
    if advice is None:
        return words
    return (
        f"{words} With --reward-scale {advice['scale']:.2g} it would be {100 * advice['share']:.0f}% of the "
        "way; --reward-scale auto finds the scale for 90%."
    )


def _other_table(record: dict[str, Any], chosen: dict[str, Any]) -> str:
    """Return why the answer came elsewhere than the search: tables of few draws differ by scale."""
    share = (record.get("standing") or {}).get("share")
    if share is None or abs(share - chosen["share"]) < _FAR or not record["certificate"].get("table_error"):
        return ""
    return (
        f"The search came {100 * chosen['share']:.0f}%, on draws of its own: where draws are so few, the way "
        "depends on them, and more (--draws) would settle it. "
    )


def _mixed(chosen: dict[str, Any]) -> str:
    """Return why a larger scale would not help, where good policies that differ are mixed."""
    share, committed = chosen["share"], chosen["committed_share"]
    if chosen["reached"] or committed - share < _LOST:
        return ""
    return (
        f"One policy drawn per episode is {100 * committed:.0f}% of the way (--mode thompson): good "
        "policies go different ways here, and an action drawn at every step mixes them. "
    )


def _next(record: dict[str, Any]) -> str:
    run = record["run"]
    # A run folder alone never starts code, so it is named once more.
    code = list(named_code(record.get("domain", ""), record.get("options", {})))
    trusted = " --code " + " ".join(map(shlex.quote, code)) if code else ""
    every = [f"polinfer {command} {run}{trusted}" for command in ("explain", "report")]
    return "  or  ".join(every if record.get("choices") else every[1:])
