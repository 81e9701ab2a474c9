"""Results in notebooks: compact, self-contained cards with all text escaped; figures, frames and chains."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from functools import singledispatch
from importlib import import_module
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from polinfer import exact
from polinfer.analysis.certificate import Certificate, diagnose
from polinfer.analysis.comparison import Comparison
from polinfer.analysis.evaluation import Evaluation
from polinfer.core.errors import PolinferError
from polinfer.core.formatting import effectively, number, with_error
from polinfer.plots.html import text
from polinfer.plots.panels import PolicyPanel
from polinfer.plots.run import policy_figure
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular.table import TabularMDP

_STYLE = (
    "font:13px/1.45 system-ui,sans-serif;border:1px solid #ccc;border-radius:6px;padding:.6em .9em;"
    "display:inline-block;max-width:56em;color:#222;background:#fff"
)
_DRAWN_STATES = 2_000  # with more, a card has no picture
_DOTS = 90  # per inch

Rows = Sequence[tuple[str, ...]]


@singledispatch
def card(shown: Any) -> str:
    """Return the card of a result."""
    return f"<pre>{text(repr(shown))}</pre>"


@card.register
def _(shown: Posterior) -> str:
    rows: list[tuple[str, str]] = [("method", shown.method), ("problem", type(shown.mdp).__name__)]
    if shown.reason:
        rows.append(("why", shown.reason))
    if shown.seeds > 1:
        rows.append(("seeds", str(shown.seeds)))
    table, probs = shown.view, shown.table_probs()
    picture = ""
    if isinstance(table, TabularMDP) and probs is not None:
        value = exact.evaluate_policy(table, _rows_of(probs))
        uniform = exact.evaluate_policy(table, table.prior).expected_return
        optimum = exact.finite_horizon_optimum(table).objective
        rows.append(("return", f"{value.expected_return:.3f} (uniform {uniform:.3f}, optimum {optimum:.3f})"))
        if table.num_states <= _DRAWN_STATES:
            picture = _picture(plot(shown))
    if shown.policies is not None:
        facts = shown.policies
        rows.append(("log Z", with_error(facts.log_evidence, facts.log_evidence_stderr)))
        rows.append(("policies that matter", effectively(facts.effective_policies)))
    findings = diagnose(shown)
    rows += [(str(found.severity), found.sentence) for found in findings]
    sure = any(found.code == "enumerated" for found in findings)
    rows.append(("verdict", "trust: every policy was enumerated" if sure else "ask polinfer.certify(...)"))
    return _card("Posterior over policies", rows, picture)


@card.register
def _(shown: Certificate) -> str:
    rows = [
        ("verdict", f"{shown.verdict}: {shown.reason}"),
        ("what would help", shown.remedy),
        ("target", str(shown.estimand)),
        ("log Z is proven to lie in", _interval(shown.proven_lower, shown.proven_upper)),
        ("log Z, estimated", with_error(shown.log_evidence_lower, shown.log_evidence_stderr)),
        (f"distance to the {shown.known_from}", number(shown.distance) if shown.known_from else ""),
    ]
    return _card("Certificate", [row for row in rows if row[1] not in ("", "–")])


@card.register
def _(shown: Evaluation) -> str:
    how = "exact" if shown.episodes == 0 else f"{shown.episodes:,} episodes a seed"
    rows = [
        (f"return ({how})", with_error(float(shown.mean.mean()), float(shown.stderr.mean()))),
        ("standard deviation", number(float(shown.std.mean()))),
        ("5% and 95% quantiles", f"{shown.q05.mean():.3f}  {shown.q95.mean():.3f}"),
        ("steps", number(float(shown.length.mean()), 1)),
    ]
    rows += [(name, number(float(share.mean()))) for name, share in shown.endings.items()]
    return _card("Evaluation", rows)


@card.register
def _(shown: Comparison) -> str:
    rows = [
        (
            answer.name,
            number(answer.returns.mean),
            number(answer.value.success),
            number(answer.value.entropy),
            number(shown.distance_to_posterior(index)),
        )
        for index, answer in enumerate(shown.answers)
    ]
    head = ("method", "return", "success", "entropy", "distance")
    return _card(
        f"Comparison: {shown.table.num_states} states, horizon {shown.table.horizon}", rows, "", head
    )


@card.register
def _(shown: TabularMDP) -> str:
    names = ", ".join(shown.action_names[:8]) + (" ..." if shown.num_actions > 8 else "")
    rows = [
        ("states", f"{shown.num_states:,}, of which {int(shown.absorbing.sum()):,} end an episode"),
        ("actions", f"{shown.num_actions}: {names}"),
        ("horizon", str(shown.horizon)),
        ("starts", str(int((shown.initial > 0).sum()))),
        ("rewards", f"{shown.reward.min():.3g} to {shown.reward.max():.3g}"),
    ]
    return _card("Table of a Markov decision process", rows)


def plot(posterior: Posterior) -> Figure:
    """Draw the policy of a posterior, as its domain draws policies."""
    table, probs = posterior.view, posterior.table_probs()
    if not isinstance(table, TabularMDP) or probs is None:
        raise PolinferError("only a posterior on a table can be drawn; plan on polinfer.tabulate(problem)")
    policy = _rows_of(probs)
    visits = exact.evaluate_policy(table, policy).occupancy
    return policy_figure(posterior.mdp, table, [PolicyPanel(posterior.method, policy, visits)])


def to_frame(posterior: Posterior) -> Any:
    """Return action probabilities as a pandas data frame: a row for each state and legal action."""
    pandas = _optional("pandas")
    table, probs = posterior.view, posterior.table_probs()
    if not isinstance(table, TabularMDP) or probs is None:
        raise PolinferError("only a posterior on a table has a frame; plan on polinfer.tabulate(problem)")
    policy = _rows_of(probs)
    visits = exact.evaluate_policy(table, policy).occupancy
    spread = probs.std(axis=0, ddof=1) if posterior.seeds > 1 else np.zeros_like(policy)
    state, action = np.nonzero(table.legal_actions & ~table.absorbing[:, None])
    return pandas.DataFrame(
        {
            "state": [table.state_names[s] for s in state],
            "action": [table.action_names[a] for a in action],
            "probability": policy[state, action],
            "std_over_seeds": spread[state, action],
            "visits": visits[state],
        }
    )


def to_arviz(posterior: Posterior) -> Any:
    """Return drawn policies for arviz: their ``J``, with islands as chains, and the choices in each state."""
    arviz = _optional("arviz")
    drawn = None if posterior.policies is None else posterior.policies.sampled_policies
    table = posterior.view
    if drawn is None or not isinstance(table, TabularMDP):
        raise PolinferError(
            f"method {posterior.method!r} drew no whole policies; use tempered, particles, rollouts or exact"
        )
    chains = int(getattr(posterior.policies, "chains", 1))
    length = len(drawn) // chains
    drawn = drawn[: chains * length]
    free = np.flatnonzero(~table.absorbing & (table.legal_actions.sum(axis=1) > 1))
    values = {
        "J": exact.deterministic_returns(table, drawn).reshape(chains, length),
        "action": drawn[:, free].reshape(chains, length, -1),
    }
    named: dict[str, Any] = {
        "coords": {"state": [table.state_names[s] for s in free]},
        "dims": {"action": ["state"]},
    }
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict({"posterior": values}, **named)
    return arviz.from_dict(posterior=values, **named)


def _rows_of(probs: Any) -> Any:
    policy = probs.mean(axis=0).astype(np.float64)
    return policy / policy.sum(axis=-1, keepdims=True)


def _optional(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise PolinferError(f"this needs {name}: pip install 'polinfer[notebook]'") from None


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None else f"[{number(low)}, {number(high)}]"


def _picture(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DOTS, metadata={"Software": None})
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="the policy" style="max-width:100%" src="data:image/png;base64,{data}">'


def _card(title: str, rows: Rows, picture: str = "", head: Sequence[str] = ()) -> str:
    cell = 'style="text-align:left;padding:.1em .8em .1em 0;vertical-align:top"'
    lines = [f"<tr>{''.join(f'<th {cell}>{text(name)}</th>' for name in head)}</tr>"] if head else []
    lines += [f"<tr>{''.join(f'<td {cell}>{text(part)}</td>' for part in row)}</tr>" for row in rows]
    return (
        f'<div style="{_STYLE}"><b>{text(title)}</b>'
        f'<table style="border-collapse:collapse;margin:.4em 0">{"".join(lines)}</table>{picture}</div>'
    )
