"""Target 2 by brute force: the posterior averaged over worlds, ``E_w[softmax R_w]``.

A *world* fixes the outcome of every query ``(s, a, k)``: the k-th time that action a is taken in state s.
The weighted particles of sweeps with one world, averaged over sweeps, tend to this and not to the paper's
definition.  Only tiny problems can be enumerated this way, for tests.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import scipy.special

from polinfer.core.errors import PolinferError, TooLargeError
from polinfer.exact.enumeration import count_policies, decision_states
from polinfer.exact.solution import Floats
from polinfer.problems.tabular.table import TabularMDP

DEFAULT_LIMIT = 5_000_000


def world_averaged_policy(table: TabularMDP, limit: int = DEFAULT_LIMIT) -> Floats:
    """Return ``E_w[Pr(pi(s) = a | world w)]``, ``[S, A]``: target 2.

    The start must be certain.  `limit` bounds the number of worlds times the number of policies.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.make("probe/three-targets")
    >>> world_averaged_policy(table)[0].round(3).tolist()
    [0.598, 0.402]
    """
    start = int(np.argmax(table.initial))
    if table.initial[start] < 1:
        raise PolinferError("worlds are enumerated from one start; give the table a certain initial state")
    decision = decision_states(table, table.horizon)
    if len(decision) == 0:
        return np.array(table.prior)
    legal = [np.nonzero(table.legal_actions[s])[0] for s in decision]
    # Only queries whose outcome is random make worlds differ.
    queries = [
        (int(s), int(a), k)
        for s, actions in zip(decision, legal, strict=True)
        for a in actions
        for k in range(table.horizon)
        if (table.probability[s, a] > 0).sum() > 1
    ]
    worlds = math.prod(int((table.probability[s, a] > 0).sum()) for s, a, _ in queries)
    policies = count_policies(table, decision)
    if worlds * policies > limit:
        raise TooLargeError(
            f"{worlds:,} worlds times {policies:,} policies are more than the limit of {limit:,}"
        )

    total = np.zeros((table.num_states, table.num_actions))
    for slots in itertools.product(*(np.nonzero(table.probability[s, a] > 0)[0] for s, a, _ in queries)):
        world = dict(zip(queries, (int(b) for b in slots), strict=True))
        chance = math.prod(table.probability[s, a, b] for (s, a, _), b in world.items())
        every = [dict(zip(decision.tolist(), map(int, c), strict=True)) for c in itertools.product(*legal)]
        returns = np.array([_return_in_world(table, start, policy, world) for policy in every])
        log_prior = [sum(math.log(table.prior[s, a]) for s, a in policy.items()) for policy in every]
        for policy, weight in zip(every, scipy.special.softmax(returns + log_prior), strict=True):
            for s, a in policy.items():
                total[s, a] += chance * weight
    averaged = np.array(table.prior)
    averaged[decision] = total[decision]
    return averaged


def _return_in_world(
    table: TabularMDP, start: int, policy: dict[int, int], world: dict[tuple[int, int, int], int]
) -> float:
    state, gained, visits = start, 0.0, dict.fromkeys(policy, 0)
    for step in range(table.horizon):
        if table.absorbing[state]:
            break
        action, k = policy[state], visits[state]
        visits[state] += 1
        slot = world.get((state, action, k), int(table.probability[state, action].argmax()))
        gained += table.discount**step * float(table.reward[state, action, slot])
        state = int(table.successor[state, action, slot])
    return gained
