"""Policies judged by playing them: estimates of ``J`` from a table or from any simulator.

A judge keeps policies in its own way and knows how to propose others: forget the action of each state with
some probability, and draw it anew from the reference measure.  Under that measure a policy and its successor
could change places, so nothing but their estimates counts when one is to be accepted.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from polinfer.core.protocol import MDP, discount_of
from polinfer.core.simulator import Simulator, as_simulator, prior_of
from polinfer.exact.evaluation import draw_prior
from polinfer.exact.solution import Floats
from polinfer.problems.registry import Problem
from polinfer.problems.tabular.table import TabularMDP


class Judged(NamedTuple):
    """Policies and the mean return of each over its own rollouts."""

    policies: Any  # P of them, as the judge keeps them
    returns: Floats  # [P]


class Marginals(NamedTuple):
    """How often each action is chosen, by state and island."""

    states: Sequence[Any]  # n of them
    shares: Floats  # [n, A, islands]


class Judge(Protocol):
    """Draws, changes and evaluates policies."""

    def start(self, count: int) -> Judged:
        """Draw policies from the reference measure."""

    def propose(self, policies: Any, share: float) -> Judged:
        """Forget each action with probability `share`, draw it anew, and play."""

    def pick(self, policies: Any, index: NDArray[np.int64]) -> Any:
        """Return some of the policies."""

    def choose(self, taken: NDArray[np.bool_], new: Any, old: Any) -> Any:
        """Return each policy of `new` where it was taken, of `old` elsewhere."""

    def marginals(self, populations: list[Any], islands: int) -> Marginals:
        """Count the choices of several populations of as many policies; an open one counts as the prior."""


def make_judge(problem: Problem, rollouts: int, seed: int) -> Judge:
    """Return the judge that plays so many episodes of a table, a JAX MDP or a simulator for each policy."""
    if isinstance(problem, TabularMDP):
        return _TableJudge(problem, rollouts, seed)
    return _SimulatorJudge(as_simulator(problem) if isinstance(problem, MDP) else problem, rollouts, seed)


class _TableJudge:
    """Plays on a table, all policies at once; they are an array of actions ``[P, S]``."""

    def __init__(self, table: TabularMDP, rollouts: int, seed: int) -> None:
        self.table, self.rollouts = table, rollouts
        self.random = np.random.default_rng(seed)
        cumulative = np.cumsum(table.probability, axis=-1)
        self.cumulative = cumulative / cumulative[..., -1:]
        self.first = np.cumsum(table.initial) / table.initial.sum()

    def start(self, count: int) -> Judged:
        return self.propose(np.zeros((count, self.table.num_states), np.int32), 1.0)

    def propose(self, policies: NDArray[np.int32], share: float) -> Judged:
        fresh = draw_prior(self.table.prior, self.random.random(policies.shape).T).T
        forgotten = self.random.random(policies.shape) < share
        tried = np.where(forgotten, fresh, policies).astype(np.int32)
        return Judged(tried, self._play(tried))

    def _play(self, policies: NDArray[np.int32]) -> Floats:
        shape = (len(policies), self.rollouts)
        row = np.arange(len(policies))[:, None]
        state = np.searchsorted(self.first, self.random.random(shape), side="right")
        gained = np.zeros(shape)
        # Terminal rows lead to themselves and pay nothing, so they need no mask.
        for step in range(self.table.horizon):
            action = policies[row, state]
            slot = (self.random.random(shape)[..., None] >= self.cumulative[state, action]).sum(axis=-1)
            gained += self.table.discount**step * self.table.reward[state, action, slot]
            state = self.table.successor[state, action, slot]
        return np.asarray(gained.mean(axis=1))

    def pick(self, policies: NDArray[np.int32], index: NDArray[np.int64]) -> NDArray[np.int32]:
        return policies[index]

    def choose(
        self, taken: NDArray[np.bool_], new: NDArray[np.int32], old: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        return np.where(taken[:, None], new, old)

    def marginals(self, populations: list[NDArray[np.int32]], islands: int) -> Marginals:
        counts = sum(
            (population.reshape(islands, -1, self.table.num_states, 1) == np.arange(self.table.num_actions))
            .mean(axis=1)
            .transpose(1, 2, 0)
            for population in populations
        )
        shares = np.asarray(counts, np.float64) / len(populations)
        # Where there is nothing to choose, one legal action is as good as another.
        shares[self.table.absorbing] = self.table.prior[self.table.absorbing][:, :, None]
        return Marginals(range(self.table.num_states), shares)


_Memo = dict[Hashable, int]


class _SimulatorJudge:
    """Plays on a simulator in plain Python; a policy is what it has done so far, by state.

    What a policy would do where its own rollouts never came is open: the reference measure.
    """

    def __init__(self, simulator: Simulator, rollouts: int, seed: int) -> None:
        self.simulator, self.rollouts = simulator, rollouts
        self.random = random.Random(seed)
        self.discount = discount_of(simulator)
        self.prior: dict[Hashable, list[float]] = {}

    def start(self, count: int) -> Judged:
        return self.propose([{}] * count, 1.0)

    def propose(self, policies: list[_Memo], share: float) -> Judged:
        tried, returns = [], []
        for policy in policies:
            left = {s: a for s, a in policy.items() if self.random.random() >= share}
            visited: _Memo = {}
            returns.append(sum(self._play(left, visited) for _ in range(self.rollouts)) / self.rollouts)
            tried.append(visited)
        return Judged(tried, np.array(returns, np.float64))

    def _play(self, known: _Memo, visited: _Memo) -> float:
        """Play one episode; write down what was done."""
        draw = self.random.getrandbits
        state: Any = self.simulator.init(draw(64))
        gained, share = 0.0, 1.0
        for _ in range(self.simulator.horizon):
            if state not in visited:
                visited[state] = known[state] if state in known else self._draw(state)
            state, reward, over = self.simulator.step(draw(64), state, visited[state])
            gained += share * float(reward)
            share *= self.discount
            if over:
                break
        return gained

    def _draw(self, state: Any) -> int:
        prior = self._prior(state)
        legal = [action for action, share in enumerate(prior) if share > 0]
        if len(set(prior)) <= 2 and min(prior[a] for a in legal) == max(prior):
            return self.random.choice(legal)  # uniform
        return self.random.choices(range(len(prior)), prior)[0]

    def _prior(self, state: Any) -> list[float]:
        if state not in self.prior:
            self.prior[state] = prior_of(self.simulator, state).tolist()
        return self.prior[state]

    def pick(self, policies: list[_Memo], index: NDArray[np.int64]) -> list[_Memo]:
        return [policies[i] for i in index]

    def choose(self, taken: NDArray[np.bool_], new: list[_Memo], old: list[_Memo]) -> list[_Memo]:
        return [fresh if took else kept for took, fresh, kept in zip(taken, new, old, strict=True)]

    def marginals(self, populations: list[list[_Memo]], islands: int) -> Marginals:
        size = len(populations[0]) // islands
        counts: dict[Hashable, Floats] = {}
        for population in populations:
            for number, policy in enumerate(population):
                for state, action in policy.items():
                    if state not in counts:
                        counts[state] = np.zeros((self.simulator.num_actions, islands))
                    counts[state][action, number // size] += 1
        shares = np.zeros((len(counts), self.simulator.num_actions, islands))
        for row, (state, count) in zip(shares, counts.items(), strict=True):
            prior = np.array(self._prior(state))
            total = size * len(populations)
            row[:] = (count + prior[:, None] * (total - count.sum(axis=0))) / total
        return Marginals(list(counts), shares)
