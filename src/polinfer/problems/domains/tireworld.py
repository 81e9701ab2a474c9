"""Triangle Tireworld (Little and Thiébaux, 2007): a drive over one-way roads on which tires go flat.

Every move may puncture a tire.  A spare on board mends that once; spares lie along the longer ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.core.errors import DomainError, check_at_least, check_finite, check_share
from polinfer.core.protocol import Ending, Outcomes, Starts, Transition, constant
from polinfer.problems.domains.bitsets import as_flags, as_words, members
from polinfer.problems.domains.ippc2014 import TireMap, check_choice, check_flag, resolve, tire_map

Loading = Literal["arrival", "hand"]
Changing = Literal["automatic", "hand"]
Stuck = Literal["ends", "waits"]
Judged = Literal["after", "before"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "loading": ("arrival", "hand"),
    "changing": ("automatic", "hand"),
    "stuck": ("ends", "waits"),
    "goal_judged": ("after", "before"),
}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "paper": {
        "loading": "arrival",
        "changing": "automatic",
        "stuck": "ends",
        "goal_judged": "after",
        "goal_with_flat": True,
        "goal_reward": 10.0,
        "stuck_reward": -10.0,
        "step_reward": -0.1,
        "horizon": 20,
        "forget_behind": True,
    },
    "rddl": {
        "loading": "hand",
        "changing": "hand",
        "stuck": "waits",
        "goal_judged": "before",
        "goal_with_flat": True,
        "goal_reward": 100.0,
        "stuck_reward": 0.0,
        "step_reward": -1.0,
        "forget_behind": False,
    },
}


class Drive(NamedTuple):
    """Where the car is and what it carries."""

    location: Any  # [] int32
    has_spare: Any  # [] bool, a spare is on board
    flat: Any  # [] bool
    paid: Any  # [] bool, the goal has been paid for; always false where it is judged after the move
    spares: Any  # [W] int32, the spares that still lie around, one bit each


@dataclass(frozen=True)
class Tireworld:
    """A drive from start to goal; `tireworld` fills in the numbers of an instance.

    Actions are the roads out of the present location, in the order of the map, then *load* and *change tire*
    where that is done by hand, and *wait* where the car may have to stay.  What is not possible is not legal;
    done nevertheless, it is a *wait*.
    """

    map: TireMap
    flat_prob: float
    loading: Loading
    changing: Changing
    stuck: Stuck
    goal_judged: Judged
    goal_with_flat: bool
    goal_reward: float
    stuck_reward: float
    step_reward: float
    horizon: int
    reward_scale: float = 1.0
    forget_behind: bool = False

    def __post_init__(self) -> None:
        check_share("flat_prob", self.flat_prob)
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        for name in ("goal_with_flat", "forget_behind"):
            check_flag(name, getattr(self, name))
        for name in ("goal_reward", "stuck_reward", "step_reward", "reward_scale"):
            check_finite(name, getattr(self, name))
        object.__setattr__(self, "horizon", check_at_least("horizon", self.horizon, 1))
        ends = [place for road in self.map.roads for place in road]
        for place in (self.map.start, self.map.goal, *self.map.spares, *ends):
            if place not in self.map.locations:
                raise DomainError(f"the map names the location {place!r} but does not list it")
        leading = {origin for origin, _ in self.map.roads} | {self.map.goal}
        for place in self.map.locations:
            if place not in leading and not self._waiting:
                raise DomainError(f"no road leads out of {place!r}; add one, or set stuck='waits'")

    @property
    def _waiting(self) -> bool:
        # Where the episode continues at the goal or with a flat, some action must be legal.
        return self.stuck == "waits" or self.goal_judged == "before"

    @cached_property
    def _kinds(self) -> tuple[str, ...]:
        """The actions after the roads."""
        present = {
            "load": self.loading == "hand",
            "change tire": self.changing == "hand",
            "wait": self._waiting,
        }
        return tuple(kind for kind, here in present.items() if here)

    @cached_property
    def _roads(self) -> NDArray[np.int32]:
        """The location ``[L, R]`` that each road out of a location leads to; -1 where there is none."""
        number = {place: i for i, place in enumerate(self.map.locations)}
        out: list[list[int]] = [[] for _ in number]
        for origin, target in self.map.roads:
            out[number[origin]].append(number[target])
        roads = np.full((len(number), max(1, *map(len, out))), -1, np.int32)
        for i, targets in enumerate(out):
            roads[i, : len(targets)] = targets
        return roads

    @cached_property
    def _spare_here(self) -> NDArray[np.int32]:
        """The bit ``[L, W]`` of the spare that lies at a location; zero where none does."""
        index = {place: i for i, place in enumerate(self.map.spares)}
        lying = [[index[place]] if place in index else [] for place in self.map.locations]
        return np.stack([as_words(spare, len(index)) for spare in lying])

    @cached_property
    def _spares_ahead(self) -> NDArray[np.int32]:
        """The spares ``[L, W]`` that can still be loaded from a location."""
        here = np.eye(len(self.map.locations), dtype=np.bool_)
        onward = np.zeros_like(here)
        origin, slot = np.nonzero(self._roads >= 0)
        onward[origin, self._roads[origin, slot]] = True
        reach = onward
        for _ in self.map.locations:
            reach = reach | (reach @ onward)
        if self.loading == "hand":
            reach = reach | here
        lying = [self.map.locations.index(place) for place in self.map.spares]
        return np.stack([as_words(np.flatnonzero(row[lying]), len(lying)) for row in reach])

    @property
    def _goal(self) -> int:
        return self.map.locations.index(self.map.goal)

    @property
    def num_actions(self) -> int:
        """The largest number of roads out of a location, and what is done by hand."""
        return int(self._roads.shape[1]) + len(self._kinds)

    @property
    def num_states_bound(self) -> int:
        """An upper bound on the number of states."""
        flags = 8 if self.goal_judged == "before" else 4
        return int(len(self.map.locations) * flags * 2 ** len(self.map.spares))

    @property
    def action_names(self) -> tuple[str, ...]:
        """The roads by number; `action_name` says where they lead."""
        return (*(f"road {i + 1}" for i in range(self._roads.shape[1])), *self._kinds)

    @property
    def endings(self) -> tuple[Ending, ...]:
        """The goal, and being stuck where that ends the episode."""
        return (Ending("goal", True), *((Ending("stuck", False),) if self.stuck == "ends" else ()))

    def starts(self) -> Starts:
        """List the start, with good tires and no spare on board."""
        return Starts(constant([1.0]), jax.tree.map(lambda leaf: leaf[None], self._start()))

    def init(self, key: Array) -> Drive:
        """Return the start."""
        del key
        return self._start()

    def _start(self) -> Drive:
        size = len(self.map.spares)
        start = self.map.locations.index(self.map.start)
        spares = as_words(range(size), size)
        if self.forget_behind:
            spares = spares & self._spares_ahead[start]
        no = jnp.asarray(False)
        return Drive(jnp.asarray(start, jnp.int32), no, no, no, jnp.asarray(spares))

    def _at_goal(self, state: Drive) -> Array:
        there: Array = state.location == self._goal
        return there if self.goal_with_flat else there & ~state.flat

    def _is_stuck(self, state: Drive) -> Array:
        stuck: Array = state.flat & ~state.has_spare & ~self._at_goal(state)
        return stuck

    def _is_over(self, state: Drive) -> Array:
        arrived: Array = state.paid if self.goal_judged == "before" else self._at_goal(state)
        return arrived | self._is_stuck(state) if self.stuck == "ends" else arrived

    def _does(self, action: Array, kind: str) -> Array:
        if kind not in self._kinds:
            return jnp.asarray(False)
        return jnp.equal(action, self._roads.shape[1] + self._kinds.index(kind))

    def _target(self, state: Drive, action: Array) -> Array:
        """Return where the action drives to, -1 where it does not drive."""
        slots = self._roads.shape[1]
        target = jnp.asarray(self._roads)[state.location, jnp.minimum(action, slots - 1)]
        return jnp.where((action < slots) & ~state.flat, target, -1)

    def _apply(self, state: Drive, action: Array, puncture: Array) -> Transition:
        """Return what `action` leads to if a move does, or does not, puncture a tire."""
        over = self._is_over(state)
        target = self._target(state, action)
        moves = target >= 0
        location = jnp.where(moves, target, state.location)
        flat = state.flat | (moves & puncture)
        here = jnp.asarray(self._spare_here)[location]
        lies = (state.spares & here != 0).any()

        by_hand = self._does(action, "load") & lies
        has_spare = state.has_spare | by_hand
        wants_change = flat if self.changing == "automatic" else self._does(action, "change tire")
        changes = wants_change & has_spare
        flat, has_spare = flat & ~changes, has_spare & ~changes
        on_arrival = moves & lies & ~flat & ~has_spare & (self.loading == "arrival")
        has_spare = has_spare | on_arrival
        spares = jnp.where(by_hand | on_arrival, state.spares & ~here, state.spares)
        if self.forget_behind:
            spares = spares & jnp.asarray(self._spares_ahead)[location]

        paid = state.paid | self._at_goal(state) if self.goal_judged == "before" else state.paid
        after = Drive(location, has_spare, flat, paid, spares)
        reached: Drive = jax.tree.map(lambda old, new: jnp.where(over, old, new), state, after)
        reward = jnp.where(over, 0.0, self._reward(state, after) * constant(self.reward_scale))
        return Transition(reached, reward, self._is_over(reached))

    def _reward(self, before: Drive, after: Drive) -> Array:
        got_stuck = self._is_stuck(after) & ~self._is_stuck(before)
        reward = constant(self.step_reward) + jnp.where(got_stuck, constant(self.stuck_reward), 0.0)
        if self.goal_judged == "before":
            return jnp.where(self._at_goal(before), constant(self.goal_reward), reward)
        return reward + jnp.where(self._at_goal(after), constant(self.goal_reward), 0.0)

    def outcomes(self, state: Drive, action: Array) -> Outcomes:
        """List a move without and with a puncture; everything else is certain."""
        both = jax.vmap(lambda puncture: self._apply(state, action, puncture))(jnp.array([False, True]))
        moves = (self._target(state, action) >= 0) & ~self._is_over(state)
        odds = constant([1.0 - self.flat_prob, self.flat_prob])
        return Outcomes(jnp.where(moves, odds, constant([1.0, 0.0])), both)

    def step(self, key: Array, state: Drive, action: Array) -> Transition:
        """Drive, load, change or wait."""
        return self._apply(state, action, jax.random.uniform(key) >= 1.0 - self.flat_prob)

    def encode(self, state: Drive) -> Array:
        """Return the location one-hot, a spare on board, a flat, and which spares still lie around."""
        place = jax.nn.one_hot(state.location, len(self.map.locations), dtype=jnp.float32)
        flags = jnp.stack([state.has_spare, state.flat])
        lying = as_flags(state.spares, len(self.map.spares))
        return jnp.concatenate([place, flags.astype(jnp.float32), lying.astype(jnp.float32)])

    def identity(self, state: Drive) -> Array:
        """Return location and flags in one word, then the spares."""
        flags = jnp.stack([state.has_spare, state.flat, state.paid])
        word = 8 * state.location + jnp.sum(jnp.where(flags, jnp.array([1, 2, 4], jnp.int32), 0))
        return jnp.concatenate([word.astype(jnp.int32)[None], state.spares])

    def legal(self, state: Drive) -> Array:
        """Roads with good tires, *load* where a spare lies, *change tire* with one on board, and *wait*."""
        here = jnp.asarray(self._spare_here)[state.location]
        possible = {
            "load": (state.spares & here != 0).any(),
            "change tire": jnp.asarray(state.has_spare),
            "wait": jnp.asarray(True),
        }
        roads = (jnp.asarray(self._roads)[state.location] >= 0) & ~state.flat
        legal = jnp.concatenate([roads, *(possible[kind][None] for kind in self._kinds)])
        return legal | self._is_over(state)

    def ending(self, state: Drive) -> Array:
        """0 at the goal, 1 stuck where that ends the episode, -1 elsewhere."""
        which = jnp.where(self._is_stuck(state), 1, 0)
        return jnp.where(self._is_over(state), which, -1).astype(jnp.int32)

    def state_name(self, state: Drive) -> str:
        """Name a drive by its location, what has happened, and the spares that are gone."""
        flags = {"spare on board": state.has_spare, "flat": state.flat, "paid": state.paid}
        place, size = int(state.location), len(self.map.spares)
        known = members(self._spares_ahead[place], size) if self.forget_behind else range(size)
        left = members(state.spares, size)
        taken = [self.map.spares[spare] for spare in known if spare not in left]
        parts = [self.map.locations[place], *(name for name, flag in flags.items() if flag)]
        return ", ".join([*parts, *(["taken " + " ".join(taken)] if taken else [])])

    def action_name(self, state: Drive, action: int) -> str:
        """Name an action by what it does in a concrete state: ``move la1a2``, ``load``."""
        slots = self._roads.shape[1]
        if int(action) >= slots:
            return str(self._kinds[int(action) - slots])
        target = int(self._roads[int(state.location), int(action)])
        return f"move {self.map.locations[target]}" if target >= 0 else "wait"


def locations_of(identities: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the number ``[n]`` of the location in each identity ``[n, K]`` of a `Tireworld`."""
    return np.asarray(identities[:, 0] // 8)


def tireworld(
    instance: int,
    /,
    *,
    semantics: Literal["paper", "rddl"] = "paper",
    horizon: int | None = None,
    reward_scale: float = 1.0,
    flat_prob: float | None = None,
    loading: Loading | None = None,
    changing: Changing | None = None,
    stuck: Stuck | None = None,
    goal_judged: Judged | None = None,
    goal_with_flat: bool | None = None,
    goal_reward: float | None = None,
    stuck_reward: float | None = None,
    step_reward: float | None = None,
    forget_behind: bool | None = None,
) -> Tireworld:
    """Triangle Tireworld, instances 1 to 10 of the planning competition IPPC 2014.

    The file names an action for every pair of locations and allows all of them everywhere, but in any state
    all do nothing save the roads out of the present location (with good tires), loading the spare that lies
    there, and changing a tire with a spare on board.  *wait* stands for all that do nothing, so what can
    happen and what can be earned is the same with a handful of actions.  After the goal is paid for, episodes
    of the file continue without rewards; here they end.

    Parameters
    ----------
    semantics
        ``"paper"`` follows the paper, ``"rddl"`` the competition's file; it sets the defaults of the options
        below, paper first.
    horizon
        20, the length of the longest way in the largest instance; or 40.
    flat_prob
        The probability that a move punctures a tire: the file's constant FLAT-PROB; or one minus it.
    loading
        Whether a spare is loaded on ``"arrival"`` (with good tires, if none is on board) or by ``"hand"``.
    changing
        Whether a flat is mended by the spare on board at once, ``"automatic"``, or by ``"hand"``.
    stuck
        Whether a flat without a spare on board ``"ends"`` the episode, or the car ``"waits"``.
    goal_judged
        Whether the goal is judged ``"after"`` the move that reaches it, or ``"before"`` the next action,
        which then earns `goal_reward` in place of `step_reward`.
    goal_with_flat
        Whether the goal counts when reached with a flat: yes in both.
    goal_reward, stuck_reward, step_reward
        10, -10 and -0.1; or 100, 0 and -1.
    forget_behind
        Leave out of the state the spares to which no road leads back: yes; or no.  Nothing else changes,
        and there are far fewer states (instance 10: 144 in place of 3,096,798).  The posterior is then over
        policies that do not depend on those spares.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.tabulate(polinfer.make("tireworld/1"))
    >>> uniform = polinfer.exact.evaluate_policy(table, polinfer.exact.uniform_policy(table))
    >>> round(uniform.success, 2), round(uniform.expected_return, 2)
    (0.53, 0.34)
    """
    map = tire_map(instance)
    options = resolve(
        semantics,
        _DEFAULTS,
        flat_prob=flat_prob,
        loading=loading,
        changing=changing,
        stuck=stuck,
        goal_judged=goal_judged,
        goal_with_flat=goal_with_flat,
        goal_reward=goal_reward,
        stuck_reward=stuck_reward,
        step_reward=step_reward,
        horizon=horizon,
        forget_behind=forget_behind,
    )
    # The file draws "not flat" with probability FLAT-PROB, against what the name says.
    options.setdefault("flat_prob", map.flat_prob if semantics == "paper" else 1.0 - map.flat_prob)
    options.setdefault("horizon", map.horizon)
    return Tireworld(map, **options, reward_scale=reward_scale)
