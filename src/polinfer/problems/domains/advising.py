"""Academic Advising (Ferland; IPPC 2014): which courses to take until a program is complete."""

from __future__ import annotations

import itertools
import math
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
from polinfer.problems.domains.ippc2014 import Curriculum, check_choice, check_flag, curriculum, resolve

Eligible = Literal["any", "unpassed", "prepared"]
Judged = Literal["after", "before"]
Completion = Literal["ends", "continues"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "eligible": ("any", "unpassed", "prepared"),
    "penalty_judged": ("after", "before"),
    "completion": ("ends", "continues"),
}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "paper": {"eligible": "unpassed", "penalty_judged": "after", "completion": "ends"},
    "rddl": {"eligible": "any", "penalty_judged": "before", "completion": "continues"},
}
_MAX_ACTIONS = 10_000


class Record(NamedTuple):
    """A student's record, one bit per course."""

    passed: Any  # [W] int32
    taken: Any  # [W] int32, passed or not


@dataclass(frozen=True)
class Advising:
    """A program of courses; `advising` fills in the numbers of an instance.

    Actions are the sets of at most `load` courses, the empty set first.  A course without prerequisites is
    passed with probability `pass_prob_first`; one with k of them, j of which are passed, with probability
    ``p + (1 - p) j / (k + 1)``, p being `pass_prob`.  A course costs `course_cost` the first time and
    `retake_cost` each time after, and each step with the program incomplete costs `incomplete_penalty`.
    """

    curriculum: Curriculum
    eligible: Eligible
    penalty_judged: Judged
    completion: Completion
    horizon: int
    allow_empty: bool = True
    pass_prob_first: float = 0.8
    pass_prob: float = 0.2
    course_cost: float = -1.0
    retake_cost: float = -2.0
    incomplete_penalty: float = -5.0
    reward_scale: float = 1.0

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        check_flag("allow_empty", self.allow_empty)
        for name in ("pass_prob_first", "pass_prob"):
            check_share(name, getattr(self, name))
        for name in ("course_cost", "retake_cost", "incomplete_penalty", "reward_scale"):
            check_finite(name, getattr(self, name))
        object.__setattr__(self, "horizon", check_at_least("horizon", self.horizon, 1))
        plan = self.curriculum
        check_at_least("load", plan.load, 1)
        for course in (*plan.required, *itertools.chain.from_iterable(plan.prerequisites)):
            if course not in plan.courses:
                raise DomainError(f"the curriculum names the course {course!r} but does not list it")
        sets = sum(math.comb(len(plan.courses), n) for n in range(plan.load + 1))
        if sets > _MAX_ACTIONS:
            raise DomainError(
                f"{sets:,} sets of at most {plan.load} of {len(plan.courses)} courses are too many actions; "
                f"at most {_MAX_ACTIONS:,} are possible, so lower the load"
            )

    @cached_property
    def _sets(self) -> tuple[tuple[int, ...], ...]:
        """The courses of each action."""
        courses = range(len(self.curriculum.courses))
        sizes = range(self.curriculum.load + 1)
        return tuple(itertools.chain.from_iterable(itertools.combinations(courses, n) for n in sizes))

    @cached_property
    def _prerequisites(self) -> tuple[tuple[int, ...], ...]:
        number = {course: i for i, course in enumerate(self.curriculum.courses)}
        return tuple(
            tuple(number[first] for first, second in self.curriculum.prerequisites if second == course)
            for course in self.curriculum.courses
        )

    @cached_property
    def _bits(self) -> NDArray[np.int32]:
        """Each course as a set ``[C + 1, W]``; the last stands for no course."""
        count = len(self.curriculum.courses)
        return np.stack([*(as_words([c], count) for c in range(count)), as_words([], count)])

    @cached_property
    def _needed(self) -> NDArray[np.int32]:
        """The prerequisites of each course ``[C + 1, W]``."""
        count = len(self.curriculum.courses)
        return np.stack([*(as_words(p, count) for p in self._prerequisites), as_words([], count)])

    @cached_property
    def _odds(self) -> NDArray[np.float64]:
        """The probability ``[C + 1, P]`` of passing a course by the number of its prerequisites passed."""
        most = max(len(needed) for needed in self._prerequisites)
        odds = np.zeros((len(self._prerequisites) + 1, most + 1))
        for course, needed in enumerate(self._prerequisites):
            share = np.arange(most + 1) / (len(needed) + 1)
            prepared = np.minimum(self.pass_prob + (1 - self.pass_prob) * share, 1.0)
            odds[course] = prepared if needed else self.pass_prob_first
        return odds

    @cached_property
    def _slots(self) -> NDArray[np.int32]:
        """The courses ``[A, load]`` of each action, filled up with no course."""
        none = len(self.curriculum.courses)
        slots = np.full((len(self._sets), self.curriculum.load), none, np.int32)
        for action, courses in enumerate(self._sets):
            slots[action, : len(courses)] = courses
        return slots

    @cached_property
    def _required(self) -> NDArray[np.int32]:
        courses = self.curriculum.courses
        return as_words([courses.index(course) for course in self.curriculum.required], len(courses))

    @property
    def num_actions(self) -> int:
        """The number of sets of courses."""
        return len(self._sets)

    @property
    def num_states_bound(self) -> int:
        """An upper bound on the number of states: each course is new, failed so far, or passed."""
        return int(3 ** len(self.curriculum.courses))

    @property
    def action_names(self) -> tuple[str, ...]:
        """What is enrolled in."""
        courses = self.curriculum.courses
        return tuple("enrol " + ("+".join(courses[c] for c in chosen) or "nothing") for chosen in self._sets)

    @property
    def endings(self) -> tuple[Ending, ...]:
        """Completion, where that ends the episode."""
        return (Ending("complete", True),) if self.completion == "ends" else ()

    def starts(self) -> Starts:
        """List the one start: nothing taken."""
        return Starts(constant([1.0]), jax.tree.map(lambda leaf: leaf[None], self._start()))

    def init(self, key: Array) -> Record:
        """Return the empty record."""
        del key
        return self._start()

    def _start(self) -> Record:
        nothing = jnp.zeros(self._required.shape, jnp.int32)
        return Record(nothing, nothing)

    def _is_complete(self, state: Record) -> Array:
        required = jnp.asarray(self._required)
        return jnp.all(state.passed & required == required)

    def _is_over(self, state: Record) -> Array:
        return self._is_complete(state) & (self.completion == "ends")

    def _pass_odds(self, state: Record, action: Array) -> Array:
        """Return the probability ``[load]`` that a course of the action is passed now for the first time."""
        courses = jnp.asarray(self._slots)[action]
        ready = jnp.asarray(self._needed)[courses] & state.passed
        count = jax.lax.population_count(ready).sum(axis=-1)
        new = (jnp.asarray(self._bits)[courses] & state.passed == 0).all(axis=-1)
        return jnp.where(new & ~self._is_over(state), constant(self._odds)[courses, count], 0.0)

    def _apply(self, state: Record, action: Array, passes: Array) -> Transition:
        """Return what `action` leads to if its courses ``[load]`` are, or are not, passed."""
        over = self._is_over(state)
        courses = jnp.asarray(self._slots)[action]
        bits = jnp.asarray(self._bits)[courses]  # [load, W]
        # Distinct courses are distinct bits, so their sum is their union.
        passed = state.passed | jnp.where(passes[:, None], bits, 0).sum(axis=0, dtype=jnp.int32)
        after = Record(passed, state.taken | bits.sum(axis=0, dtype=jnp.int32))
        reached: Record = jax.tree.map(lambda old, new: jnp.where(over, old, new), state, after)

        again = (bits & state.taken != 0).any(axis=-1)
        real = courses < len(self.curriculum.courses)
        costs = jnp.where(again, constant(self.retake_cost), constant(self.course_cost))
        judged = after if self.penalty_judged == "after" else state
        penalty = jnp.where(self._is_complete(judged), 0.0, constant(self.incomplete_penalty))
        reward = (jnp.where(real, costs, 0.0).sum() + penalty) * constant(self.reward_scale)
        return Transition(reached, jnp.where(over, 0.0, reward), self._is_over(reached))

    @cached_property
    def _cases(self) -> NDArray[np.bool_]:
        """Every way ``[2^load, load]`` in which the courses of an action can go."""
        return np.array(list(itertools.product([False, True], repeat=self.curriculum.load)))

    def outcomes(self, state: Record, action: Array) -> Outcomes:
        """List every way in which the courses can go."""
        cases = jnp.asarray(self._cases)
        odds = self._pass_odds(state, action)
        probability = jnp.where(cases, odds, 1.0 - odds).prod(axis=-1)
        return Outcomes(probability, jax.vmap(lambda passes: self._apply(state, action, passes))(cases))

    def step(self, key: Array, state: Record, action: Array) -> Transition:
        """Take the courses; each is passed or failed independently."""
        uniform = jax.random.uniform(key, (self.curriculum.load,))
        return self._apply(state, action, uniform < self._pass_odds(state, action))

    def encode(self, state: Record) -> Array:
        """Return which courses are passed and which are taken."""
        count = len(self.curriculum.courses)
        flags = jnp.concatenate([as_flags(state.passed, count), as_flags(state.taken, count)])
        return flags.astype(jnp.float32)

    def identity(self, state: Record) -> Array:
        """Return the bits of both sets."""
        return jnp.concatenate([state.passed, state.taken])

    def legal(self, state: Record) -> Array:
        """The sets of which every course is eligible."""
        count = len(self.curriculum.courses)
        passed = as_flags(state.passed, count)
        able = jnp.ones(count, jnp.bool_) if self.eligible == "any" else ~passed
        if self.eligible == "prepared":
            needed = jnp.asarray(self._needed[:count])
            able = able & (needed & state.passed == needed).all(axis=-1)
        legal = jnp.concatenate([able, jnp.array([True])])[jnp.asarray(self._slots)].all(axis=-1)
        if not self.allow_empty:
            # Only where nothing else is left, or there would be no action.
            legal = jnp.concatenate([~legal[1:].any()[None], legal[1:]])
        return legal | self._is_over(state)

    def ending(self, state: Record) -> Array:
        """0 when the program is complete and that ends the episode, -1 otherwise."""
        return jnp.where(self._is_over(state), 0, -1).astype(jnp.int32)

    def state_name(self, state: Record) -> str:
        """Name a record by the courses passed and failed."""
        courses = self.curriculum.courses
        passed = members(state.passed, len(courses))
        failed = [course for course in members(state.taken, len(courses)) if course not in passed]
        parts = [
            f"{word} {'+'.join(courses[c] for c in chosen)}"
            for word, chosen in (("passed", passed), ("failed", failed))
            if chosen
        ]
        return ", ".join(parts) or "new"


