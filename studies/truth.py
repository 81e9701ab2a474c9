"""Problems whose posterior over policies is known exactly: an oracle that shares no code with the package.

    python studies/truth.py --list [--seeds 3] [--states 2000]
    python studies/truth.py --list --family lock --seeds 10

Small families are solved by listing reach classes, large ones (``tree``, ``lattice``, ``union``) by closed
forms.  In a script next to this file::

    from truth import cases, distance, large
    for case in cases(seeds=range(10)):  # every small family
        print(case.name, distance(case, my_policy(case.table)))
    lattice = large("lattice", states=100_000, seed=0)
"""

import argparse
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from families import SMALL, Rng, Rows
from oracles import Blocks, Floats, Truth, by_reach_classes, occupancy, on_forest, on_paths, on_union
from polinfer import TabularMDP


class Case(NamedTuple):
    """A problem and its exact posterior."""

    family: str
    name: str  # the family and the seed; large ones: and the number of states asked for
    table: TabularMDP
    log_evidence: float  # log of the mean of exp(J) over all deterministic policies
    policy: Floats  # [S, A], Pr[pi(s) = a] under the posterior, uniform where pi does not come
    occupancy: Floats  # [S], expected number of steps under `policy`; zero in terminal states
    classes: float  # the number of reach classes; inf where they were not counted


def cases(family: str | None = None, seeds: Iterable[int] = range(1)) -> Iterator[Case]:
    """Yield the small problems of one family, or of all of them, for each seed."""
    for seed in list(seeds):
        for name in SMALL if family is None else [family]:
            yield small(name, seed)


def small(family: str, seed: int) -> Case:
    """Return the problem of a small family with this seed."""
    if family not in SMALL:
        raise ValueError(f"unknown family {family!r}, known: {', '.join([*SMALL, *LARGE])}")
    table = SMALL[family](_rng(family, seed))
    return _case(family, f"{family} {seed}", table, by_reach_classes(table))


def large(family: str, states: int, seed: int = 0) -> Case:
    """Return the problem of a large family with about this many states."""
    if family not in LARGE:
        raise ValueError(f"unknown family {family!r}, known: {', '.join(LARGE)}")
    table, truth = LARGE[family](_rng(family, seed), states)
    return _case(family, f"{family} {states} {seed}", table, truth)


def distance(case: Case, policy: Floats) -> float:
    """Return the total variation per state from the exact marginals, weighted by their occupancy."""
    per_state = 0.5 * np.abs(np.asarray(policy, np.float64) - case.policy).sum(axis=-1)
    return float(per_state @ case.occupancy / max(case.occupancy.sum(), 1e-300))


def _rng(family: str, seed: int) -> Rng:
    return np.random.default_rng([zlib.crc32(family.encode()), seed])


def _case(family: str, name: str, table: TabularMDP, truth: Truth) -> Case:
    steps = occupancy(table, truth.policy)
    return Case(family, name, table, truth.log_evidence, truth.policy, steps, truth.classes)


