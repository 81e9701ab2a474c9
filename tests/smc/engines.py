"""Both engines behind one call each, noise that they can share, and problems made to be awkward.

A compilation takes seconds, a sweep microseconds: whatever can share a compiled function does.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from polinfer.core.noise import (
    SweepNoise,
    WorldNoise,
    as_uniform,
    derive_words,
    draw_noise,
    particle_words,
    query_words,
    seed_words,
    world_words,
)
from polinfer.core.protocol import MDP, EnumerableMDP, Transition
from polinfer.problems.tabular import OutcomeRows, TabularMDP
from polinfer.smc import SweepRandomness, as_simulator, run_reference_sweep
from polinfer.smc.compiled import run_sweep_from_noise
from polinfer.smc.config import SweepConfig
from polinfer.smc.record import Sweep
from polinfer.smc.worlds import run_world_sweep

# Compiles in half the time, to slower code: for tests of the mathematics, not of the compiler.
QUICK = {"xla_backend_optimization_level": "0"}
# As users compile, whatever the set-up of the tests leaves out.
FULL = {"xla_backend_optimization_level": "3", "xla_llvm_disable_expensive_passes": False}


def make_noise(seed: int, sweeps: int, horizon: int, particles: int) -> SweepNoise:
    """Return the randomness ``[sweeps, ...]`` of many sweeps."""
    return _noise(sweeps, horizon, particles)(jnp.uint32(seed))


@cache
def _noise(sweeps: int, horizon: int, particles: int) -> Any:
    def draw(seed: Any) -> SweepNoise:
        words = jax.vmap(lambda number: derive_words(seed_words(seed), number))(jnp.arange(sweeps))
        return jax.vmap(lambda own: draw_noise(own, horizon, particles))(words)

    return jax.jit(draw)


def log_linear(mdp: MDP) -> Any:
    """A proposal that differs between states and actions: log-linear in the features, fixed weights."""
    size = jax.eval_shape(mdp.encode, jax.eval_shape(mdp.init, jax.random.key(0))).shape[0]
    weights = jnp.asarray(np.random.default_rng(11).normal(0, 0.6, (size, mdp.num_actions)), jnp.float32)

    def log_proposal(state: Any) -> Any:
        return jax.nn.log_softmax(jnp.where(mdp.legal(state), mdp.encode(state) @ weights, -jnp.inf))

    return log_proposal


@cache
def _compiled(mdp: MDP, config: SweepConfig, quick: bool) -> Any:
    log_proposal = log_linear(mdp)

    def run(noise: SweepNoise) -> tuple[Sweep, Any]:
        sweep = run_sweep_from_noise(noise, mdp, log_proposal, config)
        return sweep, jax.vmap(jax.vmap(mdp.identity))(sweep.state)

    return jax.jit(jax.vmap(run), compiler_options=QUICK if quick else FULL)


def run_compiled(mdp: MDP, config: SweepConfig, noise: SweepNoise, quick: bool = False) -> Sweep:
    """Sweeps of the compiled engine, ``[U, ...]`` NumPy arrays; states are given by identity."""
    sweep, identity = _compiled(mdp, config, quick)(noise)
    return jax.tree.map(np.asarray, sweep._replace(state=identity))


def sweep_many(mdp: MDP, config: SweepConfig, sweeps: int, seed: int = 0) -> Sweep:
    """Many sweeps of the compiled engine with their own noise."""
    return run_compiled(mdp, config, make_noise(seed, sweeps, mdp.horizon, config.particles), quick=True)


def run_replayed(mdp: MDP, config: SweepConfig, noise: SweepNoise) -> Sweep:
    """One sweep of the reference engine on the randomness of one compiled sweep."""
    simulator, log_proposal, queries = _replayer(mdp)
    return run_reference_sweep(simulator, log_proposal, config, Replay(noise, queries))


@cache
def _replayer(mdp: MDP) -> Any:
    log_proposal = jax.jit(log_linear(mdp))
    return (
        as_simulator(_SteppedByWords(mdp)),
        lambda state: np.asarray(log_proposal(state.state)),
        (jax.jit(query_words), jax.jit(particle_words)),
    )


class _SteppedByWords:
    """An MDP that spends the 64 bits of a key as the compiled engine spends a query's two words.

    Written on its own: listed outcomes are inverted here, not by the engine's function.
    """

    def __init__(self, mdp: MDP) -> None:
        self.mdp = mdp
        self.num_actions, self.horizon = mdp.num_actions, mdp.horizon
        self.encode, self.identity, self.legal = mdp.encode, mdp.identity, mdp.legal

    def init(self, key: Any) -> Any:
        if not isinstance(self.mdp, EnumerableMDP):
            return self.mdp.init(key)
        return _invert(key, *self.mdp.starts())

    def step(self, key: Any, state: Any, action: Any) -> Transition:
        if not isinstance(self.mdp, EnumerableMDP):
            return self.mdp.step(key, state, action)
        return _invert(key, *self.mdp.outcomes(state, action))


def _invert(key: Any, probability: Any, listed: Any) -> Any:
    edges = jnp.cumsum(probability)
    slot = jnp.searchsorted(edges[:-1], as_uniform(jax.random.key_data(key)) * edges[-1], side="right")
    return jax.tree.map(lambda leaf: leaf[slot], listed)


class Replay(SweepRandomness):
    """The randomness of a compiled sweep; each query's seed is asked for once."""

    def __init__(self, noise: SweepNoise, queries: Any) -> None:
        self.noise = noise
        self.query_words, self.particle_words = queries
        self.uniforms = [np.asarray(x, np.float64) for x in (noise.action, noise.refresh, noise.resample)]
        self.asked: set[tuple[Any, ...]] = set()

    def start(self) -> int:
        return _as_seed(self.noise.start)

    def action(self, t: int, i: int) -> float:
        return float(self.uniforms[0][t, i])

    def refresh(self, t: int, i: int) -> float:
        return float(self.uniforms[1][t, i])

    def resample(self, t: int, count: int) -> Any:
        return self.uniforms[2][t, :count]

    def query(self, s: Any, a: int, k: int) -> int:
        assert (s, a, k) not in self.asked, "the world's answer must come from the cache"
        self.asked.add((s, a, k))
        # The compiled engine counts the earlier visits, the paper this one too.
        return _as_seed(self.query_words(self.noise.words, np.int32(s), np.int32(a), np.int32(k - 1)))

    def move(self, t: int, i: int) -> int:
        return _as_seed(self.particle_words(self.noise.words, np.int32(i), np.int32(t)))


