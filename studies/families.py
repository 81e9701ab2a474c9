"""Families of small problems whose reach classes can be listed, one function ``rng -> TabularMDP`` each.

Every random choice comes from the generator that is handed over; `truth.cases` makes one per family and seed.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import polinfer
from polinfer import TabularMDP

Rng = np.random.Generator
Row = tuple[int, int, int, float, float]  # state, action, successor, probability, reward


class Rows(NamedTuple):
    """One row per outcome, as `TabularMDP.from_outcomes` takes them."""

    state: np.ndarray  # [n] int
    action: np.ndarray  # [n] int
    successor: np.ndarray  # [n] int
    probability: np.ndarray  # [n]
    reward: np.ndarray  # [n]


def build(
    rows: list[Row],
    states: int,
    actions: int,
    initial: int | np.ndarray,
    ends: list[int],
    horizon: int,
    legal: np.ndarray | None = None,
    **terms: Any,
) -> TabularMDP:
    state, action, successor, probability, reward = (np.array(column) for column in zip(*rows, strict=True))
    outcomes = Rows(state, action, successor, probability.astype(float), reward.astype(float))
    absorbing = np.isin(np.arange(states), ends)
    return TabularMDP.from_outcomes(
        outcomes, states, actions, initial, absorbing, horizon, legal=legal, **terms
    )


def lock(rng: Rng) -> TabularMDP:
    """A combination of 18 to 20 digits pays at the end; a wrong digit starts again, ends or stays."""
    digits, actions, kind = int(rng.integers(18, 21)), int(rng.integers(2, 5)), int(rng.integers(3))
    code = rng.integers(actions, size=digits)
    open_, shut = digits, digits + 1
    # The reward is about what the combination costs in evidence, so that the lock is often half open.
    pay = digits * np.log(actions) * rng.uniform(0.6, 2.0)
    horizon = int(rng.integers(digits, 3 * digits))
    rows = []
    for state in range(digits):
        for action in range(actions):
            right = action == code[state]
            after = state + 1 if right else (0, shut, state)[kind]
            rows.append((state, action, after, 1.0, (pay if after == open_ else 0.0) - 0.01))
    return build(rows, digits + 2, actions, 0, [open_, shut], horizon)


def corridors(rng: Rng, way_back: bool, slip: float) -> TabularMDP:
    """From a hub into one of three corridors with different ends; inside, go on, or turn (back or out)."""
    lengths = rng.integers(2, 7, size=3)
    first = 1 + np.concatenate([[0], np.cumsum(lengths)[:-1]])
    goal = 1 + int(lengths.sum())
    pays = rng.uniform(0, 8, size=3) + lengths * rng.uniform(0, 1)
    rows: list[Row] = [(0, a, int(first[a]), 1.0, -0.1) for a in range(3)]
    for a in range(3):
        for step in range(lengths[a]):
            state = int(first[a] + step)
            last = step == lengths[a] - 1
            onward = (goal, float(pays[a]) if last else -0.1) if last else (state + 1, -0.1)
            out = (state - 1 if step else 0, -0.1) if way_back else (goal, float(rng.uniform(0, 1)))
            for action, (to, other) in enumerate(((onward, out), (out, onward))):
                rows.append((state, action, to[0], 1 - slip, to[1]))
                if slip:
                    rows.append((state, action, other[0], slip, other[1]))
    legal = np.ones((goal + 1, 3), bool)
    legal[1:goal, 2] = False
    return build(rows, goal + 1, 3, 0, [goal], int(rng.integers(8, 31)), legal)


def deceptive_chain(rng: Rng) -> TabularMDP:
    """Leaving pays a little at once, walking on costs, and the end of the chain pays much."""
    length, slip = int(rng.integers(6, 13)), float(rng.choice([0.0, 0.1, 0.2]))
    restart = bool(rng.integers(2))
    goal, pay = length, float(rng.uniform(3, 20))
    rows: list[Row] = []
    for state in range(length):
        onward = (state + 1, pay if state == length - 1 else -0.1)
        quick = (0 if restart else goal, float(rng.uniform(0.2, 1.0)) / (5 if restart else 1))
        for action, (to, other) in enumerate(((onward, quick), (quick, onward))):
            rows.append((state, action, to[0], 1 - slip, to[1]))
            if slip:
                rows.append((state, action, other[0], slip, other[1]))
    return build(rows, length + 1, 2, 0, [goal], int(rng.integers(length, 5 * length)))


def random_rows(
    rng: Rng, states: int, actions: int, outcomes: int, end: float, scale: float, upto: bool = False
) -> list[Row]:
    """Return random outcomes among `states` and the end, state number `states`; `upto`: some have fewer."""
    rows: list[Row] = []
    for state in range(states):
        for action in range(actions):
            number = int(rng.integers(1, outcomes + 1)) if upto else outcomes
            to = rng.choice(states, size=number, replace=number > states)
            share = rng.dirichlet(np.ones(number)) * (1 - end)
            reward = rng.normal(size=number) * scale
            rows += [
                (state, action, int(t), float(p), float(r)) for t, p, r in zip(to, share, reward, strict=True)
            ]
            if end:
                rows.append((state, action, states, end, float(rng.normal() * scale)))
    return rows


def _size(rng: Rng) -> tuple[int, int]:
    return [(5, 2), (8, 2), (12, 2), (5, 3), (7, 3), (8, 3), (5, 4), (6, 4)][int(rng.integers(8))]


def cyclic_dense(rng: Rng) -> TabularMDP:
    states, actions = _size(rng)
    scale = float(np.exp(rng.uniform(np.log(0.1), np.log(3))))
    rows = random_rows(rng, states, actions, states, float(rng.choice([0.02, 0.2])), scale)
    return build(rows, states + 1, actions, 0, [states], int(rng.integers(5, 41)))


def cyclic_sparse(rng: Rng) -> TabularMDP:
    states, actions = _size(rng)
    scale = float(np.exp(rng.uniform(np.log(0.1), np.log(3))))
    rows = random_rows(rng, states, actions, 3, float(rng.choice([0.0, 0.1, 0.3])), scale, upto=True)
    return build(rows, states + 1, actions, 0, [states], int(rng.integers(5, 41)))


def cyclic_deterministic(rng: Rng) -> TabularMDP:
    states, actions = int(rng.integers(6, 13)), int(rng.integers(2, 4))
    rows = random_rows(rng, states, actions, 1, 0.0, float(rng.uniform(0.1, 2)))
    # Some moves end the episode.
    rows = [(s, a, states if rng.random() < 0.15 else t, p, r) for s, a, t, p, r in rows]
    return build(rows, states + 1, actions, 0, [states], int(rng.integers(4, 41)))


def acyclic(rng: Rng) -> TabularMDP:
    """Moves go to later states only, some of them by chance: states are shared, none comes twice."""
    states, actions = int(rng.integers(6, 13)), 2
    rows: list[Row] = []
    for state in range(states):
        for action in range(actions):
            number = int(rng.integers(1, 4))
            to = rng.integers(state + 1, min(states, state + 5) + 1, size=number)
            share = rng.dirichlet(np.ones(number))
            rows += [
                (state, action, int(t), float(p), float(rng.normal(scale=2)))
                for t, p in zip(to, share, strict=True)
            ]
    return build(rows, states + 1, actions, 0, [states], states)


def masks(rng: Rng) -> TabularMDP:
    states, actions = int(rng.integers(6, 11)), 4
    rows = random_rows(rng, states, actions, 2, float(rng.choice([0.0, 0.1])), float(rng.uniform(0.2, 2)))
    legal = rng.random((states + 1, actions)) < 0.55
    legal[np.arange(states + 1), rng.integers(actions, size=states + 1)] = True
    while np.prod(legal[:states].sum(axis=1)) > 50_000:
        state = int(legal[:states].sum(axis=1).argmax())
        legal[state, int(np.flatnonzero(legal[state])[-1])] = False
    return build(rows, states + 1, actions, 0, [states], int(rng.integers(4, 31)), legal)


def long_horizon(rng: Rng) -> TabularMDP:
    states, actions = [(8, 2), (10, 2), (6, 3), (7, 3)][int(rng.integers(4))]
    horizon = int(rng.choice([200, 500, 1000]))
    end = float(rng.choice([0.0, 0.002, 0.02]))
    rows = random_rows(rng, states, actions, 3, end, float(rng.uniform(0.1, 3)) * 5 / horizon, upto=True)
    return build(rows, states + 1, actions, 0, [states], horizon)


def several_starts(rng: Rng) -> TabularMDP:
    states, actions = _size(rng)
    end = float(rng.choice([0.05, 0.3]))
    rows = random_rows(rng, states, actions, 2, end, float(rng.uniform(0.3, 4)), upto=True)
    initial = np.zeros(states + 1)
    chosen = rng.choice(states, size=int(rng.integers(2, states + 1)), replace=False)
    initial[chosen] = rng.dirichlet(np.ones(len(chosen)))
    return build(rows, states + 1, actions, initial, [states], int(rng.integers(3, 31)))


def reward_sizes(rng: Rng) -> TabularMDP:
    """The range of returns over policies is drawn from 0.1 to 1,000."""
    states, actions = _size(rng)
    size = float(np.exp(rng.uniform(np.log(0.1), np.log(1000))))
    rows = random_rows(rng, states, actions, 3, 0.1, size / 10, upto=True)
    return build(rows, states + 1, actions, 0, [states], int(rng.integers(5, 31)))


def near_ties(rng: Rng) -> TabularMDP:
    """Two actions of every state are alike but for a small difference; returns are large."""
    states = int(rng.integers(5, 9))
    gap = float(np.exp(rng.uniform(np.log(1e-4), np.log(0.3))))
    half = random_rows(rng, states, 1, 2, 0.1, float(rng.uniform(1, 10)), upto=True)
    other = random_rows(rng, states, 1, 2, 0.1, float(rng.uniform(1, 10)), upto=True)
    rows = half + [(s, 1, t, p, r + gap * float(rng.normal())) for s, _, t, p, r in half]
    rows += [(s, 2, t, p, r) for s, _, t, p, r in other]
    return build(rows, states + 1, 3, 0, [states], int(rng.integers(5, 31)))


def bottleneck(rng: Rng) -> TabularMDP:
    """Two rooms of random moves; the door between them is one action of one state, the prize is beyond."""
    room = int(rng.integers(4, 6))
    pay = float(rng.uniform(4, 30))
    rows: list[Row] = []
    for side in range(2):
        rows += [
            (s + side * room, a, t + side * room, p, 0.1 * r)
            for s, a, t, p, r in random_rows(rng, room, 2, 2, 0.0, 1.0, upto=True)
        ]
    door, prize, end = room - 1, 2 * room - 1, 2 * room
    rows = [row for row in rows if row[:2] not in {(door, 1), (prize, 1)}]
    rows += [(door, 1, room, 1.0, 0.0), (prize, 1, end, 1.0, pay)]
    # A path to the door exists: from every state of a room its first action leads on half of the time.
    for side in range(2):
        for s in range(room - 1):
            state = s + side * room
            rows = [row for row in rows if row[:2] != (state, 0)]
            rows += [(state, 0, state + 1, 0.5, -0.1), (state, 0, side * room, 0.5, -0.1)]
    return build(rows, end + 1, 2, 0, [end], int(rng.integers(10, 61)))


def cut_off(rng: Rng) -> TabularMDP:
    """The horizon is shorter than the way through: late states are reached by some policies only."""
    states, actions = int(rng.integers(6, 12)), 2
    rows: list[Row] = []
    for state in range(states):
        for action in range(actions):
            number = int(rng.integers(1, 3))
            to = np.minimum(state + rng.integers(-2, 4, size=number), states).clip(0)
            share = rng.dirichlet(np.ones(number))
            rows += [
                (state, action, int(t), float(p), float(rng.normal(scale=2)))
                for t, p in zip(to, share, strict=True)
            ]
    return build(rows, states + 1, actions, 0, [states], int(rng.integers(2, 7)))


def two_locks(rng: Rng) -> TabularMDP:
    """Two combinations, each worth about what it costs in evidence: two modes, far apart, paid late."""
    digits, actions = rng.integers(5, 9, size=2), int(rng.integers(2, 4))
    restart = bool(rng.integers(2))
    end = 1 + int(digits.sum())
    rows: list[Row] = [(0, a, 1 if a == 0 else 1 + int(digits[0]), 1.0, 0.0) for a in range(2)]
    level = float(rng.uniform(0.8, 1.6))
    for side, first in enumerate((1, 1 + int(digits[0]))):
        pay = float(digits[side]) * np.log(actions) * level + float(rng.normal(scale=0.7))
        code = rng.integers(actions, size=digits[side])
        for place in range(digits[side]):
            for action in range(actions):
                right = action == code[place]
                last = right and place == digits[side] - 1
                after = (end if last else first + place + 1) if right else (0 if restart else end)
                rows.append((first + place, action, after, 1.0, pay if last else -0.02))
    legal = np.ones((end + 1, actions), bool)
    legal[0, 2:] = False
    horizon = int(digits.max()) + 1 + int(rng.integers(0, 20))
    return build(rows, end + 1, actions, 0, [end], horizon, legal)


def slipping_lock(rng: Rng) -> TabularMDP:
    """A wrong digit goes back some places; chance swaps right and wrong, so all states are always reached."""
    digits, actions = [(6, 3), (7, 3), (8, 3), (9, 3), (10, 2), (12, 2)][int(rng.integers(6))]
    slip, back = float(rng.choice([0.02, 0.1, 0.2])), int(rng.integers(1, 4))
    pay = digits * np.log(actions) * float(rng.uniform(0.5, 2.0))
    code, horizon = rng.integers(actions, size=digits), int(rng.integers(digits, 5 * digits))
    rows: list[Row] = []
    for state in range(digits):
        fall = max(0, state - back)
        for action in range(actions):
            onward = 1 - slip if action == code[state] else slip
            gain = pay if state == digits - 1 else 0.0
            rows.append((state, action, state + 1, onward, gain - 0.01))
            rows.append((state, action, fall, 1 - onward, -0.01))
    return build(rows, digits + 1, actions, 0, [digits], horizon)


def slippery_map(rng: Rng) -> TabularMDP:
    """A map of at most nine cells with slip, cells of different costs, and one or two goals."""
    width, height = [(3, 3), (2, 4), (4, 2), (2, 3), (9, 1)][int(rng.integers(5))]
    cells, slip = width * height, float(rng.choice([0.0, 0.1, 0.3, 0.5]))
    scale = float(np.exp(rng.uniform(np.log(0.3), np.log(5))))
    cost = rng.choice([-0.1, -0.5, -2.0], size=cells) * scale
    goals = rng.choice(np.arange(1, cells), size=int(rng.integers(1, 3)), replace=False)
    cost[goals] = rng.uniform(0, 6, size=len(goals)) * scale
    rows: list[Row] = []

    def after(cell: int, way: int) -> int:
        x, y = cell % width, cell // width
        dx, dy = ((1, 0), (0, 1), (-1, 0), (0, -1))[way % 4]
        return min(max(x + dx, 0), width - 1) + width * min(max(y + dy, 0), height - 1)

    for cell in range(cells):
        for action in range(4):
            ways = [(action, 1 - slip)] + ([(action + 1, slip / 2), (action + 3, slip / 2)] if slip else [])
            for way, share in ways:
                to = after(cell, way)
                rows.append((cell, action, to, share, float(cost[to])))
    rows = [row for row in rows if row[0] not in goals]
    return build(rows, cells, 4, 0, [int(goal) for goal in goals], int(rng.integers(5, 31)))


def hub(rng: Rng) -> TabularMDP:
    """Ways out of a hub that lead back to it many times: a policy cannot choose anew at a return."""
    ways, length = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    inner = ways * length
    actions, end = max(2, ways), 1 + inner
    pay = rng.normal(scale=float(rng.uniform(0.2, 2)), size=(ways, length, 2))
    stop = float(rng.choice([0.0, 0.05, 0.2]))
    rows: list[Row] = []
    for way in range(ways):
        first = 1 + way * length
        rows += _perhaps_ending((0, way, first, 1.0, 0.0), stop, end)
        for place in range(length):
            onward = first + place + 1 if place < length - 1 else 0
            for action in range(2):
                to = onward if action == 0 or rng.random() < 0.5 else 0
                rows += _perhaps_ending((first + place, action, to, 1.0, pay[way, place, action]), stop, end)
    legal = np.zeros((end + 1, actions), bool)
    legal[0, :ways], legal[1:, :2] = True, True
    return build(rows, end + 1, actions, 0, [end], int(rng.integers(10, 121)), legal)


def _perhaps_ending(row: Row, stop: float, end: int) -> list[Row]:
    state, action, to, _, reward = row
    if not stop:
        return [row]
    return [(state, action, to, 1 - stop, reward), (state, action, end, stop, reward)]


def far_prize(rng: Rng) -> TabularMDP:
    """Random moves with loops and small rewards; one action of the state that is farthest away pays much."""
    states = int(rng.integers(9, 14))
    rows = random_rows(rng, states, 2, 2, float(rng.choice([0.0, 0.02])), 0.1, upto=True)
    near = np.full(states + 1, states)
    near[0] = 0
    for _ in range(states):
        for s, _, t, _, _ in rows:
            near[t] = min(near[t], near[s] + 1)
    reached = np.flatnonzero(near[:states] < states)
    far = int(reached[near[reached].argmax()])
    rows = [row for row in rows if row[:2] != (far, 1)]
    rows.append((far, 1, states, 1.0, float(rng.uniform(3, 40))))
    return build(rows, states + 1, 2, 0, [states], int(rng.integers(8, 81)))


def traps(rng: Rng) -> TabularMDP:
    """What pays at once leads on to penalties that cannot be avoided any more; the safe way pays nothing."""
    length, depth = int(rng.integers(3, 6)), int(rng.integers(1, 3))
    end = length * (1 + depth)
    rows: list[Row] = []
    for place in range(length):
        lure, price = float(rng.uniform(0.5, 2)), float(rng.uniform(0, 3))
        onward = place + 1 if place < length - 1 else end
        slip = float(rng.choice([0.0, 0.1]))
        into = length + place * depth
        for action, (to, other) in enumerate((((onward, 0.0), (into, lure)), ((into, lure), (onward, 0.0)))):
            rows.append((place, action, to[0], 1 - slip, to[1]))
            if slip:
                rows.append((place, action, other[0], slip, other[1]))
        for step in range(depth):
            to = into + step + 1 if step < depth - 1 else end
            rows += [(into + step, a, to, 1.0, -price * (1.0 if a else 1.1)) for a in range(2)]
    return build(rows, end + 1, 2, 0, [end], int(rng.integers(length, 3 * length)))


def with_prior(rng: Rng) -> TabularMDP:
    """Random cyclic problems with a prior that leans to some actions and forbids others."""
    states, actions = _size(rng)
    rows = random_rows(
        rng, states, actions, 3, float(rng.choice([0.0, 0.1])), float(rng.uniform(0.2, 3)), upto=True
    )
    prior = rng.dirichlet(np.full(actions, float(rng.choice([0.3, 1.0, 3.0]))), states + 1)
    prior[prior < 0.01] = 0.0
    prior /= prior.sum(axis=1, keepdims=True)
    return build(rows, states + 1, actions, 0, [states], int(rng.integers(4, 31)), prior > 0, prior=prior)


def discounted(rng: Rng) -> TabularMDP:
    """Random cyclic problems with a discount, and horizons that it does not quite reach."""
    states, actions = _size(rng)
    rows = random_rows(
        rng, states, actions, 2, float(rng.choice([0.0, 0.1])), float(rng.uniform(0.2, 3)), upto=True
    )
    horizon, discount = int(rng.integers(5, 200)), float(rng.uniform(0.6, 0.99))
    return build(rows, states + 1, actions, 0, [states], horizon, discount=discount)


def time_dependent(rng: Rng) -> TabularMDP:
    """Random problems whose policies look at the step: states are pairs, and nothing comes twice."""
    states, horizon = [(3, 5), (2, 7), (4, 4)][int(rng.integers(3))]
    rows = random_rows(
        rng, states, 2, 2, float(rng.choice([0.05, 0.3])), float(rng.uniform(0.3, 3)), upto=True
    )
    timed = polinfer.with_terms(build(rows, states + 1, 2, 0, [states], horizon), policies="time-dependent")
    return polinfer.tabulate(timed)


SMALL: dict[str, Callable[[Rng], TabularMDP]] = {
    "lock": lock,
    "corridors": lambda rng: corridors(rng, False, 0.0),
    "corridors, slip": lambda rng: corridors(rng, False, 0.2),
    "corridors, way back": lambda rng: corridors(rng, True, 0.0),
    "corridors, way back, slip": lambda rng: corridors(rng, True, 0.2),
    "deceptive chain": deceptive_chain,
    "cyclic dense": cyclic_dense,
    "cyclic sparse": cyclic_sparse,
    "cyclic deterministic": cyclic_deterministic,
    "acyclic": acyclic,
    "masks": masks,
    "long horizon": long_horizon,
    "several starts": several_starts,
    "reward sizes": reward_sizes,
    "near ties": near_ties,
    "bottleneck": bottleneck,
    "cut-off": cut_off,
    "two locks": two_locks,
    "slipping lock": slipping_lock,
    "slippery map": slippery_map,
    "hub": hub,
    "far prize": far_prize,
    "traps": traps,
    "prior": with_prior,
    "discount": discounted,
    "time-dependent": time_dependent,
}
