"""Algorithm 1 as a practitioner would write it in PyTorch: dict memos, autograd through the weights.

This is the yardstick of `sweep.py`, not a part of the package.
"""

import math
import random

import torch
from torch import nn

LETTERS = ["...G", ".RR.", ".RR.", "S..."]
MOVES = [(1, 0), (0, 1), (0, -1), (-1, 0)]
SLIPS = {0: (1, 2), 1: (0, 3), 2: (0, 3), 3: (1, 2)}


class Grid:
    """The 4x4 multimodal grid world, written in plain Python."""

    horizon = 20

    def __init__(self) -> None:
        self.cells = {(x, 3 - y): c for y, row in enumerate(LETTERS) for x, c in enumerate(row)}
        self.start = next(cell for cell, letter in self.cells.items() if letter == "S")

    def step(self, state: tuple[int, int], action: int) -> tuple[tuple[int, int], float, bool]:
        if random.random() >= 0.8:
            action = random.choice(SLIPS[action])
        dx, dy = MOVES[action]
        moved = (state[0] + dx, state[1] + dy)
        moved = moved if moved in self.cells else state
        letter = self.cells[moved]
        return moved, -0.1 + {"R": -1.0, "G": 5.0}.get(letter, 0.0), letter == "G"

    def encode(self, state: tuple[int, int]) -> torch.Tensor:
        features = torch.zeros(8)
        features[state[0]] = 1.0
        features[4 + state[1]] = 1.0
        return features


def make_network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))


def sweep_loss(grid: Grid, network: nn.Module, particles: int) -> torch.Tensor:
    """Return minus the surrogate of one sweep, Eq. det-surrogate-objective-stratified."""
    shared: dict[tuple[tuple[int, int], int, int], tuple[tuple[int, int], float, bool]] = {}
    states = [grid.start] * particles
    over = [False] * particles
    memo: list[dict[tuple[int, int], int]] = [{} for _ in range(particles)]
    counts: list[dict[tuple[tuple[int, int], int], int]] = [{} for _ in range(particles)]
    log_weight = torch.zeros(particles)
    before = torch.tensor(math.log(particles))
    contributions, scores = [], []
    for t in range(grid.horizon):
        increments, score = [], torch.zeros(())
        log_q = torch.log_softmax(network(torch.stack([grid.encode(s) for s in states])), dim=-1)
        drawn = torch.distributions.Categorical(logits=log_q).sample()
        for i in range(particles):
            if over[i]:
                increments.append(torch.zeros(()))
                continue
            state = states[i]
            change = torch.zeros(())
            if state in memo[i]:
                action = memo[i][state]
            else:
                action = int(drawn[i])
                memo[i][state] = action
                change = -math.log(4) - log_q[i, action]
                score = score + log_q[i, action]
            k = counts[i].get((state, action), 0) + 1
            counts[i][state, action] = k
            if (state, action, k) not in shared:
                shared[state, action, k] = grid.step(state, action)
            states[i], reward, over[i] = shared[state, action, k]
            increments.append(reward + change)
        log_weight = log_weight + torch.stack(increments)
        total = torch.logsumexp(log_weight, 0)
        contributions.append(total - before)
        scores.append(score)
        before = total
        weights = torch.softmax(log_weight.detach(), 0)
        if t < grid.horizon - 1 and 1.0 / float((weights**2).sum()) < 0.5 * particles:
            points = (torch.arange(particles) + torch.rand(1)) / particles
            picked = torch.searchsorted(torch.cumsum(weights, 0), points).clamp(max=particles - 1).tolist()
            states = [states[j] for j in picked]
            over = [over[j] for j in picked]
            memo = [dict(memo[j]) for j in picked]
            counts = [dict(counts[j]) for j in picked]
            log_weight = torch.zeros(particles)
            before = torch.tensor(math.log(particles))
    stacked = torch.stack(contributions)
    to_go = torch.flip(torch.cumsum(torch.flip(stacked.detach(), [0]), 0), [0])
    return -(stacked.sum() + (to_go * torch.stack(scores)).sum())


def train(sweeps: int, particles: int = 10, rate: float = 3e-4) -> nn.Module:
    grid, network = Grid(), make_network()
    optimiser = torch.optim.Adam(network.parameters(), rate)
    for _ in range(sweeps):
        optimiser.zero_grad()
        sweep_loss(grid, network, particles).backward()
        optimiser.step()
    return network