def _as_seed(words: Any) -> int:
    high, low = np.asarray(words).tolist()
    return high << 32 | low


class Rung(NamedTuple):
    height: Any  # [] int32
    lit: Any  # [] bool


class Ladder:
    """A simulator that cannot list its outcomes, with two identity words and legal actions by state.

    Climb (not lit), flick the lamp, or leap (lit only).  The top ends the episode.
    """

    num_actions = 3
    horizon = 8
    top = 3

    def init(self, key: Any) -> Rung:
        return Rung((self._luck(key) < 0.3).astype(jnp.int32), jnp.asarray(False))

    def step(self, key: Any, state: Rung, action: Any) -> Transition:
        luck = self._luck(key)
        height, lit = state
        climbed = jnp.where(luck < 0.7, height + 1, height)
        leapt = jnp.where(luck < 0.4, self.top, 0)
        flicked = lit ^ (luck < 0.6)
        over = height >= self.top
        after = Rung(
            jnp.where(over, height, jnp.stack([climbed, height, leapt])[action]).astype(jnp.int32),
            jnp.where(over, lit, jnp.stack([lit, flicked, lit])[action]),
        )
        pay = jnp.stack([jnp.where(luck < 0.7, 0.8, -0.3), -0.2 * luck, jnp.where(luck < 0.4, 1.7, -1.1)])
        return Transition(after, jnp.where(over, 0.0, pay[action]), after.height >= self.top)

    def _luck(self, key: Any) -> Any:
        # The key's own bits: jax.random.uniform takes as long to compile as all the rest of a sweep.
        return as_uniform(jax.random.key_data(key)[::-1])

    def encode(self, state: Rung) -> Any:
        lit = state.lit.astype(jnp.float32)
        return jnp.concatenate([jax.nn.one_hot(state.height, self.top + 1), lit[None]]).astype(jnp.float32)

    def identity(self, state: Rung) -> Any:
        return jnp.stack([state.height, state.lit.astype(jnp.int32)])

    def legal(self, state: Rung) -> Any:
        return jnp.stack([~state.lit, jnp.asarray(True), state.lit])


LADDER = Ladder()

Row = tuple[int, int, float, int, float]  # state, action, probability, successor, reward