def advising(
    instance: int,
    /,
    *,
    semantics: Literal["paper", "rddl"] = "paper",
    horizon: int | None = None,
    reward_scale: float = 1.0,
    load: int | None = None,
    eligible: Eligible | None = None,
    allow_empty: bool = True,
    penalty_judged: Judged | None = None,
    completion: Completion | None = None,
    relevant_only: bool = False,
) -> Advising:
    """Academic Advising, instances 1 to 10 of the planning competition IPPC 2014.

    Parameters
    ----------
    semantics
        ``"paper"`` follows the paper, ``"rddl"`` the competition's file; it sets the defaults of the options
        below, paper first.
    horizon
        40 in both.
    load
        The largest number of courses at a time: 1 in odd instances, 2 in even ones.
    eligible
        Which courses may be taken: ``"unpassed"`` ones; or ``"any"``, where retaking a passed course costs
        and changes nothing.  ``"prepared"`` are the unpassed ones with all prerequisites passed.
    allow_empty
        Whether to enrol in nothing may be chosen: yes in both.
    penalty_judged
        Whether a step pays for an incomplete program as it is ``"after"`` the step, or ``"before"`` it.
    completion
        Whether completing the program ``"ends"`` the episode; or it ``"continues"``, and courses still cost.
    relevant_only
        Leave out the courses that are neither required nor, at any remove, prerequisites of required ones.
        They only cost, so the best return stays the same; the uniform policy does not.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.tabulate(polinfer.make("advising/3", relevant_only=True))
    >>> table.num_states, table.action_names[1]
    (243, 'enrol CS11')
    """
    plan = curriculum(instance)
    if load is not None:
        plan = plan._replace(load=check_at_least("load", load, 1))
    check_flag("relevant_only", relevant_only)
    if relevant_only:
        plan = plan.restrict(plan.relevant())
    options = resolve(
        semantics,
        _DEFAULTS,
        eligible=eligible,
        penalty_judged=penalty_judged,
        completion=completion,
        horizon=horizon,
    )
    options.setdefault("horizon", plan.horizon)
    return Advising(plan, **options, allow_empty=allow_empty, reward_scale=reward_scale)
