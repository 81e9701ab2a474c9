"""Discrete soft actor-critic as a plain PyTorch loop in CleanRL's manner: what polinfer's is timed against.

One process, one environment, NumPy replay.  The environment is a table in plain Python, faster than any real
one, so that the loop's own cost is what is measured.
"""

from __future__ import annotations

import random
import time
from itertools import pairwise

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from polinfer import SacConfig
from polinfer.problems.tabular import TabularMDP


class TableEnvironment:
    """Steps through a table with plain Python lists."""

    def __init__(self, table: TabularMDP, seed: int) -> None:
        self.random = random.Random(seed)
        self.successor, self.reward = table.successor.tolist(), table.reward.tolist()
        self.cumulative = np.cumsum(table.probability, axis=-1).tolist()
        self.absorbing = table.absorbing.tolist()
        self.start = np.cumsum(table.initial).tolist()
        self.horizon = table.horizon

    def reset(self) -> int:
        self.taken = 0
        self.state = self._pick(self.start)
        return self.state

    def step(self, action: int) -> tuple[int, float, bool, bool]:
        outcome = self._pick(self.cumulative[self.state][action])
        reward = self.reward[self.state][action][outcome]
        self.state = self.successor[self.state][action][outcome]
        self.taken += 1
        return self.state, reward, self.absorbing[self.state], self.taken >= self.horizon

    def _pick(self, cumulative: list[float]) -> int:
        draw = self.random.random()
        return next((i for i, edge in enumerate(cumulative) if draw < edge), len(cumulative) - 1)


def network(inputs: int, outputs: int, config: SacConfig) -> nn.Sequential:
    sizes = [inputs, *[config.width] * config.depth]
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


def steps_per_second(
    table: TabularMDP, features: np.ndarray, config: SacConfig, steps: int, seed: int = 0
) -> float:
    """Train for `steps` steps after a short random start; return the learning part's steps per second."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # Faster than two for networks of this size.
    environment = TableEnvironment(table, seed)
    rows = torch.tensor(features)
    width, actions = features.shape[1], table.num_actions
    actor, first, second, first_target, second_target = (network(width, actions, config) for _ in range(5))
    first_target.load_state_dict(first.state_dict())
    second_target.load_state_dict(second.state_dict())
    actor_optimiser = torch.optim.Adam(actor.parameters(), lr=config.actor_rate, eps=config.adam_epsilon)
    critic_optimiser = torch.optim.Adam(
        [*first.parameters(), *second.parameters()], lr=config.critic_rate, eps=config.adam_epsilon
    )
    warm = 10 * config.batch
    store = {
        "state": np.zeros(steps + warm, np.int64),
        "next": np.zeros(steps + warm, np.int64),
        "action": np.zeros(steps + warm, np.int64),
        "reward": np.zeros(steps + warm, np.float32),
        "done": np.zeros(steps + warm, np.float32),
    }
    generator = np.random.default_rng(seed)
    state, started = environment.reset(), 0.0
    for step in range(steps + warm):
        if step == warm:
            started = time.perf_counter()
        if step < warm:
            action = int(generator.integers(actions))
        else:
            with torch.no_grad():
                action = int(torch.distributions.Categorical(logits=actor(rows[state][None])).sample())
        after, reward, terminated, truncated = environment.step(action)
        for name, value in zip(store, (state, after, action, reward, float(terminated)), strict=True):
            store[name][step] = value
        state = environment.reset() if terminated or truncated else after
        if step < warm or step % config.steps_per_update:
            continue
        index = generator.integers(step + 1, size=config.batch)
        batch = {name: torch.from_numpy(values[index]) for name, values in store.items()}
        now, later = rows[batch["state"]], rows[batch["next"]]
        with torch.no_grad():
            log_pi = functional.log_softmax(actor(later), dim=-1)
            lower = torch.min(first_target(later), second_target(later))
            soft = (log_pi.exp() * (lower - config.alpha * log_pi)).sum(dim=-1)
            wanted = batch["reward"] + (1 - batch["done"]) * config.gamma * soft
        taken = batch["action"][:, None]
        losses = [
            functional.mse_loss(critic(now).gather(1, taken)[:, 0], wanted) for critic in (first, second)
        ]
        critic_optimiser.zero_grad()
        (losses[0] + losses[1]).backward()
        critic_optimiser.step()
        log_pi = functional.log_softmax(actor(now), dim=-1)
        with torch.no_grad():
            worth = torch.min(first(now), second(now))
        actor_optimiser.zero_grad()
        (log_pi.exp() * (config.alpha * log_pi - worth)).sum(dim=-1).mean().backward()
        actor_optimiser.step()
        if step % config.target_every == 0:
            for target, source in ((first_target, first), (second_target, second)):
                for old, new in zip(target.parameters(), source.parameters(), strict=True):
                    old.data.lerp_(new.data, config.tau)
    return steps / (time.perf_counter() - started)