# States 0-2 move for certain, states 3-5 by chance, 6 is the end; the start is 0 or 3.  Some actions are
# illegal, every state can be visited again, episodes end at any step, and no reward mirrors another.
_ATLAS: list[Row] = [
    (0, 0, 1.0, 1, 0.6),
    (0, 1, 1.0, 2, -1.4),
    (0, 2, 1.0, 6, 0.9),
    (1, 0, 1.0, 0, -0.7),
    (1, 1, 1.0, 6, 1.1),
    (2, 0, 1.0, 2, 0.5),
    (2, 1, 1.0, 1, 0.2),
    (2, 2, 1.0, 0, -1.2),
    (3, 0, 0.6, 4, 0.8),
    (3, 0, 0.4, 3, -0.5),
    (3, 1, 0.3, 5, 0.9),
    (3, 1, 0.7, 6, -0.6),
    (3, 2, 1.0, 3, 0.1),
    (4, 1, 0.5, 3, -0.9),
    (4, 1, 0.5, 6, 0.7),
    (4, 2, 1.0, 5, 0.3),
    (5, 0, 0.25, 4, 0.7),
    (5, 0, 0.75, 5, -0.2),
    (5, 1, 1.0, 6, 0.4),
    (5, 2, 0.5, 3, -0.8),
    (5, 2, 0.5, 3, 0.4),
]
CERTAIN, CHANCY = 0, 3


@cache
def atlas(start: int | None = None) -> TabularMDP:
    """Two problems in one table, so that one compilation serves both; `start` picks one of them."""
    starts = [CERTAIN, CHANCY] if start is None else [start]
    return table(_ATLAS, num_states=7, num_actions=3, starts=starts, horizon=5)


def table(rows: list[Row], num_states: int, num_actions: int, starts: list[int], horizon: int) -> TabularMDP:
    """A table whose states without a row are its ends."""
    state, action, probability, successor, reward = (np.array(column) for column in zip(*rows, strict=True))
    legal = np.zeros((num_states, num_actions), bool)
    legal[state, action] = True
    initial = np.zeros(num_states)
    initial[starts] = 1 / len(starts)
    return TabularMDP.from_outcomes(
        OutcomeRows(state, action, successor, probability, reward),
        num_states,
        num_actions,
        initial,
        ~legal.any(axis=1),
        horizon,
        legal=legal,
    )


class PlainTable:
    """A table as a simulator in plain Python, which compiles nothing; states are row numbers."""

    def __init__(self, source: TabularMDP) -> None:
        self.num_actions, self.horizon = source.num_actions, source.horizon
        self._starts = np.cumsum(source.initial).tolist()
        self._edges = np.cumsum(source.probability, axis=-1).tolist()
        self._outcomes = (source.successor.tolist(), source.reward.tolist())
        self._absorbing, self._legal = source.absorbing.tolist(), source.legal_actions.tolist()

    def init(self, seed: int) -> int:
        return bisect.bisect_right(self._starts, seed / 2**64)

    def step(self, seed: int, state: int, action: int) -> tuple[int, float, bool]:
        slot = bisect.bisect_right(self._edges[state][action], seed / 2**64)
        after, reward = (listed[state][action][slot] for listed in self._outcomes)
        return after, reward, self._absorbing[after]

    def legal(self, state: int) -> list[bool]:
        return self._legal[state]

    def encode(self, state: int) -> list[float]:
        return np.eye(len(self._legal))[state].tolist()


def proposal_rows(mdp: TabularMDP) -> np.ndarray:
    """``log q`` of all states of a table, ``[S, A]``, as `log_linear` has it."""
    return np.asarray(jax.vmap(log_linear(mdp))(jnp.arange(mdp.num_states)), np.float64)


def sweep_plainly(mdp: TabularMDP, config: SweepConfig, sweeps: int, seed: int = 0) -> Iterator[Sweep]:
    """Sweeps of the reference engine, one after the other from one stream of randomness."""
    simulator, log_q, randomness = PlainTable(mdp), proposal_rows(mdp), SweepRandomness(seed)
    for _ in range(sweeps):
        yield run_reference_sweep(simulator, log_q.__getitem__, config, randomness)


def pick(sweeps: Sweep, index: int) -> Sweep:
    """One sweep of a batch."""
    return Sweep(*(field[index] for field in sweeps))


class Visit(NamedTuple):
    state: Any
    action: int
    drawn: bool
    reward: float
    particle: int


def lineages(sweep: Sweep) -> Iterator[list[Visit]]:
    """The history of every particle of the last step, first step first; steps after the end are left out."""
    horizon, count = sweep.action.shape
    for last in range(count):
        visits, i = [], last
        for t in reversed(range(horizon)):
            if t < horizon - 1:
                i = int(sweep.ancestor[t, i])
            if sweep.active[t, i]:
                state = sweep.state[t, i]
                name = tuple(int(x) for x in np.atleast_1d(state))
                visit = Visit(
                    name, int(sweep.action[t, i]), bool(sweep.drawn[t, i]), float(sweep.reward[t, i]), i
                )
                visits.append(visit)
        yield visits[::-1]


