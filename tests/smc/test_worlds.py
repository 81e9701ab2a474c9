"""Sweeps through several worlds: both engines agree, worlds are shared, and the target is exp of the mean."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from exact.brute_force import Plain
from exact.brute_force import posterior as brute_force_posterior
from polinfer import exact
from polinfer.core.noise import WorldNoise, draw_noise, draw_world_noise, seed_words
from polinfer.smc import SweepConfig, SweepRandomness, run_reference_sweep, run_sweep
from polinfer.smc.compiled import run_sweep_from_noise
from polinfer.smc.record import Sweep
from polinfer.smc.reference import surrogate
from polinfer.smc.worlds import run_world_sweep

from .engines import (
    LADDER,
    QUICK,
    PlainTable,
    atlas,
    log_linear,
    make_world_noise,
    pick,
    proposal_rows,
    run_compiled_worlds,
    run_replayed_worlds,
    sweep_many_worlds,
    table,
    world_lineages,
)

# A minute of statistics; `pytest -m slow` runs it.
pytestmark = pytest.mark.slow

SWEEPS = 4
VISITS = ("state", "action", "drawn", "active", "log_prior", "log_proposal", "reward", "ended")


def make(problem: str) -> polinfer.MDP:
    if problem == "ladder":
        return LADDER
    return atlas() if problem == "atlas" else polinfer.make(problem, horizon=6)


def assert_replayed(mdp: polinfer.MDP, config: SweepConfig, seed: int = 0, quick: bool = True) -> Sweep:
    noise = make_world_noise(seed, SWEEPS, mdp, config)
    compiled = run_compiled_worlds(mdp, config, noise, quick)
    for u in range(SWEEPS):
        one = pick(compiled, u)
        reference = run_replayed_worlds(mdp, config, jax.tree.map(lambda leaf, u=u: leaf[u], noise))
        if config.worlds == 1 and config.start != "independent":
            assert reference.action.shape == (mdp.horizon, config.particles)
            assert reference.ended.shape == (config.particles,)
            reference = reference._replace(**{name: getattr(reference, name)[..., None] for name in VISITS})
        np.testing.assert_array_equal(one.state, np.array(reference.state.tolist()), err_msg="state")
        for name in ("action", "drawn", "active", "resampled", "ancestor", "ended"):
            expected = getattr(reference, name)
            # Where an episode is over, nobody acts: the action there means nothing.
            found = np.where(one.active, one.action, 0) if name == "action" else getattr(one, name)
            np.testing.assert_array_equal(found, expected, err_msg=name)
            assert found.dtype == expected.dtype, name
        for name in ("log_prior", "log_proposal", "reward", "log_weight", "ess", "log_mean", "log_evidence"):
            np.testing.assert_allclose(
                getattr(one, name), getattr(reference, name), rtol=1e-5, atol=1e-5, err_msg=name
            )
    return compiled


# Every option with a table (whose memo is an array) and with a problem that is none (a compared history).
REPLAYED = [
    ("atlas", SweepConfig(worlds=1)),
    ("atlas", SweepConfig(worlds=2, start="independent", resample_below=0, coupled=False)),
    ("atlas", SweepConfig(worlds=5, start="averaged", memo_refresh=0.3, resampling="multinomial")),
    ("atlas", SweepConfig(worlds=2, deterministic=False, resampling="stratified", resample_below=1)),
    ("ladder", SweepConfig(worlds=1, start="independent", resample_below=0)),
    ("ladder", SweepConfig(worlds=2, start="averaged", resampling="stratified", coupled=False)),
    ("ladder", SweepConfig(worlds=5, memo_refresh=0.3, resample_below=1, resampling="multinomial")),
    ("gridworld/ablation", SweepConfig(worlds=5)),
]
OPTIMISED = (7,)  # compiled as users compile


def name_of(config: Any) -> str:
    if not isinstance(config, SweepConfig):
        return str(config)
    default = SweepConfig()
    return ",".join(f"{k}={v}" for k, v in vars(config).items() if v != getattr(default, k))


@pytest.mark.parametrize(("problem", "config"), REPLAYED, ids=name_of)
def test_engines_agree_with_every_option(problem: str, config: SweepConfig) -> None:
    mdp, number = make(problem), REPLAYED.index((problem, config))
    sweeps = assert_replayed(mdp, config, seed=number, quick=number not in OPTIMISED)
    # The option must have had its effect, or agreeing on it says nothing.
    assert (sweeps.active & ~sweeps.drawn).any() == config.deterministic
    assert sweeps.resampled.any() == (config.resample_below > 0)
    assert sweeps.ended.any()
    starts = sweeps.state[:, 0].reshape(SWEEPS, config.particles, config.worlds, -1)
    if problem != "gridworld/ablation":
        among_worlds = (starts != starts[:, :, :1]).any()
        among_particles = (starts != starts[:, :1]).any()
        assert among_worlds == (config.start != "shared" and config.worlds > 1)
        assert among_particles == (config.start == "independent")


def test_one_world_is_the_engine_with_one_world() -> None:
    mdp, words = LADDER, seed_words(jnp.uint32(5))
    config = SweepConfig(particles=4, memo_refresh=0.3, resample_below=1)
    log_proposal = log_linear(mdp)

    def both(words: Any) -> tuple[Sweep, Sweep, Sweep]:
        noise = draw_noise(words, mdp.horizon, 4)
        alone = WorldNoise(
            noise.words, noise.start, noise.action[..., None], noise.refresh[..., None], noise.resample
        )
        return (
            run_sweep_from_noise(noise, mdp, log_proposal, config),
            run_world_sweep(alone, mdp, log_proposal, config),
            run_sweep(words, mdp, log_proposal, replace(config, start="averaged")),
        )

    one, through_worlds, averaged = jax.jit(both, compiler_options=QUICK)(words)
    jax.tree.map(np.testing.assert_array_equal, one, averaged)
    squeezed = through_worlds._replace(
        **{name: jax.tree.map(lambda leaf: leaf[..., 0], getattr(through_worlds, name)) for name in VISITS}
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6), one, squeezed)
    assert one.resampled.any()


def test_a_sweep_from_words_goes_through_the_worlds_of_their_noise() -> None:
    mdp, words = atlas(), seed_words(jnp.uint32(8))
    config = SweepConfig(particles=6, worlds=3, start="averaged")
    log_proposal = log_linear(mdp)

    def both(words: Any) -> tuple[Sweep, WorldNoise]:
        return run_sweep(words, mdp, log_proposal, config), draw_world_noise(words, mdp.horizon, 6, 3)

    sweep, noise = jax.jit(both, compiler_options=QUICK)(words)
    replayed = run_replayed_worlds(mdp, config, noise)
    np.testing.assert_array_equal(np.asarray(sweep.state), np.array(replayed.state.tolist())[..., 0])
    np.testing.assert_allclose(sweep.log_evidence, replayed.log_evidence, atol=1e-5)
    # Each number is for one use: no two are the same, and they spread over the unit interval.
    for uniform in (noise.action, noise.refresh):
        assert len(np.unique(uniform)) == uniform.size
        assert abs(uniform.mean() - 0.5) < 5 / math.sqrt(12 * uniform.size)


def test_the_surrogate_of_a_record_with_worlds_counts_every_draw() -> None:
    config = SweepConfig(particles=3, worlds=2)
    sweep = run_reference_sweep(
        PlainTable(atlas()), proposal_rows(atlas()).__getitem__, config, SweepRandomness(1)
    )
    to_go = sweep.log_mean[::-1].cumsum()[::-1]
    by_hand = sweep.log_evidence + (to_go[:, None, None] * sweep.log_proposal).sum()
    assert surrogate(sweep) == pytest.approx(by_hand, abs=1e-9)


# In A (0), action 0 pays 3 and action 1 costs 3; both lead to B (1), whose actions lead to C (2), and C to A.
ROUND_TRIP = table(
    [
        (0, 0, 1.0, 1, 3.0),
        (0, 1, 1.0, 1, -3.0),
        (1, 0, 1.0, 2, 0.1),
        (1, 1, 1.0, 2, 0.1),
        (2, 0, 1.0, 0, 0.0),
    ],
    num_states=3,
    num_actions=2,
    starts=[0],
    horizon=5,
)


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_children_diverge_and_worlds_of_a_particle_do_not(engine: str) -> None:
    """Both particles of step 2 continue the lucky one of step 1; in B the first world of each decides."""
    config, low, high = SweepConfig(particles=2, worlds=2, resample_below=1), 0.01, 0.99
    for parent in (0, 1):
        first = [[low, high], [high, low]] if parent == 0 else [[high, low], [low, high]]
        actions = [first, [[low, high], [high, low]], *[[[low, low], [low, low]]] * 3]
        noise = make_world_noise(0, 1, ROUND_TRIP, config)._replace(
            action=np.float32([actions]), resample=np.full((1, 5, 2), 0.5, np.float32)
        )
        if engine == "compiled":
            sweep = pick(run_compiled_worlds(ROUND_TRIP, config, noise), 0)
        else:
            sweep = run_replayed_worlds(ROUND_TRIP, config, jax.tree.map(lambda leaf: leaf[0], noise))
        assert sweep.ancestor.tolist() == [[parent, parent], *[[0, 1]] * 4]
        # The first world draws, the second is told in the same step.
        assert sweep.drawn.tolist() == [*[[[True, False]] * 2] * 3, *[[[False, False]] * 2] * 2]
        for world in (0, 1):
            assert sweep.action[:, 0, world].tolist() == [parent, 0, 0, 0, 0]
            assert sweep.action[:, 1, world].tolist() == [1 - parent, 1, 0, 0, 1]
        assert sweep.reward[3].tolist() == [[3.0, 3.0]] * 2
        # The mean of the rewards, not their sum.
        start = sweep.log_weight[0] - (sweep.log_prior - sweep.log_proposal)[0].sum(axis=-1)
        np.testing.assert_allclose(start, [3.0, -3.0] if parent == 0 else [-3.0, 3.0], rtol=1e-5)


def check_memo(sweep: Sweep) -> int:
    """Assert that every line of descent draws once per state, in whichever world, and then repeats itself."""
    repeats = 0
    for history in world_lineages(sweep):
        memo: dict[Any, int] = {}
        for visit in history:
            assert visit.drawn == (visit.state not in memo)
            assert memo.setdefault(visit.state, visit.action) == visit.action
            repeats += not visit.drawn
    return repeats


def answers_of(sweep: Sweep) -> dict[Any, dict[int, set[Any]]]:
    """What each query (s, a, k) was answered in each world, over all lines of descent."""
    answers: dict[Any, dict[int, set[Any]]] = defaultdict(lambda: defaultdict(set))
    for history in world_lineages(sweep):
        for m in range(sweep.action.shape[2]):
            count: dict[Any, int] = defaultdict(int)
            for visit in (visit for visit in history if visit.world == m):
                query = (visit.state, visit.action)
                count[query] += 1
                answers[(*query, count[query])][m].add(visit.reward)
    return answers


def sweeps_of(engine: str, config: SweepConfig) -> list[Sweep]:
    if engine == "reference":
        simulator, rows, randomness = PlainTable(atlas()), proposal_rows(atlas()), SweepRandomness(3)
        return [run_reference_sweep(simulator, rows.__getitem__, config, randomness) for _ in range(60)]
    sweeps = sweep_many_worlds(atlas(), config, 60, seed=2)
    return [pick(sweeps, u) for u in range(60)]


@pytest.mark.parametrize("engine", ["compiled", "reference"])
@pytest.mark.parametrize("coupled", [True, False])
def test_particles_share_each_world_and_worlds_differ(engine: str, coupled: bool) -> None:
    sweeps = sweeps_of(engine, SweepConfig(particles=8, worlds=3, resample_below=0.7, coupled=coupled))
    assert sum(check_memo(sweep) for sweep in sweeps) > 1_000
    assert sum(len(set(sweep.ancestor[0].tolist())) < 8 for sweep in sweeps) > 10
    answers = [by_world for sweep in sweeps for by_world in answers_of(sweep).values()]
    within = [len(rewards) for by_world in answers for rewards in by_world.values()]
    assert (max(within) == 1) == coupled
    # The same query has other answers in other worlds.
    assert sum(len(set.union(*by_world.values())) > 1 for by_world in answers) > 60


def test_equal_policies_earn_the_same_in_every_world() -> None:
    sweeps = sweeps_of("compiled", SweepConfig(particles=8, worlds=3, resample_below=0.7))
    pairs = differing = 0
    for sweep in sweeps:
        found = []
        for history in world_lineages(sweep):
            policy = {visit.state: visit.action for visit in history}
            earned = [[visit.reward for visit in history if visit.world == m] for m in range(3)]
            found.append((policy, earned))
        for (policy, earned), (other, also) in itertools.combinations(found, 2):
            if policy == other:
                assert earned == also
                pairs += 1
        differing += any(earned[0] != earned[1] for _, earned in found)
    assert pairs > 100
    assert differing > 10


# One state, one action, for ever: the reward of step t is that of the t-th visit.
DICE = table([(0, 0, 0.3, 0, 1.0), (0, 0, 0.7, 0, -0.5)], num_states=1, num_actions=1, starts=[0], horizon=3)


def test_worlds_and_visits_are_independent() -> None:
    count = 4_096
    config = SweepConfig(particles=2, worlds=3, resample_below=0)
    lucky = sweep_many_worlds(DICE, config, count).reward > 0  # [U, T, N, M]
    assert (lucky == lucky[:, :, :1]).all()
    columns = lucky[:, :, 0].reshape(count, -1).astype(np.float64)
    assert (abs(columns.mean(axis=0) - 0.3) < 5 * np.sqrt(0.3 * 0.7 / count)).all()
    correlation = np.corrcoef(columns.T)[np.triu_indices(columns.shape[1], 1)]
    assert (abs(correlation) < 5 / np.sqrt(count)).all()


# Chance in every state but the end (3); some actions are illegal and no reward mirrors another.
_TINY: dict[tuple[int, int], list[tuple[float, int, float]]] = {
    (0, 0): [(0.5, 1, 0.2), (0.5, 0, -0.3)],
    (0, 1): [(0.25, 1, 3.0), (0.75, 2, -0.5)],
    (1, 0): [(1.0, 3, 0.3)],
    (1, 1): [(0.4, 3, 2.5), (0.6, 0, -1.0)],
    (2, 0): [(1.0, 3, -0.2)],
    (2, 1): [(0.5, 3, 1.6), (0.5, 2, -0.6)],
    (2, 2): [(1.0, 3, 0.45)],
}
TINY = Plain(_TINY, 4, 3, frozenset({3}), [1.0, 0.0, 0.0, 0.0], 3)


class Worlds(NamedTuple):
    """Every world of `TINY`, with what every policy earns there."""

    chance: np.ndarray  # [W]
    returns: np.ndarray  # [W, P]
    policies: np.ndarray  # [P, S]


@cache
def every_world() -> Worlds:
    queries = [(s, a, k) for (s, a), row in _TINY.items() if len(row) > 1 for k in range(TINY.horizon)]
    policies = [
        dict(zip((0, 1, 2), actions, strict=True))
        for actions in itertools.product(*(TINY.legal(s) for s in range(3)))
    ]
    chances, returns = [], []
    for slots in itertools.product((0, 1), repeat=len(queries)):
        world = dict(zip(queries, slots, strict=True))
        chances.append(math.prod(_TINY[s, a][b][0] for (s, a, _), b in world.items()))
        returns.append([_return_in(world, policy) for policy in policies])
    rows = np.array([[*policy.values(), 0] for policy in policies])
    return Worlds(np.array(chances), np.array(returns), rows)


def _return_in(world: dict[Any, int], policy: dict[int, int]) -> float:
    s, gained, visits = 0, 0.0, [0] * 4
    for _ in range(TINY.horizon):
        if s in TINY.absorbing:
            break
        a, k = policy[s], visits[s]
        visits[s] += 1
        _, s, r = _TINY[s, a][world.get((s, a, k), 0)]
        gained += r
    return gained


def log_mean_exp(values: np.ndarray) -> np.ndarray:
    top = values.max(axis=-1, keepdims=True)
    return np.log(np.exp(values - top).mean(axis=-1)) + top[..., 0]


def finite_world_target(worlds: int) -> tuple[float, np.ndarray]:
    """``E log Z`` and ``E softmax`` of the mean return in so many worlds: what many particles tend to."""
    chance, returns, policies = every_world()
    if worlds == 1:
        means, weight = returns, chance
    else:
        picked = np.random.default_rng(0).choice(len(chance), (20_000, worlds), p=chance)
        means, weight = returns[picked].mean(axis=1), np.full(20_000, 1 / 20_000)
    share = np.exp(means - means.max(axis=1, keepdims=True))
    share = weight @ (share / share.sum(axis=1, keepdims=True))
    marginal = np.array([[share[policies[:, s] == a].sum() for a in range(3)] for s in range(3)])
    return float(weight @ log_mean_exp(means)), marginal


def test_the_oracles_agree() -> None:
    chance, returns, _ = every_world()
    assert chance.sum() == pytest.approx(1)
    target = brute_force_posterior(TINY, TINY.horizon)
    assert float(log_mean_exp(chance @ returns)) == pytest.approx(target.log_evidence, abs=1e-9)
    solved = exact.policy_posterior(TINY.table())
    assert solved.posterior.log_evidence == pytest.approx(target.log_evidence, abs=1e-9)
    one_log_evidence, one_marginal = finite_world_target(1)
    np.testing.assert_allclose(one_marginal, exact.world_averaged_policy(TINY.table())[:3], atol=1e-9)
    # The targets must be far apart for a test to tell them.
    assert one_log_evidence - target.log_evidence > 0.1
    assert abs(one_marginal - solved.policy[:3]).max() > 0.05
    many_log_evidence, many_marginal = finite_world_target(32)
    assert 0 < many_log_evidence - target.log_evidence < 0.03
    assert abs(many_marginal - solved.policy[:3]).max() < 0.01


@pytest.mark.parametrize(
    "config",
    [
        SweepConfig(particles=3, worlds=2),
        SweepConfig(particles=3, worlds=3, resample_below=1, resampling="multinomial"),
        SweepConfig(particles=3, worlds=2, resample_below=1, coupled=False),
    ],
    ids=name_of,
)
def test_mean_evidence_is_exact_for_any_number_of_particles(config: SweepConfig) -> None:
    """Given the worlds a sweep is SMC in a deterministic problem; for one policy, worlds are independent."""
    chance, returns, _ = every_world()
    truth = float(((chance @ np.exp(returns / config.worlds)) ** config.worlds).mean())
    problem = TINY.table()
    simulator, rows, randomness = PlainTable(problem), proposal_rows(problem), SweepRandomness(7)
    here = np.exp(
        [
            run_reference_sweep(simulator, rows.__getitem__, config, randomness).log_evidence
            for _ in range(3_000)
        ]
    )
    stderr = here.std(ddof=1) / math.sqrt(len(here))
    assert stderr < 0.05 * truth, "a sum instead of a mean of rewards would go unseen"
    assert abs(here.mean() - truth) < 5 * stderr


def marginals(sweep: Sweep, legal: np.ndarray) -> np.ndarray:
    """The action probabilities ``[S, A]`` of weighted particles; uniform where a particle has no memo."""
    states, count = sweep.state[..., 0], sweep.log_weight.shape[1]
    memo, path = np.full((count, len(legal)), -1), np.arange(count)
    own = np.arange(count)[:, None]
    for t in reversed(range(len(states))):
        if t < len(states) - 1:
            path = sweep.ancestor[t][path]
        active = sweep.active[t][path]
        memo[own, np.where(active, states[t][path], -1)] = sweep.action[t][path]
    weight = np.exp(sweep.log_weight[-1] - sweep.log_weight[-1].max())
    held = memo[:, :, None] == np.arange(legal.shape[1])
    even = legal / legal.sum(axis=1, keepdims=True)
    return np.einsum("i,isa->sa", weight / weight.sum(), np.where(memo[:, :, None] < 0, even, held))


@pytest.mark.parametrize(("worlds", "sweeps"), [(1, 500), (32, 100)])
def test_many_particles_tend_to_the_target_of_so_many_worlds(worlds: int, sweeps: int) -> None:
    problem, config = TINY.table(), SweepConfig(particles=200, worlds=worlds, resample_below=0.8)
    found = sweep_many_worlds(problem, config, sweeps, seed=5)
    assert found.resampled.any()
    log_evidence, policy = finite_world_target(worlds)
    solved = exact.policy_posterior(problem)
    own = found.log_evidence.astype(np.float64)
    stderr = own.std(ddof=1) / math.sqrt(sweeps)
    # With N particles log Z-hat falls short by about half the relative variance of a weight over N.
    assert abs(own.mean() - log_evidence) < 5 * stderr + 2 / config.particles
    shares = np.array([marginals(pick(found, u), problem.legal_actions)[:3] for u in range(sweeps)])
    errors = shares.std(axis=0, ddof=1) / math.sqrt(sweeps)
    assert (abs(shares.mean(axis=0) - policy) < 5 * errors + 1 / config.particles).all()
    if worlds > 1:
        assert abs(own.mean() - solved.posterior.log_evidence) < 0.06
        assert abs(shares.mean(axis=0) - solved.policy[:3]).max() < 0.03
        assert abs(np.exp(proposal_rows(problem))[:3] - solved.policy[:3]).max() > 0.1
    else:
        assert own.mean() - solved.posterior.log_evidence > 0.07, "one world has another target"


# Two starts that meet in state 2; nothing else is random, so that what starts do can be told exactly.
_MEETING: dict[tuple[int, int], list[tuple[float, int, float]]] = {
    (0, 0): [(1.0, 2, 1.2)],
    (0, 1): [(1.0, 3, -0.5)],
    (1, 0): [(1.0, 2, -0.7)],
    (1, 1): [(1.0, 3, 0.4)],
    (2, 0): [(1.0, 3, 2.5)],
    (2, 1): [(1.0, 3, -0.8)],
}
MEETING = Plain(_MEETING, 4, 2, frozenset({3}), [0.3, 0.7, 0.0, 0.0], 2)


def from_start(*initial: float) -> tuple[float, np.ndarray]:
    """log Z and the marginals of `MEETING` from other starts, by brute force."""
    answer = brute_force_posterior(MEETING._replace(initial=[*initial, 0.0, 0.0]), MEETING.horizon)
    marginal = np.array([[answer.marginal[s, a] for a in (0, 1)] for s in range(3)])
    return answer.log_evidence, marginal


def test_a_shared_start_conditions_and_an_averaged_one_does_not() -> None:
    problem = MEETING.table()
    legal = problem.legal_actions
    shared = sweep_many_worlds(problem, SweepConfig(particles=200, worlds=2, start="shared"), 60, seed=1)
    first = shared.state[:, 0, 0, 0, 0]
    for start, initial in ((0, (1.0, 0.0)), (1, (0.0, 1.0))):
        log_evidence, policy = from_start(*initial)
        here = np.nonzero(first == start)[0]
        assert len(here) > 8
        assert abs(shared.log_evidence[here].mean() - log_evidence) < 0.03
        found = np.mean([marginals(pick(shared, u), legal)[:3] for u in here], axis=0)
        assert abs(found - policy).max() < 0.02

    # Averaged: the mean over the starts of 32 worlds, of which a binomial number are the first.
    worlds = 32
    averaged = sweep_many_worlds(
        problem, SweepConfig(particles=200, worlds=worlds, start="averaged"), 60, seed=1
    )
    counts = np.arange(worlds + 1)
    chance = [math.comb(worlds, c) * 0.3**c * 0.7 ** (worlds - c) for c in counts]
    answers = [from_start(c / worlds, 1 - c / worlds) for c in counts]
    log_evidence = sum(p * answer[0] for p, answer in zip(chance, answers, strict=True))
    policy = sum(p * answer[1] for p, answer in zip(chance, answers, strict=True))
    found = np.mean([marginals(pick(averaged, u), legal)[:3] for u in range(60)], axis=0)
    stderr = averaged.log_evidence.std(ddof=1) / math.sqrt(60)
    assert abs(averaged.log_evidence.mean() - log_evidence) < 5 * stderr + 0.01
    assert abs(found - policy).max() < 0.02
    assert abs(found - from_start(0.3, 0.7)[1]).max() < 0.03
    for initial in ((1.0, 0.0), (0.0, 1.0)):
        assert abs(found - from_start(*initial)[1]).max() > 0.1, "the answers must be told apart"


def test_independent_starts_reward_the_lucky() -> None:
    """Starts are drawn with the particles: ``log Z`` is that of pairs of start and policy, in every sweep."""
    rows, config = proposal_rows(MEETING.table()), SweepConfig(particles=400, start="independent")
    randomness = SweepRandomness(2)
    found = [
        run_reference_sweep(PlainTable(MEETING.table()), rows.__getitem__, config, randomness)
        for _ in range(20)
    ]
    pairs = math.log(0.3 * math.exp(from_start(1.0, 0.0)[0]) + 0.7 * math.exp(from_start(0.0, 1.0)[0]))
    own = np.array([sweep.log_evidence for sweep in found])
    # Every sweep has this evidence; with a shared start each would have that of its own start.
    assert abs(own - pairs).max() < 0.5 < from_start(1.0, 0.0)[0] - from_start(0.0, 1.0)[0]
    assert abs(own.mean() - pairs) < 5 * own.std(ddof=1) / math.sqrt(20) + 0.01
    assert found[0].state.shape == (2, 400, 1)
