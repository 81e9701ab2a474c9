"""Which of a policy's choices are clear, and which are toss-ups.

In every state that the policy visits, each action is tried in turn with the policy as it is elsewhere, and
the exact ``J`` says what the choice is worth.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer import exact
from polinfer.core.errors import PolinferError, check_at_least
from polinfer.exact.solution import Floats
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular.table import TabularMDP

CLEAR = 0.9
"""A choice is clear if one action holds at least this probability."""
SMALL_LOSS = 0.01
"""A loss is small below this share of the range of ``J`` from the uniform policy to the optimum."""
EVEN = 0.1
"""The two most probable actions are nearly even if their probabilities differ by less than this."""
TIE = 1e-6
"""Losses below this share of the range are ties: the most probable action need not be the very best."""

_LISTED = 20  # states, where an explanation is printed

Clarity = Literal["clear", "leaning", "toss-up"]


class StateChoice(NamedTuple):
    """One state in which the policy chooses; everything by legal action, the most probable first."""

    state: int
    name: str
    occupancy: float  # expected visits in an episode
    actions: tuple[int, ...]
    action_names: tuple[str, ...]
    probs: tuple[float, ...]  # mean over seeds
    probs_std: tuple[float, ...]  # over seeds; zeros with one seed
    returns: tuple[float, ...]  # J with this action here and the policy as it is elsewhere
    losses: tuple[float, ...]  # the best of them minus each
    verdict: Clarity
    disagrees: bool  # the most probable action is not the best one
    evidence: tuple[float, ...] = ()  # log of posterior over prior; empty where the prior is uniform

    @property
    def best(self) -> str:
        """The action with the largest ``J``."""
        return self.action_names[int(np.argmin(self.losses))]


class Explanation(NamedTuple):
    """The choices of a policy, in the states visited most first."""

    table: TabularMDP
    policy: Floats  # [S, A], mean over seeds
    seeds: int
    expected_return: float  # J of executing it
    uniform_return: float  # of the reference measure where it is not uniform
    optimal_return: float  # of the finite-horizon optimum
    choices: tuple[StateChoice, ...]
    left_out: int  # visited states with a choice beyond `top`

    def __repr__(self) -> str:
        head = (
            f"return {self.expected_return:.3f} (uniform {self.uniform_return:.3f}, optimum "
            f"{self.optimal_return:.3f})"
        )
        more = len(self.choices) + self.left_out - _LISTED
        rest = [f"... {more} more states"] if more > 0 else []
        return "\n".join([head, *map(_line, self.choices[:_LISTED]), *rest])


def _line(choice: StateChoice) -> str:
    """Return a choice as a line: actions by probability, and what each would lose."""
    shown = zip(choice.action_names[:4], choice.probs, choice.losses, strict=False)
    actions = ", ".join(f"{name} {prob:.2f} (loses {loss:.3g})" for name, prob, loss in shown)
    return f"{choice.name}: {choice.verdict}: {actions}{', ...' if len(choice.probs) > 4 else ''}"


def explain(posterior: Posterior, top: int | None = None) -> Explanation:
    """Say for each state that matters how sure the choice is, and what the alternatives would cost.

    The policy is the mean over seeds, and an action is drawn from it at every step.  Losses are in the
    problem's rewards and over a whole episode: a state that is hardly visited has small ones.

    Parameters
    ----------
    posterior
        What `infer` or `load` returned, on a table.
    top
        How many states, the most visited first; all visited ones by default.

    Examples
    --------
    >>> import polinfer
    >>> posterior = polinfer.infer(polinfer.make("gridworld/ablation", reward_scale=3), method="exact")
    >>> explanation = polinfer.explain(posterior, top=2)
    >>> for choice in explanation.choices:
    ...     print(choice.name, choice.action_names[0], choice.verdict)
    (1,2) down clear
    (1,1) right leaning
    """
    table, probs = posterior.view, posterior.table_probs()
    if not isinstance(table, TabularMDP) or probs is None:
        raise PolinferError(
            f"only a posterior on a table can be explained, and this one is on {type(table).__name__}: "
            "losses in J are computed exactly; make a table of the problem (polinfer.tabulate) and plan on it"
        )
    rows = probs.astype(np.float64)
    rows /= rows.sum(axis=-1, keepdims=True)
    policy = rows.mean(axis=0)
    value = exact.evaluate_policy(table, policy)
    shown, left_out = _states(table, value.occupancy, top)
    uniform = exact.evaluate_policy(table, table.prior).expected_return
    optimal = exact.finite_horizon_optimum(table).objective
    pairs = [(int(s), int(a)) for s in shown for a in np.flatnonzero(table.legal_actions[s])]
    returns = dict(zip(pairs, _alternatives(table, policy, pairs), strict=True))
    choices = []
    for state in map(int, shown):
        legal = np.flatnonzero(table.legal_actions[state])
        order = legal[np.argsort(-policy[state, legal], kind="stable")]
        worth = np.array([returns[state, int(action)] for action in order])
        losses = worth.max() - worth
        verdict, disagrees = judge(policy[state, order], losses, optimal - uniform)
        spread = rows[:, state, order].std(axis=0, ddof=1) if len(rows) > 1 else np.zeros(len(order))
        choices.append(
            StateChoice(
                state=state,
                name=table.state_names[state],
                occupancy=float(value.occupancy[state]),
                actions=tuple(map(int, order)),
                action_names=tuple(table.action_names[int(action)] for action in order),
                probs=tuple(map(float, policy[state, order])),
                probs_std=tuple(map(float, spread)),
                returns=tuple(map(float, worth)),
                losses=tuple(map(float, losses)),
                verdict=verdict,
                disagrees=disagrees,
                evidence=_evidence(table, policy, state, order) if table.has_prior else (),
            )
        )
    return Explanation(
        table, policy, len(rows), value.expected_return, uniform, optimal, tuple(choices), left_out
    )


def _evidence(table: TabularMDP, policy: Floats, state: int, actions: NDArray[np.int64]) -> tuple[float, ...]:
    """Return how much more probable each action became, ``log(posterior / prior)`` in nats."""
    after = np.maximum(policy[state, actions], 1e-300)
    return tuple(map(float, np.log(after) - np.log(table.prior[state, actions])))


def judge(probs: Floats, losses: Floats, span: float) -> tuple[Clarity, bool]:
    """Return the verdict on one choice, and whether probability and loss disagree.

    Parameters
    ----------
    probs, losses
        Of the legal actions, at least two.
    span
        The range of ``J`` from the uniform policy to the optimum.

    Examples
    --------
    >>> judge(np.array([0.95, 0.05]), np.array([0.0, 2.0]), 10.0)
    ('clear', False)
    >>> judge(np.array([0.7, 0.3]), np.array([2.0, 0.0]), 10.0)
    ('leaning', True)
    """
    disagrees = bool(losses[np.argmax(probs)] > TIE * max(span, 0.0) + 1e-12)
    first, second = np.sort(probs)[::-1][:2]
    if first >= CLEAR:
        return "clear", disagrees
    # The best action's nearest rival costs the difference between the two.
    runner_up = float(np.sort(losses)[1])
    if runner_up <= SMALL_LOSS * max(span, 0.0) or first - second < EVEN:
        return "toss-up", disagrees
    return "leaning", disagrees


def _alternatives(table: TabularMDP, policy: Floats, pairs: list[tuple[int, int]]) -> Iterator[float]:
    """Yield ``J`` of `policy` with the row of a state replaced by an action, for each of `pairs`."""
    # Chunks of one size: a last one that is smaller would be compiled for itself.
    size = min(exact.returns_at_once(table), max(1, len(pairs)))
    for first in range(0, len(pairs), size):
        part = pairs[first : first + size]
        changed = np.repeat(policy[None], size, axis=0)
        for row, (state, action) in zip(changed, part, strict=False):
            row[state] = 0.0
            row[state, action] = 1.0
        yield from map(float, exact.stochastic_returns(table, changed)[: len(part)])


def _states(table: TabularMDP, occupancy: Floats, top: int | None) -> tuple[NDArray[np.int64], int]:
    """Return the visited states with a choice, the most visited first, and how many more there are."""
    chosen = (occupancy > 0) & ~table.absorbing & (table.legal_actions.sum(axis=1) > 1)
    states = np.flatnonzero(chosen)
    states = states[np.argsort(-occupancy[states], kind="stable")]
    kept = len(states) if top is None else check_at_least("top", top, 1)
    return states[:kept], max(0, len(states) - kept)


def as_json(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as plain lists and numbers."""
    return {
        "seeds": explanation.seeds,
        "return": explanation.expected_return,
        "uniform_return": explanation.uniform_return,
        "optimal_return": explanation.optimal_return,
        "left_out": explanation.left_out,
        "thresholds": {"clear": CLEAR, "small_loss": SMALL_LOSS, "even": EVEN},
        "choices": [
            {
                "state": choice.name,
                "occupancy": choice.occupancy,
                "verdict": choice.verdict,
                "disagrees": choice.disagrees,
                "best": choice.best,
                "actions": [
                    {"action": name, "prob": prob, "prob_std": spread, "return": returned, "loss": loss}
                    | ({"evidence": choice.evidence[i]} if choice.evidence else {})
                    for i, (name, prob, spread, returned, loss) in enumerate(
                        zip(
                            choice.action_names,
                            choice.probs,
                            choice.probs_std,
                            choice.returns,
                            choice.losses,
                            strict=True,
                        )
                    )
                ],
            }
            for choice in explanation.choices
        ],
    }
