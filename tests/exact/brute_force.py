"""Oracles in plain Python, from the definitions: no arrays, no JAX, nothing shared with the package.

A `Plain` MDP is a dictionary of outcomes.  Everything here walks it: by recursion over states, or over every
single trajectory.  Slow on purpose.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

import polinfer
from polinfer.problems.tabular import OutcomeRows

Pair = tuple[int, int]
Policy = dict[int, int]
Rule = Callable[[int, int], dict[int, float]]  # (time from 0, state) -> {action: probability}


class Plain(NamedTuple):
    outcomes: dict[Pair, list[tuple[float, int, float]]]  # (state, action) -> [(probability, next, reward)]
    num_states: int
    num_actions: int
    absorbing: frozenset[int]
    initial: list[float]
    horizon: int

    def legal(self, s: int) -> list[int]:
        return [a for a in range(self.num_actions) if (s, a) in self.outcomes]

    @property
    def active(self) -> list[int]:
        return [s for s in range(self.num_states) if s not in self.absorbing]

    def table(self, **options) -> polinfer.TabularMDP:
        rows = [(s, a, n, p, r) for (s, a), row in self.outcomes.items() for p, n, r in row]
        legal = np.zeros((self.num_states, self.num_actions), bool)
        for s, a in self.outcomes:
            legal[s, a] = True
        return polinfer.TabularMDP.from_outcomes(
            OutcomeRows(*(np.array(column) for column in zip(*rows, strict=True))),
            self.num_states,
            self.num_actions,
            np.array(self.initial),
            sorted(self.absorbing),
            self.horizon,
            legal=legal,
            **options,
        )


def random_plain(
    seed: int,
    horizon: int,
    *,
    radices: tuple[int, ...] = (3, 2, 2, 1),
    num_actions: int = 3,
    terminals: int = 1,
    branches: int = 3,
    unreachable: bool = False,
    start_on_terminal: bool = False,
    reward: float = 3.0,
) -> Plain:
    """Draw an MDP with `radices[i]` legal actions in its i-th state, under a random numbering of states.

    The first state, or the first two, can be the start; with `unreachable`, nothing starts in or leads to
    the third.  Rewards lie in -`reward` .. `reward`; two outcomes of one action may share their successor,
    so that a reward is random.
    """
    rng = np.random.default_rng(seed)
    size = len(radices) + terminals
    names = [int(x) for x in rng.permutation(size)]
    active, ends = names[: len(radices)], names[len(radices) :]
    hidden = {active[2]} if unreachable else set()
    targets = [s for s in names if s not in hidden]
    outcomes: dict[Pair, list[tuple[float, int, float]]] = {}
    for s, radix in zip(active, radices, strict=True):
        for a in sorted(rng.choice(num_actions, radix, replace=False).tolist()):
            # One action has all the outcomes that are allowed: then every table of a family has the same
            # number of outcome slots, and one compilation serves them all.
            count = int(rng.integers(1, branches + 1)) if outcomes else branches
            share = rng.dirichlet(np.ones(count)).tolist()
            outcomes[s, a] = [
                (p, int(rng.choice(targets)), float(rng.uniform(-reward, reward))) for p in share
            ]
    initial = [0.0] * size
    firsts = active[: int(rng.integers(1, 3))] + (ends[:1] if start_on_terminal else [])
    for s, p in zip(firsts, rng.dirichlet(np.ones(len(firsts))).tolist(), strict=True):
        initial[s] = p
    return Plain(outcomes, size, num_actions, frozenset(ends), initial, horizon)


def all_policies(mdp: Plain) -> Iterator[Policy]:
    """Every deterministic policy: one legal action for each state that does not absorb."""
    for actions in itertools.product(*(mdp.legal(s) for s in mdp.active)):
        yield dict(zip(mdp.active, actions, strict=True))


def expected_return(mdp: Plain, policy: Policy, horizon: int) -> float:
    """J, by recursion."""

    def value(s: int, left: int) -> float:
        if left == 0 or s in mdp.absorbing:
            return 0.0
        return sum(p * (r + value(n, left - 1)) for p, n, r in mdp.outcomes[s, policy[s]])

    return sum(p * value(s, horizon) for s, p in enumerate(mdp.initial) if p > 0)


def visit_probability(mdp: Plain, policy: Policy, target: int, horizon: int) -> float:
    """The chance of being in `target` at one of the times 1..H, by following what has not been there yet."""
    here = {s: p for s, p in enumerate(mdp.initial) if p > 0}
    seen = 0.0
    for _ in range(horizon):
        seen += here.pop(target, 0.0)
        after: dict[int, float] = {}
        for s, mass in here.items():
            if s not in mdp.absorbing:
                for p, n, _ in mdp.outcomes[s, policy[s]]:
                    after[n] = after.get(n, 0.0) + mass * p
        here = after
    return seen


def acting_states(mdp: Plain, horizon: int) -> set[int]:
    """The states in which an action can be taken at one of the times 1..H."""
    here = {s for s, p in enumerate(mdp.initial) if p > 0} - mdp.absorbing
    found = set(here)
    for _ in range(horizon - 1):
        here = {n for s in here for a in mdp.legal(s) for _, n, _ in mdp.outcomes[s, a]} - mdp.absorbing
        found |= here
    return found


class Trajectory(NamedTuple):
    probability: float
    steps: list[tuple[int, int, float]]  # (state, action, reward)
    end: int  # the state after the last step

    def gained(self, discount: float = 1.0) -> float:
        return sum(r * discount**t for t, (_, _, r) in enumerate(self.steps))


def trajectories(mdp: Plain, rule: Rule, horizon: int) -> Iterator[Trajectory]:
    """Every trajectory that `rule` can produce, one by one."""

    def grow(probability: float, steps: list[tuple[int, int, float]], s: int) -> Iterator[Trajectory]:
        if s in mdp.absorbing or len(steps) == horizon:
            yield Trajectory(probability, steps, s)
            return
        for a, chance in rule(len(steps), s).items():
            for p, n, r in mdp.outcomes[s, a]:
                if chance * p > 0:
                    yield from grow(probability * chance * p, [*steps, (s, a, r)], n)

    for s, p in enumerate(mdp.initial):
        if p > 0:
            yield from grow(p, [], s)


def committed(policy: Policy) -> Rule:
    return lambda _, s: {policy[s]: 1.0}


def uniform(mdp: Plain) -> Rule:
    return lambda _, s: {a: 1 / len(mdp.legal(s)) for a in mdp.legal(s)}


def log_mean_exp(values: list[float]) -> float:
    top = max(values)
    return top + math.log(sum(math.exp(v - top) for v in values) / len(values))


class Posterior(NamedTuple):
    """What a list of policies with log weights amounts to."""

    log_evidence: float  # log mean weight
    marginal: dict[Pair, float]
    reach: dict[Pair, float]  # absent where no policy ever goes
    mean: float  # of the log weight
    variance: float
    entropy: float  # over policies that differ where an action can be taken
    count: int
    ranked: list[tuple[float, float, Policy]]  # (probability, log weight, the part that matters), best first


def posterior(mdp: Plain, horizon: int, log_weight: Callable[[Policy], float] | None = None) -> Posterior:
    """Weigh every policy by `log_weight`, J unless told otherwise."""
    policies = list(all_policies(mdp))
    weigh = log_weight or (lambda policy: expected_return(mdp, policy, horizon))
    logs = [weigh(policy) for policy in policies]
    log_evidence = log_mean_exp(logs)
    shares = [math.exp(v - log_evidence) / len(policies) for v in logs]
    marginal = dict.fromkeys(((s, a) for s in mdp.active for a in mdp.legal(s)), 0.0)
    visited = dict(marginal)
    acting = acting_states(mdp, horizon)
    merged: dict[tuple[Pair, ...], list[float]] = {}
    for policy, share, log in zip(policies, shares, logs, strict=True):
        for s, a in policy.items():
            marginal[s, a] += share
            visited[s, a] += share * visit_probability(mdp, policy, s, horizon)
        part = tuple((s, a) for s, a in policy.items() if s in acting)
        merged.setdefault(part, [0.0, log])[0] += share
    totals = {s: sum(visited[s, a] for a in mdp.legal(s)) for s in mdp.active}
    mean = sum(p * v for p, v in zip(shares, logs, strict=True))
    return Posterior(
        log_evidence,
        marginal,
        {(s, a): v / totals[s] for (s, a), v in visited.items() if totals[s] > 0},
        mean,
        sum(p * (v - mean) ** 2 for p, v in zip(shares, logs, strict=True)),
        -sum(p * math.log(p) for p, _ in merged.values() if p > 0),
        len(merged),
        sorted(((p, v, dict(part)) for part, (p, v) in merged.items()), key=lambda item: -item[0]),
    )
