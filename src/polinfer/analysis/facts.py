"""The summary of a run as rows that people read, for the terminal and for the page alike."""

from __future__ import annotations

from typing import Any, NamedTuple

from polinfer.core.formatting import amount, effectively, number, with_error
from polinfer.posterior.estimand import Target

_POSTERIOR = Target.EXP_EXPECTED_RETURN.name.lower()
SHOWN_STATES = 20
_MOST_COLUMNS = 6  # actions; of more, only the likeliest two are shown

Rows = list[tuple[str, ...]]


class Facts(NamedTuple):
    """What a run came to."""

    title: str
    sections: list[Rows]  # of a label and a value


class PolicyRows(NamedTuple):
    """The policy in the states that are visited most."""

    head: tuple[str, ...]
    rows: Rows
    left_out: int


def facts_of(record: dict[str, Any]) -> Facts:
    """Return the facts of a run from the record that ``summary.json`` holds."""
    answer = [*_returns(record), *_oracle(record), *_evidence(record)]
    sections: list[Rows] = [
        answer,
        _certificate(record["certificate"]),
        [("seconds", number(record["seconds"], 1))],
    ]
    return Facts(f"{record['domain']}: {record['method']}", sections)


def policy_rows(record: dict[str, Any]) -> PolicyRows | None:
    """Return the policy, most visited states first; None where the run does not list it."""
    if "policy" not in record:
        return None
    rows = sorted(record["policy"], key=lambda row: -row["occupancy"])
    names, left_out = record["actions"], max(0, len(rows) - SHOWN_STATES)
    if len(names) > _MOST_COLUMNS:
        head = ("state", "likeliest", "prob", "then", "prob", "visits")
        return PolicyRows(head, [_likeliest(row, names) for row in rows[:SHOWN_STATES]], left_out)
    shown = [
        (row["state"], *(number(p) for p in row["probs"]), number(row["occupancy"], 2))
        for row in rows[:SHOWN_STATES]
    ]
    return PolicyRows(("state", *names, "visits"), shown, left_out)


def _likeliest(row: dict[str, Any], names: list[str]) -> tuple[str, ...]:
    """Return a row of the policy with the two actions that are most probable."""
    first, second = sorted(range(len(names)), key=lambda action: -row["probs"][action])[:2]
    chances = (number(row["probs"][first]), number(row["probs"][second]))
    return (row["state"], names[first], chances[0], names[second], chances[1], number(row["occupancy"], 2))


def _returns(record: dict[str, Any]) -> Rows:
    returns, seeds = record["return"], record["seeds"]
    spread = f" ± {record['return_std_over_seeds']:.3f} over {seeds} seeds" if seeds > 1 else ""
    executed = "one policy per episode" if record["mode"] == "thompson" else "action drawn at every step"
    of = " on the estimated table" if record["certificate"].get("table_error") else ""
    exactly = f"exact{of}" if record["episodes"] == 0 else f"{record['episodes']:,} episodes a seed"
    rows: Rows = [
        (f"return, {executed} ({exactly})", f"{returns['mean']:.3f}{spread}"),
        ("  standard deviation of an episode's return", number(returns["std"])),
        ("  5% and 95% quantiles", f"{number(returns['q05'], 2)}  {number(returns['q95'], 2)}"),
        ("  means beyond them (CVaR)", f"{number(returns['cvar05'], 2)}  {number(returns['cvar95'], 2)}"),
        ("success", number(record["success"])),
    ]
    if len(record["endings"]) > 1:
        endings = record["endings"] | {"time up": max(0.0, 1.0 - sum(record["endings"].values()))}
        rows.append(("endings", "  ".join(f"{name} {share:.3f}" for name, share in endings.items())))
    return rows


def _oracle(record: dict[str, Any]) -> Rows:
    oracle = record.get("oracle")
    if oracle is None:
        return []
    return [
        (f"exactly, {oracle['name']}: return", number(oracle["return"])),
        ("  distance to it, mean total variation over states", number(oracle["distance"])),
    ]


def _evidence(record: dict[str, Any]) -> Rows:
    facts, evidence = record.get("posterior"), record["log_evidence"]
    if facts is None:
        return [] if evidence is None else [("log Z-hat, mean of the last tenth", number(evidence))]
    return [
        ("log evidence", with_error(evidence, facts["log_evidence_stderr"], 4)),
        ("deterministic policies", amount(facts["policies"])),
        ("effectively different ones", effectively(facts["effective_policies"])),
        (
            "return, one policy drawn per episode",
            with_error(facts["expected_return"], facts["expected_return_stderr"]),
        ),
        ("return of the most probable policy", number(facts["top"][0]["return"])),
    ]


def _certificate(certificate: dict[str, Any]) -> Rows:
    estimand = certificate["estimand"]
    rows: Rows = [
        ("certificate", f"{certificate['verdict']}: {certificate['reason']}"),
        ("  target", estimand["sentence"]),
    ]
    if certificate["remedy"]:
        rows.insert(1, ("  what would help", certificate["remedy"]))
    if certificate["proven_lower"] is not None:
        ends = [number(certificate[name]) for name in ("proven_lower", "proven_upper")]
        of = " of the estimated table" if certificate.get("table_error") else ""
        rows.append((f"  log Z{of} is proven to lie in", f"[{ends[0]}, {ends[1]}]"))
    draws = certificate.get("table_error")
    if draws is not None:
        rows.append(
            (
                f"  left open by the table's draws, about {draws['draws']:,} a pair",
                f"policy {draws['distance']:.3f}, log Z {draws['log_evidence_stderr']:.3f}, return "
                f"{draws['return_stderr']:.3f}",
            )
        )
    if certificate["known_from"] is not None:
        rows.append((f"  distance to the {certificate['known_from']}", number(certificate["distance"])))
    if certificate["log_evidence_upper_stderr"]:  # Where log Z was computed, it stands above.
        bounds = [
            with_error(certificate[value], certificate[error])
            for value, error in (
                ("log_evidence_lower", "log_evidence_stderr"),
                ("log_evidence_upper", "log_evidence_upper_stderr"),
            )
        ]
        itself = estimand["target"] == _POSTERIOR and not estimand["in_the_limit"]
        what = "log Z" if itself else "log Z, its mean over worlds"
        rows.append((f"  {what}, from below and from above", "  ".join(bounds)))
    if certificate["ess"] is not None:
        tail = "" if certificate["pareto_k"] is None else f", Pareto k {certificate['pareto_k']:.2f}"
        share = f"{100 * certificate['ess']:.0f}%{tail}"
        rows.append(("  effective particles at the end of a sweep", share))
    return rows
