"""Small random problems with terms of their own, and their posteriors by plain recursion over policies."""

import itertools

import numpy as np
import scipy.special

from polinfer import TabularMDP


def random_table(seed, *, states=4, actions=3, horizon=6, discount=0.8, loops=True, sharp=1.0):
    """Return a table with a random reference measure; some actions are illegal, the last state absorbs."""
    rng = np.random.default_rng(seed)
    transitions = np.zeros((states, actions, states))
    rewards = rng.normal(size=(states, actions, states))
    for s, a in itertools.product(range(states - 1), range(actions)):
        low = 0 if loops else s + 1
        targets = rng.choice(np.arange(low, states), size=min(2, states - low), replace=False)
        transitions[s, a, targets] = rng.dirichlet(np.ones(len(targets)))
    prior = rng.dirichlet(np.full(actions, 1.0 / sharp), size=states)
    prior[0, 1] = 0.0
    prior /= prior.sum(axis=1, keepdims=True)
    prior = np.where(prior < 1e-9, 0.0, prior)
    prior /= prior.sum(axis=1, keepdims=True)
    absorbing = np.arange(states) == states - 1
    return TabularMDP(
        transitions,
        rewards * ~absorbing[:, None, None],
        0,
        absorbing,
        horizon,
        prior=prior,
        discount=discount,
    )


def acting_states(table):
    """Return the states in which some policy acts within the horizon."""
    found, frontier = set(), {int(s) for s in np.flatnonzero(table.initial)}
    for _ in range(table.horizon):
        frontier = {s for s in frontier if not table.absorbing[s]} - found
        found |= frontier
        frontier = {
            int(t)
            for s in frontier
            for a in np.flatnonzero(table.prior[s])
            for t in table.successor[s, a][table.probability[s, a] > 0]
        }
    return sorted(found)


def brute_force(table):
    """Return every policy ``[n, S]``, its log prior and its return, without any code of the package."""
    acting = acting_states(table)
    legal = [np.flatnonzero(table.prior[s] > 0) for s in acting]
    policies, log_prior, returns = [], [], []
    for choice in itertools.product(*legal):
        policy = np.zeros(table.num_states, int)
        policy[acting] = choice
        value = np.zeros(table.num_states)
        for _ in range(table.horizon):
            after = np.zeros(table.num_states)
            for s in acting:
                for p, r, t in zip(
                    table.probability[s, policy[s]],
                    table.reward[s, policy[s]],
                    table.successor[s, policy[s]],
                    strict=True,
                ):
                    after[s] += p * (r + table.discount * value[t])
            value = after
        policies.append(policy)
        log_prior.append(sum(np.log(table.prior[s, a]) for s, a in zip(acting, choice, strict=True)))
        returns.append(float(table.initial @ value))
    return np.array(policies), np.array(log_prior), np.array(returns)


def truth(table, given=None):
    """Return ``log Z``, marginals ``[S, A]`` and the posterior over all policies, given some choices."""
    policies, log_prior, returns = brute_force(table)
    if given:
        kept = np.all([policies[:, s] == a for s, a in given.items()], axis=0)
        policies, log_prior, returns = policies[kept], log_prior[kept], returns[kept]
    log_mass = log_prior + returns
    log_evidence = float(scipy.special.logsumexp(log_mass))
    weight = np.exp(log_mass - log_evidence)
    marginal = np.stack([weight @ (policies == a) for a in range(table.num_actions)], axis=1)
    idle = [s for s in range(table.num_states) if s not in acting_states(table)]
    marginal[idle] = table.prior[idle]
    return log_evidence, marginal, (policies, weight, returns)