def make_world_noise(seed: int, sweeps: int, mdp: MDP, config: SweepConfig) -> WorldNoise:
    """Return the randomness ``[sweeps, ...]`` of many sweeps through worlds; NumPy compiles nothing."""
    random = np.random.default_rng(seed)
    steps, count = mdp.horizon, config.particles

    def uniforms(*shape: int) -> np.ndarray:
        return (random.integers(0, 2**24, (sweeps, *shape)) * 2.0**-24).astype(np.float32)

    words, start = random.integers(0, 2**32, (2, sweeps, 2), np.uint32)
    visits = (steps, count, config.worlds)
    return WorldNoise(words, start, uniforms(*visits), uniforms(*visits), uniforms(steps, count))


@cache
def _compiled_worlds(mdp: MDP, config: SweepConfig, quick: bool) -> Any:
    log_proposal = log_linear(mdp)

    def run(noise: WorldNoise) -> tuple[Sweep, Any]:
        sweep = run_world_sweep(noise, mdp, log_proposal, config)
        return sweep, jax.vmap(jax.vmap(jax.vmap(mdp.identity)))(sweep.state)

    return jax.jit(jax.vmap(run), compiler_options=QUICK if quick else FULL)


def run_compiled_worlds(mdp: MDP, config: SweepConfig, noise: WorldNoise, quick: bool = True) -> Sweep:
    """Sweeps of the compiled engine through several worlds, ``[U, T, N, M]``; states by identity."""
    sweep, identity = _compiled_worlds(mdp, config, quick)(noise)
    return jax.tree.map(np.asarray, sweep._replace(state=identity))


def sweep_many_worlds(mdp: MDP, config: SweepConfig, sweeps: int, seed: int = 0) -> Sweep:
    """Many sweeps of the compiled engine through several worlds, with their own noise."""
    return run_compiled_worlds(mdp, config, make_world_noise(seed, sweeps, mdp, config))


def run_replayed_worlds(mdp: MDP, config: SweepConfig, noise: WorldNoise) -> Sweep:
    """One sweep of the reference engine on the randomness of one compiled sweep through several worlds."""
    simulator, log_proposal, queries = _replayer(mdp)
    return run_reference_sweep(simulator, log_proposal, config, WorldReplay(noise, queries, config))


_world_words, _derive_words = jax.jit(world_words), jax.jit(derive_words)


class WorldReplay(Replay):
    """The randomness of a compiled sweep through several worlds; the only world is not named."""

    def __init__(self, noise: WorldNoise, queries: Any, config: SweepConfig) -> None:
        super().__init__(noise, queries)
        self.worlds = config.worlds
        self.world_words = [_world_words(noise.words, np.int32(m)) for m in range(config.worlds)]

    def start(self, *whose: int) -> int:
        if not whose:
            return _as_seed(self.noise.start)
        m, i = (*whose, 0)[:2]
        return _as_seed(_derive_words(self.noise.start, np.int32(i * self.worlds + m)))

    def action(self, t: int, i: int, m: int = 0) -> float:
        return float(self.uniforms[0][t, i, m])

    def refresh(self, t: int, i: int, m: int = 0) -> float:
        return float(self.uniforms[1][t, i, m])

    def query(self, s: Any, a: int, k: int, m: int = 0) -> int:
        assert (s, a, k, m) not in self.asked, "the world's answer must come from the cache"
        self.asked.add((s, a, k, m))
        return _as_seed(self.query_words(self.world_words[m], np.int32(s), np.int32(a), np.int32(k - 1)))

    def move(self, t: int, i: int, m: int = 0) -> int:
        return _as_seed(self.particle_words(self.world_words[m], np.int32(i), np.int32(t)))


class WorldVisit(NamedTuple):
    step: int
    world: int
    state: Any
    action: int
    drawn: bool
    reward: float
    particle: int


def world_lineages(sweep: Sweep) -> Iterator[list[WorldVisit]]:
    """The visits of every particle of the last step in the order in which they were made."""
    horizon, count, worlds = sweep.action.shape
    for last in range(count):
        path, i = [last], last
        for t in reversed(range(horizon - 1)):
            i = int(sweep.ancestor[t, i])
            path.append(i)
        yield [
            WorldVisit(
                t,
                m,
                tuple(int(x) for x in np.atleast_1d(sweep.state[t, i, m])),
                int(sweep.action[t, i, m]),
                bool(sweep.drawn[t, i, m]),
                float(sweep.reward[t, i, m]),
                i,
            )
            for t, i in enumerate(reversed(path))
            for m in range(worlds)
            if sweep.active[t, i, m]
        ]