def tree(rng: Rng, states: int) -> tuple[TabularMDP, Truth]:
    """Two actions with two outcomes each, no state with two ways in; one to three roots."""
    actions, outcomes, roots = 2, 2, int(rng.integers(1, 4))
    fan = actions * outcomes
    inner = max(1, (states - roots) // fan)
    total = roots + inner * fan
    node = np.arange(inner)
    successor = roots + np.arange(inner * fan)
    share = rng.dirichlet(np.ones(outcomes), size=(inner, actions))
    # Rewards grow with depth, as the probability of being there falls.
    depth = np.zeros(total)
    for i in range(inner):
        depth[roots + i * fan : roots + (i + 1) * fan] = depth[i] + 1
    reward = rng.normal(size=(inner, fan)) * 2.0 ** depth[node][:, None]
    rows = Rows(
        np.repeat(node, fan),
        np.tile(np.repeat(np.arange(actions), outcomes), inner),
        successor,
        share.reshape(-1),
        reward.reshape(-1),
    )
    initial = np.zeros(total)
    initial[:roots] = rng.dirichlet(np.full(roots, 5.0))
    absorbing = np.arange(total) >= inner
    table = TabularMDP.from_outcomes(rows, total, actions, initial, absorbing, int(depth.max()) + 1)
    return table, on_forest(table)


def lattice(rng: Rng, states: int) -> tuple[TabularMDP, Truth]:
    """A square grid of moves right, down or on the diagonal, to the opposite corner, without slip."""
    side = max(2, round(np.sqrt(states)))
    cell = np.arange(side * side).reshape(side, side)
    rows, legal = [], np.zeros((side * side, 3), bool)
    for action, (down, right) in enumerate(((1, 0), (0, 1), (1, 1))):
        here = cell[: side - down, : side - right].reshape(-1)
        legal[here, action] = True
        rows.append((here, np.full(len(here), action), cell[down:, right:].reshape(-1)))
    state, act, successor = (np.concatenate([part[i] for part in rows]) for i in range(3))
    reward = rng.normal(size=len(state)) * float(rng.uniform(0.3, 3))
    table = TabularMDP.from_outcomes(
        Rows(state, act, successor, np.ones(len(state)), reward),
        side * side,
        3,
        0,
        np.arange(side * side) == side * side - 1,
        2 * side,
        legal=legal,
    )
    return table, on_paths(table)


def union(rng: Rng, states: int) -> tuple[TabularMDP, Truth]:
    """Blocks of four states with loops; the start is in one of them, and ``J`` is a sum over blocks."""
    size, actions, horizon, end = 4, 2, 20, 0.1
    number = max(1, (states - 1) // size)
    start = np.zeros((number, size))
    start[:, 0] = rng.dirichlet(np.full(number, 4.0))
    inside = rng.integers(size, size=(number, size, actions, 2))
    share = rng.dirichlet(np.ones(2), size=(number, size, actions)) * (1 - end)
    # A block's share of J is its start's probability: rewards make up for the number of blocks.
    reward = rng.normal(size=(number, size, actions, 2)) * number * float(rng.uniform(0.3, 1))
    move = np.zeros((number, size, actions, size))
    n, s, a, _ = np.indices(inside.shape)
    np.add.at(move, (n, s, a, inside), share)
    log_evidence, marginal = on_union(Blocks(move, (share * reward).sum(axis=-1), start), horizon)
    last = number * size
    to = np.concatenate([n * size + inside, np.full((number, size, actions, 1), last)], axis=-1)
    probability = np.concatenate([share, np.full((number, size, actions, 1), end)], axis=-1)
    pay = np.concatenate([reward, np.zeros((number, size, actions, 1))], axis=-1)
    n, s, a, _ = np.indices(to.shape)
    rows = Rows(*(x.reshape(-1) for x in (n * size + s, a, to, probability, pay)))
    initial = np.append(start.reshape(-1), 0.0)
    table = TabularMDP.from_outcomes(rows, last + 1, actions, initial, np.arange(last + 1) == last, horizon)
    policy = np.full((last + 1, actions), 1 / actions)
    policy[:last] = marginal.reshape(last, actions)
    return table, Truth(log_evidence, policy, np.inf)


def rooms(rng: Rng, states: int) -> tuple[TabularMDP, Truth]:
    """Rooms of four states with loops, one after the other; every policy leaves every room in the end.

    The horizon is so long that hardly an episode is cut off, so ``J`` is a sum over rooms and each room is
    entered with certainty: the posterior is a product, although all rooms are one problem.
    """
    size, actions, leave, cut = 4, 2, 0.35, 400
    number = max(1, (states - 1) // size)
    inside = rng.integers(size, size=(number, size, actions, 2))
    share = rng.dirichlet(np.ones(2), size=(number, size, actions)) * (1 - leave)
    reward = rng.normal(size=(number, size, actions, 2)) * float(rng.uniform(0.3, 2))
    move = np.zeros((number, size, actions, size))
    n, s, a, _ = np.indices(inside.shape)
    np.add.at(move, (n, s, a, inside), share)
    start = np.zeros((number, size))
    start[:, 0] = 1.0
    log_evidence, marginal = on_union(Blocks(move, (share * reward).sum(axis=-1), start), cut)
    last = number * size
    onward = np.minimum((np.arange(number) + 1) * size, last)
    after = np.broadcast_to(onward[:, None, None, None], (number, size, actions, 1))
    to = np.concatenate([n * size + inside, after], axis=-1)
    probability = np.concatenate([share, np.full((number, size, actions, 1), leave)], axis=-1)
    pay = np.concatenate([reward, np.zeros((number, size, actions, 1))], axis=-1)
    n, s, a, _ = np.indices(to.shape)
    rows = Rows(*(x.reshape(-1) for x in (n * size + s, a, to, probability, pay)))
    # Steps in all rooms are a sum of geometric numbers; this many standard deviations more never come.
    horizon = int(number / leave + 8 * np.sqrt(number * (1 - leave)) / leave + 40)
    table = TabularMDP.from_outcomes(rows, last + 1, actions, 0, np.arange(last + 1) == last, horizon)
    policy = np.full((last + 1, actions), 1 / actions)
    policy[:last] = marginal.reshape(last, actions)
    return table, Truth(log_evidence, policy, np.inf)


LARGE: dict[str, Callable[[Rng, int], tuple[TabularMDP, Truth]]] = {
    "tree": tree,
    "lattice": lattice,
    "union": union,
    "rooms": rooms,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--list", action="store_true", help="print every case with its exact log Z")
    parser.add_argument("--family", choices=[*SMALL, *LARGE])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--states", type=int, default=2000, help="of the large families")
    args = parser.parse_args()
    if not args.list:
        parser.error("nothing to do; add --list")
    print(f"{'case':32} {'states':>7} {'classes':>8} {'horizon':>7} {'log Z':>9} {'uniform':>8} {'s':>6}")
    for seed in range(args.seeds):
        for family in [args.family] if args.family else [*SMALL, *LARGE]:
            began = time.perf_counter()
            case = small(family, seed) if family in SMALL else large(family, args.states, seed)
            took = time.perf_counter() - began
            legal = case.table.legal_actions
            off = distance(case, legal / legal.sum(axis=1, keepdims=True))
            classes = f"{case.classes:,.0f}" if np.isfinite(case.classes) else "-"
            print(
                f"{case.name:32} {case.table.num_states:7,} {classes:>8} {case.table.horizon:7,} "
                f"{case.log_evidence:9.3f} {off:8.3f} {took:6.2f}"
            )


if __name__ == "__main__":
    main()
