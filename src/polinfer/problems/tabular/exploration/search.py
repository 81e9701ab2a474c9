"""Breadth-first exploration: draws until no new state comes, then more draws where they matter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polinfer.core.errors import TooLargeError
from polinfer.core.limits import DAY, check_seconds
from polinfer.core.progress import Progress, Report
from polinfer.problems.tabular.exploration.counts import (
    Drawn,
    estimate,
    joined,
    weights_by_visit,
    weights_by_way,
)
from polinfer.problems.tabular.exploration.influence import influence, soft_policies
from polinfer.problems.tabular.exploration.markov import check_alike, check_episodes, refuse
from polinfer.problems.tabular.exploration.options import Exploration
from polinfer.problems.tabular.exploration.source import Playing, Source
from polinfer.problems.tabular.rows import OutcomeRows
from polinfer.problems.tabular.table import TabularMDP

_FIRST_SHARE = 0.4  # of the draws that are spread evenly; the others go where they matter
_ROUNDS = 2  # in which the others are given out
_EVEN = 0.1  # of those, for every pair alike
_STARTS = 4  # times the draws of a pair: draws of the first state
_LEAST = 8
_DRAWS_A_SECOND = {True: 1e6, False: 2e4}  # of a compiled problem, and of one in plain Python
_SCREEN = 6  # least draws by which two representatives of a state are compared
_MANY = 32  # representatives from which on one or two draws of each are enough to average over them
_WATCHED = 20_000  # steps of whole episodes that are compared with the table, at most
_CHECKS = (32, 256, 2048)  # numbers of states after which is looked whether they are Markov


def explore(source: Source, options: Exploration, progress: Progress | None = None) -> TabularMDP:
    """Return a table of all states that draws come to."""
    return _Search(source, options.filled(source.compiled), progress).run()


class _Search:
    def __init__(self, source: Source, options: Exploration, progress: Progress | None) -> None:
        assert options.draws is not None
        assert options.max_states is not None
        self.source, self.options, self.progress = source, options, progress
        self.draws, self.limit = options.draws, options.max_states
        self.parts: list[Drawn] = []
        self.played: list[Drawn] = []
        self.sure: dict[tuple[int, int], bool] = {}  # the pairs that were drawn, and whether without chance
        self.done = self.spent = 0
        self.checked: dict[int, int] = {}  # states, by the number of representatives that were compared
        self.checks = list(_CHECKS)
        self.averaging = False  # whether states that look alike were seen to behave differently

    def run(self) -> TabularMDP:
        first = _STARTS * self.draws
        check_seconds(
            f"{first:,} draws of the first state",
            first / _DRAWS_A_SECOND[self.source.compiled],
            "choose fewer (--draws)",
            DAY,
        )
        starts = self.source.start(first)
        self._close(max(_LEAST, int(_FIRST_SHARE * self.draws)))
        self._check_all()
        self._watch(starts)
        if self.averaging and isinstance(self.source, Playing):
            self._play(starts, self.source)
        for left in range(_ROUNDS, 0, -1):
            self._add_where_it_matters(starts, left)
            self._close(max(_LEAST, int(_FIRST_SHARE * self.draws)))
        self._check_all()
        self._report()
        return self._table(starts, describe=True)

    def _close(self, draws: int) -> None:
        """Expand every state that was not expanded yet, and what they lead to."""
        source = self.source
        while self.done < len(source):
            batch = range(self.done, min(self.done + source.chunk, len(source)))
            pairs = [
                (state, action)
                for state in batch
                if not source.is_terminal(state)
                for action in np.nonzero(source.legal(state))[0].tolist()
            ]
            if pairs:
                self._draw(np.array(pairs, np.int64), np.full(len(pairs), draws, np.int64))
            self.done = batch.stop
            self._report()
            if len(source) > self.limit:
                raise TooLargeError(
                    f"more than {self.limit:,} states: {len(source):,} found after expanding {self.done:,}, "
                    f"such as {source.name(len(source) - 1)}; {source.advice()}, allow more with "
                    "--max-states (max_states=), or use a method that needs no table, such as wake"
                )
            if self.checks and self.done >= self.checks[0]:
                self.checks.pop(0)
                self._check(range(self.done))

    def _draw(self, pairs: NDArray[np.int64], draws: NDArray[np.int64]) -> None:
        """Draw, from the representatives of a state in turn."""
        ways = np.zeros(len(pairs), np.int64)
        drawn, sure = self.source.sample(pairs, draws, ways)
        for (state, action), flag in zip(pairs.tolist(), sure.tolist(), strict=True):
            self.sure[state, action] = flag and self.sure.get((state, action), True)
        self.parts.append(drawn)
        self.spent += int(drawn.number.sum())

    def _check(self, states: range) -> None:
        """Refuse states whose representatives differ beyond chance, or average over them if so asked."""
        source = self.source
        new = [
            state
            for state in states
            if not source.is_terminal(state) and source.ways(state) > self.checked.get(state, 1)
        ]
        if not new:
            return
        chance = np.ones((len(new), source.num_actions), np.bool_)
        for row, state in enumerate(new):
            self.checked[state] = source.ways(state)
            for action in range(source.num_actions):
                chance[row, action] = not self.sure.get((state, action), False)
        if self.averaging:
            self._draw_all_ways(new)
            return
        screen = max(_SCREEN, self.draws // 16)
        parts, difference = check_alike(source, np.array(new, np.int64), chance, screen)
        if difference is not None:
            if self.options.markov == "check":
                raise refuse(source, difference)
            self.averaging = True
            self._draw_all_ways(new)
            return
        for part in parts:
            # One draw more of what involves no chance says nothing new.
            keep = np.array(
                [
                    not self.sure.get(pair, False)
                    for pair in zip(part.state.tolist(), part.action.tolist(), strict=True)
                ],
                np.bool_,
            )
            self.parts.append(part.take(keep))
            self.spent += int(part.number.sum())
        self._close(max(_LEAST, int(_FIRST_SHARE * self.draws)))

    def _check_all(self) -> None:
        """Check until there are no new representatives: those of a state lead to those of its successors."""
        before = -1
        while before != (before := sum(self.checked.values())) and not self.averaging:
            self._check(range(len(self.source)))

    def _watch(self, starts: dict[int, int]) -> None:
        """Play whole episodes and compare: what is hidden may be in none of the few representatives."""
        source = self.source
        if self.averaging or not isinstance(source, Playing) or not source.hiding:
            return
        _, policies = soft_policies(self._table(starts, describe=False))
        played = source.witness(_STARTS * self.draws, _WATCHED, policies)
        difference = check_episodes(joined(self.parts), played, self.sure, source.num_actions)
        if difference is None:
            return
        if self.options.markov == "check":
            raise refuse(source, difference)
        self.averaging = True
        self._draw_all_ways(
            [s for s in range(len(source)) if not source.is_terminal(s) and source.ways(s) > 1]
        )

    def _draw_all_ways(self, states: list[int]) -> None:
        """Draw from every representative of some states: what is hidden is then averaged over."""
        rows = [
            (state, action, way)
            for state in states
            for action in np.nonzero(self.source.legal(state))[0].tolist()
            for way in range(self.source.ways(state))
        ]
        asked = np.array(rows, np.int64)
        ways = np.array([self.source.ways(state) for state in asked[:, 0].tolist()], np.int64)
        draws = np.maximum(1, np.minimum(_SCREEN, _SCREEN * _MANY // np.maximum(ways, 1)))
        drawn, _ = self.source.sample(asked[:, :2], draws, asked[:, 2])
        self.parts.append(drawn)
        self.spent += int(drawn.number.sum())
        self._close(max(_LEAST, int(_FIRST_SHARE * self.draws)))

    def _play(self, starts: dict[int, int], source: Playing) -> None:
        """Play whole episodes: each meets what is hidden anew, as often as it comes."""
        random = sum(not sure for sure in self.sure.values())
        played, first = source.play(self.draws * random)
        self.played.append(played)
        self.spent += int(played.number.sum())
        for state, number in first.items():
            starts[state] = starts.get(state, 0) + number
        self._close(max(_LEAST, int(_FIRST_SHARE * self.draws)))

    def _averaged(self) -> tuple[Drawn, NDArray[np.float64]]:
        """Return draws and their weights: of episodes where these came often enough, else of few ways in."""
        source, actions = self.source, self.source.num_actions
        other, played = joined(self.parts), joined(self.played)
        if isinstance(source, Playing):
            other = joined([other._replace(way=source.origins(other.way))])
        weight, pair = weights_by_visit(played, actions), played.state * actions + played.action
        often = np.bincount(pair, weight, len(source) * actions) >= _LEAST
        kept, other = often[pair], other.take(~often[other.state * actions + other.action])
        columns: Any = [np.concatenate(both) for both in zip(played.take(kept), other, strict=True)]
        return Drawn(*columns), np.concatenate([weight[kept], weights_by_way(other, actions)])

    def _add_where_it_matters(self, starts: dict[int, int], left: int) -> None:
        """Give out a part of the draws that are left, by how much each pair's error matters for J."""
        if self.averaging:
            return  # more draws of the same few representatives would say nothing of what is hidden
        random = np.array([pair for pair, sure in self.sure.items() if not sure], np.int64).reshape(-1, 2)
        budget = (self.draws * len(random) - self._spent_on_chance()) // left
        if budget < len(random) or len(random) == 0:
            return
        table = self._table(starts, describe=False)
        weight = influence(table)[random[:, 0], random[:, 1]]
        total = weight.sum()
        share = np.full(len(random), 1 / len(random))
        if total > 0:
            share = _EVEN * share + (1 - _EVEN) * weight / total
        extra = np.floor(share * budget).astype(np.int64)
        keep = extra > 0
        for first in range(0, int(keep.sum()), 4096):
            some = np.nonzero(keep)[0][first : first + 4096]
            self._draw(random[some], extra[some])
            self._report()

    def _spent_on_chance(self) -> int:
        return self.spent - sum(self.sure.values())

    def _report(self) -> None:
        if self.progress is not None:
            note = f"{self.spent:,} draws"
            self.progress(Report(self.done, max(len(self.source), self.done), "states explored", note))

    def _table(self, starts: dict[int, int], *, describe: bool) -> TabularMDP:
        source, count = self.source, len(self.source)
        drawn, weight = self._averaged() if self.averaging else (joined(self.parts), None)
        rows, total = estimate(drawn, source.num_actions, weight)
        absorbing = np.array([source.is_terminal(state) for state in range(count)])
        legal = np.array([source.legal(state) for state in range(count)])
        legal[absorbing] = True
        initial = np.zeros(count)
        initial[list(starts)] = list(starts.values())
        flat = np.zeros(count * source.num_actions, np.int32)
        flat[: len(total)] = total
        draws = flat.reshape(count, source.num_actions)
        several = np.bincount(rows.state * source.num_actions + rows.action, minlength=draws.size) > 1
        for (state, action), sure in self.sure.items():
            if sure and not several[state * source.num_actions + action]:
                draws[state, action] = 0
        # One start that came every time is taken as certain.
        first = int(initial.sum()) if len(starts) > 1 else 0
        options: dict[str, Any] = {
            "legal": legal,
            "draws": draws,
            "initial_draws": first,
            "averaged": self.averaging,
        }
        if not describe:
            return _made(rows, count, source, initial, absorbing, options)
        told = source.describe()
        options |= {
            "state_names": told.state_names,
            "action_names": told.action_names,
            "features": told.features,
            "identities": told.identities,
            "prior": told.prior,
            "discount": told.discount,
        }
        if told.ending_of is not None:
            options |= {"endings": told.endings, "ending_of": np.where(absorbing, told.ending_of, -1)}
        table = _made(rows, count, source, initial, absorbing, options).with_sources(told.sources)
        return table.with_observed(told.observed).with_state_keys(told.keys)


def _made(
    rows: OutcomeRows,
    count: int,
    source: Source,
    initial: NDArray[np.float64],
    absorbing: NDArray[np.bool_],
    options: dict[str, Any],
) -> TabularMDP:
    return TabularMDP.from_outcomes(
        rows, count, source.num_actions, initial / initial.sum(), absorbing, source.horizon, **options
    )
