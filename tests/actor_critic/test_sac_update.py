"""One update of soft actor-critic against NumPy in double precision, with slopes by finite differences."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polinfer.actor_critic.agent import Learner, SacAgent
from polinfer.actor_critic.config import SacConfig
from polinfer.actor_critic.replay import Experience
from polinfer.smc.proposal import Layer, NetworkProposal

from .sac_cases import FEATURES, LEGAL, Weights, masked_softmax, outputs, slippery, weights_of

GAMMA, ALPHA = 0.9, 0.3
# Adam's first step has the size of the rate, whatever the slope's scale; with a large epsilon it has not.
EPSILON = 0.5
SETTINGS = {
    "alpha": ALPHA,
    "gamma": GAMMA,
    "steps": 100,
    "learning_starts": 0,
    "batch": 6,
    "steps_per_update": 4,
    "critic_rate": 0.07,
    "actor_rate": 0.03,
    "adam_epsilon": EPSILON,
    "target_every": 6,
    "width": 4,
    "depth": 1,
}


class Batch(NamedTuple):
    state: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    successor: np.ndarray
    terminated: np.ndarray


# The third row ends; the fourth is as good as an episode that the horizon cut off; the last slips to itself.
BATCHES = [
    Batch(
        np.array([0, 1, 0, 2, 1, 2]),
        np.array([0, 2, 1, 2, 0, 1]),
        np.array([0.6, 0.9, 0.4, -0.3, 0.2, 0.7]),
        np.array([1, 0, 3, 2, 0, 2]),
        np.array([False, False, True, False, False, False]),
    ),
    Batch(
        np.array([2, 0, 0, 1, 1, 0]),
        np.array([1, 2, 2, 0, 2, 0]),
        np.array([0.7, 1.3, -0.8, -1.1, 0.9, -0.5]),
        np.array([2, 3, 1, 3, 3, 0]),
        np.array([False, True, False, True, True, False]),
    ),
]


class Adam:
    """Kingma & Ba 2015, Algorithm 1."""

    def __init__(self, rate: float) -> None:
        self.rate, self.t, self.m, self.v = rate, 0, 0.0, 0.0

    def step(self, slope: Any) -> Any:
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * slope
        self.v = 0.999 * self.v + 0.001 * slope**2
        m_hat, v_hat = self.m / (1 - 0.9**self.t), self.v / (1 - 0.999**self.t)
        return -self.rate * m_hat / (np.sqrt(v_hat) + EPSILON)


def slope_of(loss: Callable[[Weights], float], weights: Weights) -> np.ndarray:
    """Central differences in every parameter, flat."""
    slopes = []
    for array in weights:
        for i in np.ndindex(array.shape):
            kept, size = array[i], 1e-5
            array[i] = kept + size
            above = loss(weights)
            array[i] = kept - size
            slopes.append((above - loss(weights)) / (2 * size))
            array[i] = kept
    return np.array(slopes)


def add(weights: Weights, change: np.ndarray) -> Weights:
    parts = np.split(change, np.cumsum([array.size for array in weights])[:-1])
    return [array + part.reshape(array.shape) for array, part in zip(weights, parts, strict=True)]


class Written:
    """Soft actor-critic as the papers write it, one transition after the other."""

    def __init__(self, learner: Learner, tau: float, autotune: bool) -> None:
        self.actor = weights_of(learner.actor)
        self.critics = [weights_of(learner.critics, i) for i in range(2)]
        self.targets = [weights_of(learner.targets, i) for i in range(2)]
        self.log_alpha, self.tau, self.autotune = np.log(ALPHA), tau, autotune
        self.adams = [Adam(0.07), Adam(0.07)], Adam(0.03), Adam(0.07)

    def target(self, batch: Batch) -> np.ndarray:
        wanted = []
        for reward, successor, terminated in zip(*batch[2:], strict=True):
            y = reward
            if not terminated:
                pi = masked_softmax(outputs(self.actor, FEATURES[[successor]]), LEGAL[[successor]])[0]
                q = [outputs(target, FEATURES[[successor]])[0] for target in self.targets]
                for a in np.flatnonzero(LEGAL[successor]):
                    y += GAMMA * pi[a] * (min(q[0][a], q[1][a]) - np.exp(self.log_alpha) * np.log(pi[a]))
            wanted.append(y)
        return np.array(wanted)

    def actor_loss(self, actor: Weights, batch: Batch) -> float:
        total = 0.0
        for s in batch.state:
            pi = masked_softmax(outputs(actor, FEATURES[[s]]), LEGAL[[s]])[0]
            q = [outputs(critic, FEATURES[[s]])[0] for critic in self.critics]
            for a in np.flatnonzero(LEGAL[s]):
                total += pi[a] * (np.exp(self.log_alpha) * np.log(pi[a]) - min(q[0][a], q[1][a]))
        return total / len(batch.state)

    def update(self, batch: Batch, move_targets: bool) -> tuple[float, float]:
        wanted, rows = self.target(batch), np.arange(len(batch.state))

        def critic_loss(critic: Weights) -> float:
            guessed = outputs(critic, FEATURES[batch.state])[rows, batch.action]
            return float(((guessed - wanted) ** 2).mean())

        loss = sum(critic_loss(critic) for critic in self.critics)
        of_critics, of_actor, of_alpha = self.adams
        self.critics = [
            add(critic, adam.step(slope_of(critic_loss, critic)))
            for critic, adam in zip(self.critics, of_critics, strict=True)
        ]
        pi = masked_softmax(outputs(self.actor, FEATURES[batch.state]), LEGAL[batch.state])
        entropies = -np.where(pi > 0, pi * np.log(np.where(pi > 0, pi, 1.0)), 0.0).sum(axis=1)
        slope = slope_of(lambda actor: self.actor_loss(actor, batch), self.actor)
        self.actor = add(self.actor, of_actor.step(slope))
        if self.autotune:
            wanted_entropy = 0.89 * np.log(LEGAL[batch.state].sum(axis=1))
            # d/dx of exp(x) * mean(entropy - wanted)
            self.log_alpha += of_alpha.step(np.exp(self.log_alpha) * (entropies - wanted_entropy).mean())
        if move_targets:
            self.targets = [
                [(1 - self.tau) * old + self.tau * new for old, new in zip(target, critic, strict=True)]
                for target, critic in zip(self.targets, self.critics, strict=True)
            ]
        return loss, float(entropies.mean())


def random_network(seed: int, *lead: int, scale: float = 0.8) -> NetworkProposal:
    random = np.random.default_rng(seed)
    shapes = [((4, 3), 4), ((3, 4), 3)]
    return NetworkProposal(
        tuple(
            Layer(
                jnp.asarray(random.normal(0, scale, (*lead, *weight)), jnp.float32),
                jnp.asarray(random.normal(0, scale, (*lead, bias)), jnp.float32),
            )
            for weight, bias in shapes
        )
    )


def start(agent: SacAgent, actor_scale: float = 0.8) -> Learner:
    return agent.initial(0)._replace(
        actor=random_network(1, scale=actor_scale),
        critics=random_network(2, 2),
        targets=random_network(3, 2),
    )


def as_experience(batch: Batch) -> Experience:
    return Experience(
        jnp.asarray(batch.state, jnp.int32),
        jnp.asarray(batch.action, jnp.int32),
        jnp.asarray(batch.reward, jnp.float32),
        jnp.asarray(batch.successor, jnp.int32),
        jnp.asarray(batch.terminated),
    )


@cache
def compiled_agent(by_table: bool, autotune: bool, tau: float) -> tuple[SacAgent, Any]:
    config = SacConfig(**SETTINGS, autotune=autotune, tau=tau)
    agent = SacAgent(slippery(features=FEATURES), config, by_table)

    def update(learner: Learner, batch: Experience, updates: Any) -> tuple[Learner, Any, Any]:
        learner, _, loss, entropy = agent.learn(learner, batch, agent.bootstrap(learner.targets))
        return agent.move_targets(learner, updates), loss, entropy

    return agent, jax.jit(update)


def assert_close(found: Any, expected: Weights, *index: int) -> None:
    for one, other in zip(weights_of(found, *index), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=3e-6, rtol=3e-5)


@pytest.mark.parametrize(
    ("by_table", "autotune", "tau"),
    [(False, True, 0.3), (True, False, 1.0)],
    ids=["share-tuned", "copy-fixed"],
)
def test_updates_are_those_of_the_written_algorithm(by_table: bool, autotune: bool, tau: float) -> None:
    agent, learn = compiled_agent(by_table, autotune, tau)
    learner = start(agent)
    written = Written(learner, tau, autotune)
    before = weights_of(learner.targets, 0)
    # Targets move where a multiple of 6 lies in the last 4 steps.
    for i, due in enumerate([False, True, True, False, True]):
        batch = BATCHES[i % 2]
        learner, loss, entropy = learn(learner, as_experience(batch), jnp.asarray(i + 1, jnp.int32))
        expected_loss, expected_entropy = written.update(batch, due)
        np.testing.assert_allclose(float(loss), expected_loss, rtol=1e-4)
        np.testing.assert_allclose(float(entropy), expected_entropy, rtol=1e-4)
        assert_close(learner.actor, written.actor)
        for k in range(2):
            assert_close(learner.critics, written.critics[k], k)
            assert_close(learner.targets, written.targets[k], k)
        if not due and i == 0:
            assert_close(learner.targets, before, 0)
        if due and tau == 1:
            assert_close(learner.targets, weights_of(learner.critics, 1), 1)
        np.testing.assert_allclose(float(learner.log_alpha), written.log_alpha, rtol=1e-4)
    assert (float(learner.log_alpha) != np.float32(np.log(ALPHA))) == autotune
    # The comparison has teeth: all of it has moved by far more than its tolerance.
    assert np.abs(weights_of(learner.actor)[0] - weights_of(start(agent).actor)[0]).max() > 1e-3


def test_a_tuned_alpha_moves_towards_89_percent_of_the_uniform_entropy() -> None:
    agent, learn = compiled_agent(by_table=False, autotune=True, tau=0.3)
    moves, gaps = [], []
    for scale in (0.0, 6.0):  # uniform: more than is wanted; nearly deterministic: less
        learner = start(agent, actor_scale=scale)
        after, _, entropy = learn(learner, as_experience(BATCHES[0]), jnp.asarray(1, jnp.int32))
        moves.append(float(after.log_alpha - learner.log_alpha))
        gaps.append(float(entropy) - 0.89 * np.log(LEGAL[BATCHES[0].state].sum(axis=1)).mean())
    assert gaps[0] > 0 > gaps[1]
    assert moves[0] < 0 < moves[1]


@pytest.mark.parametrize(
    ("stride", "every", "moves"),
    [(4, 6, [2, 3, 5, 6, 8]), (4, 1, [1, 2, 3, 4, 5]), (2, 10, [5, 10, 15]), (3, 3, [1, 2, 3])],
)
def test_targets_move_next_where_they_are_found_to_be_due(stride: int, every: int, moves: list[int]) -> None:
    settings = SETTINGS | {"steps_per_update": stride, "target_every": every}
    agent = SacAgent(slippery(features=FEATURES), SacConfig(**settings, tau=1.0), by_table=True)
    learner = start(agent)
    found = [0]
    while len(found) <= len(moves):
        found.append(int(agent.next_move(jnp.asarray(found[-1]))))
    assert found[1:] == moves
    for updates in range(1, moves[-1] + 1):
        moved = agent.move_targets(learner, jnp.asarray(updates)).targets
        now = learner.critics if updates in moves else learner.targets
        assert_close(moved, weights_of(now, 0), 0)


def test_an_untrained_policy_is_uniform_over_what_is_legal_and_critics_differ() -> None:
    agent = SacAgent(slippery(features=FEATURES), SacConfig(**SETTINGS), by_table=True)
    learner = agent.initial(3)
    probs = np.stack([agent.behaviour(learner.actor)(jnp.asarray(s)) for s in range(4)])
    np.testing.assert_allclose(probs, LEGAL / LEGAL.sum(axis=1, keepdims=True), rtol=1e-6)
    first, second = (outputs(weights_of(learner.critics, i), FEATURES) for i in range(2))
    assert np.abs(first - second).max() > 0.01
    for k in range(2):
        assert_close(learner.targets, weights_of(learner.critics, k), k)


@pytest.mark.parametrize("by_table", [True, False])
def test_the_behaviour_is_the_actors_softmax_over_what_is_legal(by_table: bool) -> None:
    agent = SacAgent(slippery(features=FEATURES), SacConfig(**SETTINGS), by_table)
    actor = random_network(1)
    probs = np.stack([agent.behaviour(actor)(jnp.asarray(s)) for s in range(4)])
    np.testing.assert_allclose(probs, masked_softmax(outputs(weights_of(actor), FEATURES), LEGAL), rtol=1e-5)
