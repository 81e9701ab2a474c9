"""Whether states that look alike behave alike: a test on the draws of their representatives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.special
from numpy.typing import NDArray

from polinfer.problems.tabular.exploration.counts import Drawn, joined
from polinfer.problems.tabular.exploration.options import NotMarkovError
from polinfer.problems.tabular.exploration.source import Source

_CONFIRM = 200  # draws of each representative that decide
_SUSPECT = 0.05  # p-value below which a pair is looked at again
_SUSPECTS = 5  # pairs that are looked at again in one round
_ALPHA = 1e-4  # chance of a false alarm in one round; fresh draws of at most `_SUSPECTS` pairs decide
_EXPECTED, _ROUGHLY = 5.0, 1.0  # smallest expected counts, to decide and to screen; rarer ones are pooled


class Difference(NamedTuple):
    """Two representatives of a state that differ."""

    state: int
    action: int
    p_value: float


def check_alike(
    source: Source, states: NDArray[np.int64], chance: NDArray[np.bool_], screen: int
) -> tuple[list[Drawn], Difference | None]:
    """Draw from all representatives of `states` and return the draws, and a difference beyond chance.

    `chance` ``[n, A]`` says which pairs of `states` involve chance: these are compared by `screen` draws of
    each representative, and looked at again with more where they seem to differ; others by one draw.
    """
    pairs, draws, ways = [], [], []
    for row, state in enumerate(states.tolist()):
        count = source.ways(state)
        if count < 2:
            continue
        legal = source.legal(state)
        for way in range(1, count):
            if not np.array_equal(source.legal(state, way), legal):
                return [], Difference(state, -1, 0.0)
        for action in np.nonzero(legal)[0].tolist():
            for way in range(count):
                pairs.append((state, action))
                draws.append(screen if chance[row, action] else 1)
                ways.append(way)
    if not pairs:
        return [], None
    table = np.array(pairs, np.int64)
    drawn, _ = source.sample(table, np.array(draws, np.int64), np.array(ways, np.int64))
    suspects = _screen(drawn, chance, states)
    if suspects and suspects[0].p_value == 0.0:
        return [drawn], suspects[0]
    parts = [drawn]
    for suspect in suspects[:_SUSPECTS]:
        count = source.ways(suspect.state)
        again, _ = source.sample(
            np.array([(suspect.state, suspect.action)] * count, np.int64),
            np.full(count, _CONFIRM, np.int64),
            np.arange(count),
        )
        parts.append(again)
        p_value = homogeneity(*_outcomes(joined([again])))
        if p_value < _ALPHA / _SUSPECTS:
            return parts, Difference(suspect.state, suspect.action, p_value)
    return parts, None


def check_episodes(
    drawn: Drawn, played: Drawn, sure: dict[tuple[int, int], bool], actions: int
) -> Difference | None:
    """Return a pair that does something else in whole episodes `played` than when it was drawn alone.

    Few representatives of a state are kept, and what is hidden in one episode out of twenty may be in none
    of them.  Without chance one other outcome decides; else a test does, at a level shared by all pairs.
    """
    both = joined(
        [drawn._replace(way=np.zeros_like(drawn.way)), played._replace(way=np.ones_like(played.way))]
    )
    pair = both.state * actions + both.action
    ends = np.nonzero(np.append(pair[1:] != pair[:-1], True))[0] + 1
    worst, first = None, 0
    for end in ends.tolist():
        part = both.take(slice(first, end))
        first = end
        outcome, way, count = _outcomes(part)
        if way.min() == way.max():
            continue
        state, action = int(part.state[0]), int(part.action[0])
        if sure.get((state, action), False):
            p_value = 1.0 if len(np.unique(outcome)) == 1 else 0.0
        else:
            p_value = min(1.0, len(ends) * homogeneity(outcome, way, count))
        if p_value < _ALPHA and (worst is None or p_value < worst.p_value):
            worst = Difference(state, action, p_value)
    return worst


def _screen(drawn: Drawn, chance: NDArray[np.bool_], states: NDArray[np.int64]) -> list[Difference]:
    """Return the pairs whose representatives seem to differ, the clearest first."""
    whole = joined([drawn])
    row_of = {int(state): row for row, state in enumerate(states)}
    pair = whole.state * (whole.action.max(initial=0) + 1) + whole.action
    ends = np.nonzero(np.append(pair[1:] != pair[:-1], True))[0] + 1
    found, first = [], 0
    for end in ends.tolist():
        part = whole.take(slice(first, end))
        first = end
        state, action = int(part.state[0]), int(part.action[0])
        outcome, way, count = _outcomes(part)
        if chance[row_of[state], action]:
            p_value = homogeneity(outcome, way, count, _ROUGHLY)
        else:
            p_value = 1.0 if len(np.unique(outcome)) == 1 else 0.0
        if p_value < _SUSPECT:
            found.append(Difference(state, action, p_value))
    return sorted(found, key=lambda difference: difference.p_value)


def _outcomes(part: Drawn) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Number the different outcomes of one pair; rewards that differ by rounding are one."""
    rewards = np.round(part.reward, 9)
    if len(np.unique(rewards)) > 8:  # a reward of many values: above or below its median
        rewards = (rewards > np.median(np.repeat(rewards, part.number))).astype(np.float64)
    keys = np.stack([part.successor.astype(np.float64), rewards], axis=1)
    _, outcome = np.unique(keys, axis=0, return_inverse=True)
    return outcome.ravel(), part.way, part.number


def homogeneity(
    outcome: NDArray[np.int64], way: NDArray[np.int64], count: NDArray[np.int64], least: float = _EXPECTED
) -> float:
    """Return the p-value of a chi-square test that outcomes have one distribution for all ways.

    Examples
    --------
    >>> homogeneity(np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]), np.array([30, 10, 10, 30])) < 1e-4
    True
    """
    ways, row = np.unique(way, return_inverse=True)
    table = np.zeros((len(ways), int(outcome.max(initial=0)) + 1))
    np.add.at(table, (row, outcome), count)
    total = table.sum()
    smallest = table.sum(axis=1).min() / total
    rare = table.sum(axis=0) * smallest < least
    if rare.any():
        table = np.concatenate([table[:, ~rare], table[:, rare].sum(axis=1, keepdims=True)], axis=1)
        if table[:, -1].sum() * smallest < least:
            table = table[:, :-1]  # too rare to say anything of
    if table.shape[1] < 2 or table.shape[0] < 2 or (table.sum(axis=1) == 0).any():
        return 1.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    # scipy.stats has this as a function, but takes half a second to import.
    return float(scipy.special.chdtrc(freedom, ((table - expected) ** 2 / expected).sum()))


def refuse(source: Source, difference: Difference) -> NotMarkovError:
    """Return the error that names what is not Markov."""
    where = source.name(difference.state)
    if difference.action < 0:
        what = f"state {where} was reached by two ways, with different legal actions"
    else:
        names = source.action_names()
        sure = "" if difference.p_value == 0.0 else f" beyond chance (p = {difference.p_value:.0e})"
        what = (
            f"state {where} was reached by two ways, and action {names[difference.action]!r} then does "
            f"different things{sure}"
        )
    return NotMarkovError(
        f"what is seen is not the whole state, so it may not be Markov: {what}; tell such states apart "
        "(identity=, or a wrapper that shows what is hidden), or average over what is hidden with "
        "markov='ignore' (--markov ignore)"
    )
