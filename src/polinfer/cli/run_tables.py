"""The tables of a run, from its record."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from polinfer.cli.output import number
from polinfer.posterior.estimand import Target

_SHOWN_STATES = 20
_POSTERIOR = Target.EXP_EXPECTED_RETURN.name.lower()


def run_tables(record: dict[str, Any]) -> list[Table]:
    """Return the facts of a run and, where its states are few, its policy."""
    found = [_facts(record)]
    if "policy" in record:
        found.append(_policy(record))
    return found


def _facts(record: dict[str, Any]) -> Table:
    title = escape(f"{record['domain']}: {record['method']}")
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    returns, facts = record["return"], record.get("posterior")
    spread = (
        f" ± {record['return_std_over_seeds']:.3f} over {record['seeds']} seeds"
        if record["seeds"] > 1
        else ""
    )
    executed = "one policy per episode" if record["mode"] == "thompson" else "action drawn at every step"
    exactly = "exact" if record["episodes"] == 0 else f"{record['episodes']:,} episodes a seed"
    table.add_row(f"return, {executed} ({exactly})", f"{returns['mean']:.3f}{spread}")
    table.add_row("  standard deviation of an episode's return", number(returns["std"]))
    table.add_row("  5% and 95% quantiles", f"{number(returns['q05'], 2)}  {number(returns['q95'], 2)}")
    table.add_row("  means beyond them", f"{number(returns['cvar05'], 2)}  {number(returns['cvar95'], 2)}")
    table.add_row("success", number(record["success"]))
    if len(record["endings"]) > 1:
        endings = record["endings"] | {"time up": max(0.0, 1.0 - sum(record["endings"].values()))}
        table.add_row("endings", escape("  ".join(f"{k} {v:.3f}" for k, v in endings.items())))
    oracle = record.get("oracle")
    if oracle is not None:
        table.add_row(f"exactly, {oracle['name']}: return", number(oracle["return"]))
        table.add_row("  distance to it, mean total variation over states", number(oracle["distance"]))
    if facts is None and record["log_evidence"] is not None:
        table.add_row("log Z-hat, mean of the last tenth", number(record["log_evidence"]))
    if facts is not None:
        error = facts["log_evidence_stderr"]
        table.add_row(
            "log evidence", number(record["log_evidence"], 4) + (f" ± {error:.3f}" if error else "")
        )
        table.add_row("deterministic policies", _amount(facts["policies"]))
        table.add_row("effectively different ones", _amount(facts["effective_policies"], 1))
        error = facts["expected_return_stderr"]
        table.add_row(
            "return, one policy drawn per episode",
            number(facts["expected_return"]) + (f" ± {error:.3f}" if error else ""),
        )
        table.add_row("return of the most probable policy", number(facts["top"][0]["return"]))
    _add_certificate(table, record["certificate"])
    table.add_row("seconds", number(record["seconds"], 1))
    return table


def _policy(record: dict[str, Any]) -> Table:
    rows = sorted(record["policy"], key=lambda row: -row["occupancy"])
    more = f"; {len(rows) - _SHOWN_STATES} more in summary.json" if len(rows) > _SHOWN_STATES else ""
    table = Table(
        title="policy, most visited states first", title_justify="left", caption=f"visits per episode{more}"
    )
    table.add_column("state")
    for name in record["actions"]:
        table.add_column(escape(name), justify="right")
    table.add_column("visits", justify="right")
    for row in rows[:_SHOWN_STATES]:
        table.add_row(escape(row["state"]), *(number(p) for p in row["probs"]), number(row["occupancy"], 2))
    return table


def _amount(value: float, digits: int = 0) -> str:
    """Write a number of policies; a very large one by its size."""
    return f"{value:,.{digits}f}" if value < 1e12 else f"{value:.1e}"


def _add_certificate(table: Table, certificate: dict[str, Any]) -> None:
    table.add_section()
    table.add_row("certificate", escape(f"{certificate['verdict']}: {certificate['reason']}"))
    estimand = certificate["estimand"]
    table.add_row("  target", escape(estimand["sentence"]))
    if certificate["known_from"] is not None:
        table.add_row(f"  distance to the {certificate['known_from']}", number(certificate["distance"]))
    if certificate["log_evidence_upper_stderr"]:  # Where log Z was computed, it stands above.
        bounds = [
            f"{certificate[value]:.3f} ± {certificate[error]:.3f}"
            for value, error in (
                ("log_evidence_lower", "log_evidence_stderr"),
                ("log_evidence_upper", "log_evidence_upper_stderr"),
            )
        ]
        itself = estimand["target"] == _POSTERIOR and not estimand["in_the_limit"]
        what = "log Z" if itself else "log Z, its mean over worlds"
        table.add_row(f"  bounds on {what}", "  ".join(bounds))
    if certificate["ess"] is not None:
        share, k = certificate["ess"], certificate["pareto_k"]
        tail = "" if k is None else f", Pareto k {k:.2f}"
        table.add_row("  effective particles at the end of a sweep", f"{100 * share:.0f}%{tail}")
    table.add_section()
