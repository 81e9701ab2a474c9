"""The posterior over the choice in each state, given that the episode starts there."""

from __future__ import annotations

from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from polinfer.core.errors import PolinferError, TooLargeError
from polinfer.exact.evaluation import evaluate_policy
from polinfer.exact.solution import Floats, Result, Solution
from polinfer.problems.tabular.table import TabularMDP

DEFAULT_LIMIT = 1 << 25
"""The largest number of policies to enumerate for one state."""


def statewise_posterior(
    table: TabularMDP, limit: int = DEFAULT_LIMIT, progress: Callable[[int, int], None] | None = None
) -> Solution:
    """Return ``Pr[pi(s) = a]`` under ``exp(J)`` with `s` as the start, for every `s`.

    With a random start a sweep conditions on one start, and the marginal of its first choice tends to this.
    Only the policies over the states that can follow `s` are enumerated, so this is feasible for problems
    with many starts whose joint posterior is too large.  No state may be visited twice, so that the states
    that can follow do not depend on time.

    Parameters
    ----------
    table
        A table without cycles, as Blackjack's.
    limit
        The largest number of policies for one state.
    progress
        Called with the number of states done and of all.

    Raises
    ------
    TooLargeError
        Where a state has more policies than `limit`.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.make("probe/fork")
    >>> one = statewise_posterior(table).policy[0]
    >>> both = polinfer.exact.policy_posterior(table).policy[0]
    >>> bool(abs(one - both).max() < 1e-12)  # the fork is where it starts
    True
    """
    order, below = _descendants(table)
    policy = np.array(table.prior)
    choices = [s for s in order if table.legal_actions[s].sum() > 1]
    for done, state in enumerate(choices):
        policy[state] = _choice(table, state, [s for s in order if below[state][s]], limit)
        if progress is not None:
            progress(done + 1, len(choices))
    value = evaluate_policy(table, policy)
    return Solution("statewise posterior", policy, value.value, value.expected_return, Result.EXACT)


def gibbs_policy(table: TabularMDP) -> Solution:
    """Return the policy with ``pi(a|s)`` in proportion to ``mu(a|s) exp(Q(s, a))``, `Q` being its own return.

    This is a mean-field approximation of the statewise posterior: returns are averaged over the later choices
    inside the exponent.  Without cycles one pass finds it.

    Examples
    --------
    >>> import polinfer
    >>> gibbs_policy(polinfer.make("bandit")).policy[0].round(3).tolist()
    [0.378, 0.622]
    """
    order, _ = _descendants(table)
    policy = np.array(table.prior)
    value = np.zeros(table.num_states)
    for state in order:
        later = table.discount * value[table.successor[state]]
        worth = (table.probability[state] * (table.reward[state] + later)).sum(axis=-1)
        mass = table.prior[state] * np.exp(worth - worth.max())
        policy[state] = mass / mass.sum()
        value[state] = policy[state] @ worth
    return Solution("Gibbs policy", policy, value, float(table.initial @ value), Result.EXACT)


def _descendants(table: TabularMDP) -> tuple[list[int], NDArray[np.bool_]]:
    """Return the decision states, last ones first, and which of them can follow which."""
    acting = np.flatnonzero(~table.absorbing)
    possible = (table.probability > 0) & table.legal_actions[:, :, None]
    followers = {
        int(s): {int(t) for t in table.successor[s][possible[s]] if not table.absorbing[t]} for s in acting
    }
    try:
        order = list(TopologicalSorter(followers).static_order())
    except CycleError:
        raise PolinferError(
            "the statewise posterior needs a problem in which no state can be visited twice; use "
            "policy_posterior"
        ) from None
    below = np.zeros((table.num_states, table.num_states), np.bool_)
    depth = np.zeros(table.num_states, np.int64)
    for state in order:
        for follower in followers[state]:
            below[state] |= below[follower]
            below[state, follower] = True
            depth[state] = max(depth[state], depth[follower])
        depth[state] += 1
    if depth.max(initial=0) > table.horizon:
        raise PolinferError(
            f"an episode can last {depth.max()} steps, but the horizon is {table.horizon}; the statewise "
            "posterior needs one that cuts nothing off"
        )
    return order, below


def _choice(table: TabularMDP, state: int, below: list[int], limit: int) -> Floats:
    """Return the posterior of the choice in `state`, over all policies in the states `below`, last first."""
    actions = [np.flatnonzero(table.legal_actions[s]) for s in below]
    total = int(np.prod([len(a) for a in actions], dtype=np.float64))
    if total > limit:
        raise TooLargeError(
            f"{table.state_names[state]}: {total:,} policies can follow, more than the limit of {limit:,}"
        )
    # Policies are numbered with the last state as the lowest digit, so the values of a state are periodic
    # with the number of ways to choose in the states up to it.
    value: dict[int, Floats] = {}
    ways = 1
    log_prior = np.zeros(1)
    for s, legal in zip(below, actions, strict=True):
        value[s] = np.concatenate([_worth(table, s, int(a), value, ways) for a in legal])
        log_prior = np.concatenate([log_prior + np.log(table.prior[s, a]) for a in legal])
        ways *= len(legal)
    log_mass = np.full(table.num_actions, -np.inf)
    for a in np.flatnonzero(table.legal_actions[state]):
        returns = _worth(table, state, int(a), value, ways) + log_prior + np.log(table.prior[state, a])
        log_mass[a] = returns.max() + np.log(np.exp(returns - returns.max()).sum())
    mass = np.exp(log_mass - log_mass.max())
    return np.asarray(mass / mass.sum())


def _worth(table: TabularMDP, state: int, action: int, value: dict[int, Floats], ways: int) -> Floats:
    """Return the expected return of an action under each of the `ways` to choose in the states after it."""
    total = np.full(ways, float(table.probability[state, action] @ table.reward[state, action]))
    for probability, successor in zip(
        table.probability[state, action], table.successor[state, action], strict=True
    ):
        if probability > 0 and int(successor) in value:
            after = value[int(successor)]
            total.reshape(-1, len(after))[:] += table.discount * probability * after
    return total
