"""Gymnasium environments as they are: explored, planned in, and played by their own observations."""

from __future__ import annotations

import sys
import textwrap

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import polinfer
from polinfer.cli import main
from polinfer.core.errors import DomainError, PolinferError
from polinfer.problems.adapters.snapshots import SnapshotSimulator
from polinfer.problems.tabular.exploration import NotMarkovError, cache, exploration_of, with_exploration


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))


class Ferry(gymnasium.Env):
    """Three crossings with a drifting current; docking in the middle pays most."""

    observation_space = spaces.MultiDiscrete([4, 3])
    action_space: spaces.Space = spaces.Discrete(2)

    def __init__(self, sure: float = 0.8) -> None:
        self.sure = sure

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.drift = 0, 1
        return self.see(), {}

    def see(self):
        return np.array([self.place, self.drift])

    def step(self, action):
        if action and self.np_random.random() < self.sure:
            self.place += 1
        if self.np_random.random() < 0.3:
            self.drift = int(np.clip(self.drift + self.np_random.integers(-1, 2), 0, 2))
        over = self.place == 3
        reward = (5.0 if self.drift == 1 else 1.0) if over else -0.2
        return self.see(), reward, over, False, {}


def exact_ferry() -> polinfer.TabularMDP:
    """Return the ferry's table, by hand."""
    number = lambda place, drift: 3 * place + drift  # noqa: E731
    P, R = np.zeros((12, 2, 12)), np.full((12, 2, 12), -0.2)
    R[:, :, 9:] = [1.0, 5.0, 1.0]
    for place in range(3):
        for drift in range(3):
            for action in range(2):
                for on in (0, 1):
                    moves = (0.8 if on else 0.2) if action else float(not on)
                    for change, share in ((0, 0.7 + 0.1), (-1, 0.1), (1, 0.1)):
                        to = number(place + on, int(np.clip(drift + change, 0, 2)))
                        P[number(place, drift), action, to] += moves * share
    R[9:] = 0.0
    return polinfer.TabularMDP(P, R, 1, [9, 10, 11], 12)


@pytest.fixture(scope="module")
def ferry():
    env = gymnasium.wrappers.TimeLimit(Ferry(), 12)
    problem = with_exploration(polinfer.from_gymnasium(env), draws=60)
    return env, problem, polinfer.infer(problem)


def test_a_class_of_ones_own_is_explored_and_answered(ferry):
    _, problem, posterior = ferry
    assert isinstance(problem, SnapshotSimulator)
    assert problem.horizon == 12
    assert posterior.method == "exact"
    truth = polinfer.infer(exact_ferry(), "exact")
    certificate = polinfer.certify(posterior)
    error = certificate.table_error
    assert abs(posterior.policies.log_evidence - truth.policies.log_evidence) < 4 * error.log_evidence_stderr
    for place in range(3):
        for drift in range(3):
            found = posterior.action_probs(np.array([place, drift]))
            assert found == pytest.approx(truth.action_probs(3 * place + drift), abs=0.12)
    assert "draws" in certificate.reason


def test_too_few_draws_are_not_trusted():
    problem = polinfer.from_gymnasium(Ferry(), horizon=12, reward_scale=4)
    posterior = polinfer.infer(polinfer.tabulate(problem, draws=10), "exact")
    certificate = polinfer.certify(posterior)
    assert certificate.verdict is not polinfer.Verdict.TRUST
    assert "--draws" in certificate.remedy
    assert certificate.table_error.draws_for(0.03) > certificate.table_error.draws


def test_a_loop_of_stable_baselines_runs_the_posterior_unchanged(ferry):
    env, _, posterior = ferry
    vector = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.wrappers.TimeLimit(Ferry(), 12)] * 3)
    observations, _ = vector.reset(seed=0)
    states, starts, gained = None, np.ones(3, bool), 0.0
    for _ in range(20):
        actions, states = posterior.predict(
            observations, state=states, episode_start=starts, deterministic=True
        )
        assert actions.shape == (3,)
        observations, rewards, ended, cut, _ = vector.step(actions)
        starts, gained = ended | cut, gained + rewards.sum()
    assert gained > 0
    observation, _ = env.reset(seed=1)
    action, _ = posterior.predict(observation, deterministic=True)
    assert action == 1
    assert posterior.sample_policy(2)(observation) in (0, 1)
    with pytest.raises(PolinferError, match="cannot be reached"):
        posterior.predict(np.array([7, 7]))


def test_evaluation_and_files(ferry, tmp_path):
    _, problem, posterior = ferry
    result = polinfer.evaluate(problem, posterior, episodes=50)
    exactly = polinfer.evaluate(problem, posterior, exactly=True)
    assert abs(result.mean[0] - exactly.mean[0]) < 5 * result.stderr[0]
    posterior.save(tmp_path / "run")
    read = polinfer.load(tmp_path / "run", mdp=problem)
    seen = np.array([1, 2])
    assert read.predict(seen, deterministic=True) == posterior.predict(seen, deterministic=True)
    assert read.states == posterior.states
    assert read.view == posterior.view


def test_an_environment_itself_will_do():
    env = gymnasium.wrappers.TimeLimit(Ferry(), 12)
    table = polinfer.tabulate(env, draws=10)
    assert table.horizon == 12
    posterior = polinfer.infer(env, "wake", sweeps=1, particles=2, worlds=1)
    assert polinfer.evaluate(env, posterior, episodes=3).episodes == 3
    copied = posterior.mdp._store.blank()  # the problem that hangs on an environment is not copied with it
    assert "_polinfer_problem" not in vars(copied)


def test_several_actions_at_once_are_flattened():
    class Both(Ferry):
        action_space = spaces.MultiDiscrete([2, 3])

        def step(self, action):
            assert self.action_space.contains(action)
            self.sure = 0.5 + 0.2 * action[1]
            return super().step(action[0])

    problem = polinfer.from_gymnasium(Both(), horizon=5)
    assert problem.num_actions == 6
    assert problem.action_names == ("0 0", "0 1", "0 2", "1 0", "1 1", "1 2")
    posterior = polinfer.infer(problem, "wake", sweeps=2, particles=2, worlds=1)
    action, _ = posterior.predict(np.array([2, 1]), deterministic=True)
    assert Both.action_space.contains(action)
    table = polinfer.tabulate(problem, draws=10)
    value = polinfer.exact.finite_horizon_optimum(table)
    assert value.policy[0].argmax() in (3, 4, 5)
    actions, _ = posterior.predict(np.array([[2, 1], [0, 1]]), deterministic=True)
    assert actions.shape == (2, 2)


def test_masks_by_method_become_legal_actions():
    class Masked(Ferry):
        def action_masks(self):
            return np.array([self.place > 0, True])

    table = polinfer.tabulate(polinfer.from_gymnasium(Masked(), horizon=5), draws=20)
    for state, legal in zip(table.states, table.legal_actions, strict=True):
        if not table.absorbing[table.states.index(state)]:
            assert legal.tolist() == [state.key[0] > 0, True]


class Hidden(Ferry):
    """Every third step is free, which is not shown."""

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.count += 1
        seen, reward, over, cut, info = super().step(action)
        return seen, 0.0 if self.count % 3 == 0 and not over else reward, over, cut, info


def test_what_is_hidden_is_noticed_and_told_apart_by_identity():
    problem = polinfer.from_gymnasium(Hidden(), horizon=6)
    with pytest.raises(NotMarkovError, match=r"state \(\d, \d\) was reached by two ways, and action '\d'"):
        polinfer.tabulate(problem, draws=30)
    answer = polinfer.infer(problem, "wake", sweeps=1, particles=2, worlds=1)
    assert answer.predict(np.array([0, 1]))[0] in (0, 1)  # without a table, by the observation too
    told = polinfer.from_gymnasium(
        Hidden(), horizon=6, identity=lambda env: (env.place, env.drift, env.count % 3)
    )
    table = polinfer.tabulate(told, draws=20)
    assert table.num_states == 3 * 12


class Belt(gymnasium.Env):
    """Each part of a belt pays; in one episode of ten, which is not shown, the third one breaks it."""

    observation_space = spaces.Discrete(6)
    action_space: spaces.Space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.worn = 0, bool(self.np_random.random() < 0.1)
        return self.at, {}

    def step(self, action):
        self.at += int(action)
        reward = 0.6 * action - 60.0 * (self.worn and self.at == 3)
        return self.at, reward, self.at == 5 or action == 0, False, {}


@pytest.mark.parametrize("seed", range(3))
def test_what_is_hidden_and_seldom_is_met_in_whole_episodes(seed):
    """No step draws a random number, so that of each state a few representatives are all that is tried."""
    with pytest.raises(NotMarkovError, match="state 2 was reached by two ways, and action '1'"):
        polinfer.tabulate(polinfer.from_gymnasium(Belt(), horizon=8), seed=seed)


class Dice:
    __slots__ = ("rng",)


class Sliding(Belt):
    """Noise from a generator that is not found."""

    def __init__(self):
        self.dice = Dice()

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.dice.rng = np.random.default_rng(seed)
        return super().reset(seed=seed)

    def step(self, action):
        self.worn = self.dice.rng.random() < 0.05
        return super().step(action)


@pytest.mark.parametrize("seed", [1, 3])
def test_noise_that_cannot_be_seen_is_not_taken_for_certainty(seed):
    with pytest.raises(NotMarkovError, match="does different things"):
        polinfer.tabulate(polinfer.from_gymnasium(Sliding(), horizon=8), seed=seed)


def test_generators_deep_inside_are_seeded():
    class Deep(Ferry):
        class Game:
            def __init__(self):
                self.dice = [np.random.default_rng(5)]

        def __init__(self):
            super().__init__()
            self.game = self.Game()

        def step(self, action):
            self.place += int(self.game.dice[0].random() < 0.5)
            return self.see(), -1.0, self.place == 3, False, {}

    table = polinfer.tabulate(polinfer.from_gymnasium(Deep(), horizon=5), draws=100)
    assert table.draws is not None
    assert table.probability[0, 0].max() < 0.8


def test_bins_by_name():
    problem = polinfer.make("gym:MountainCar-v0", bins={"x0": 4, "x1": [0.0]}, horizon=20)
    assert problem.state_name(problem.from_key((1, 0))) == "x0 in -0.75..-0.3, x1 < 0"
    with pytest.raises(DomainError, match="bins name x0 to x1"):
        polinfer.make("gym:MountainCar-v0", bins={"speed": 4})
    with pytest.raises(DomainError, match="between finite bounds"):
        polinfer.make("gym:CartPole-v1", bins={"x1": 4})
    with pytest.raises(DomainError, match="abstraction and bins both say"):
        polinfer.make("gym:MountainCar-v0", abstraction=lambda x: 0, bins={"x0": 4})


def test_minigrid_is_fully_observed_and_played_by_its_own_observation():
    pytest.importorskip("minigrid")
    problem = polinfer.make("gym:MiniGrid-Empty-5x5-v0", horizon=12, reward_scale=20)
    table = polinfer.tabulate(problem)
    assert not table.is_estimated
    # Nine cells in four directions; the goal ends, and is entered from the left and from above only.
    assert table.num_states == 8 * 4 + 2
    assert table.state_names[0] == "column 1 row 1 facing right"
    posterior = polinfer.infer(problem, "tempered")
    env = gymnasium.make("MiniGrid-Empty-5x5-v0")
    observation, _ = env.reset(seed=0)
    for _ in range(5):  # two forward, a turn, two forward
        action, _ = posterior.predict(observation, deterministic=True)
        observation, reward, ended, _, _ = env.step(action)
    assert ended
    assert reward > 0


def test_minigrid_with_a_door_and_a_key():
    pytest.importorskip("minigrid")
    problem = polinfer.make("gym:MiniGrid-DoorKey-5x5-v0", reset_seed=0, horizon=30)
    start = problem.init(0)
    assert "door locked" in problem.state_name(start)
    assert problem.init(1) == start
    assert "forward" in problem.action_names


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "states"), [("MiniGrid-DoorKey-5x5-v0", 270), ("MiniGrid-FourRooms-v0", 1040)]
)
def test_minigrid_at_full_size(name, states):
    pytest.importorskip("minigrid")
    table = polinfer.tabulate(polinfer.make(f"gym:{name}", reset_seed=0))
    assert table.num_states == states
    assert not table.is_estimated
    best = polinfer.exact.finite_horizon_optimum(table).objective
    assert best == pytest.approx(table.reward.max())


def newest(name: str) -> str:
    """Return the newest version of an environment."""
    known = [key for key in gymnasium.registry if key.startswith(f"{name}-v")]
    return max(known, key=lambda key: int(key.rpartition("-v")[2]))


def test_taxi_and_cliff_walking_keep_their_exact_tables():
    taxi = polinfer.make(f"gym:{newest('Taxi')}", horizon=15)
    assert isinstance(taxi, polinfer.TabularMDP)
    assert not taxi.is_estimated
    cliff = polinfer.make(f"gym:{newest('CliffWalking')}", horizon=50)
    assert not cliff.is_estimated
    posterior = polinfer.infer(cliff, "svi", sweeps=2)
    action, _ = posterior.predict(np.array([36, 24]), deterministic=True)
    assert action.shape == (2,)
    assert posterior.predict(np.int64(36))[0] in range(4)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "horizon", "scale"), [("Taxi", 25, 1.0), ("CliffWalking", 50, 1.0)])
def test_toy_texts_are_answered_at_full_size(name, horizon, scale):
    problem = polinfer.make(f"gym:{newest(name)}", horizon=horizon, reward_scale=scale)
    posterior = polinfer.infer(problem)
    probs = posterior.table_probs()[0].astype(np.float64)
    probs /= probs.sum(axis=1, keepdims=True)
    evaluate, optimum = polinfer.exact.evaluate_policy, polinfer.exact.finite_horizon_optimum
    uniform = evaluate(problem, polinfer.exact.uniform_policy(problem)).expected_return
    best = optimum(problem).objective
    found = evaluate(problem, probs).expected_return
    assert (found - uniform) / (best - uniform) > 0.5


OWN = """
import gymnasium, numpy as np, random
import jax, jax.numpy as jnp
from gymnasium import spaces
from polinfer import Transition
from beside import PRIZE


class Coin(gymnasium.Env):
    observation_space, action_space, max_episode_steps = spaces.Discrete(3), spaces.Discrete(2), 4

    def __init__(self, luck=0.5):
        self.luck = luck

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return 0, {}

    def step(self, action):
        self.at = 1 + int(self.np_random.random() < self.luck) if action else 0
        return self.at, PRIZE * (self.at == 2), self.at > 0, False, {}


class Loud(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


class Slope:
    num_actions, horizon = 2, 6

    def init(self, key):
        return jnp.int32(0)

    def step(self, key, state, action):
        over = state >= 4
        up = jax.random.uniform(key) < 0.6 + 0.2 * action
        after = jnp.where(over, state, state + up).astype(jnp.int32)
        return Transition(after, jnp.where(over, 0.0, jnp.where(after == 4, 3.0, -0.3)), after >= 4)

    def encode(self, state):
        return jax.nn.one_hot(state, 5)

    def identity(self, state):
        return state[None]

    def legal(self, state):
        return jnp.ones(2, bool)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(textwrap.dedent(OWN))
    (tmp_path / "beside.py").write_text("PRIZE = 3.0\n")
    yield tmp_path
    sys.modules.pop("beside", None)
    sys.modules.pop("own", None)


def test_a_class_by_its_file(own, capsys):
    words = ["--gym-kwargs", "luck=0.9", "--wrapper", "own:Loud", "--draws", "20", "--json"]
    assert main(["plan", "own.py:Coin", *words]) == 0
    said = capsys.readouterr().out
    assert '"verdict"' in said
    problem = polinfer.make("own.py:Coin", luck=0.9, wrappers=["own:Loud"])
    assert problem.horizon == 4
    table = polinfer.tabulate(problem, draws=20)
    assert table.reward.max() == 6.0
    with pytest.raises(DomainError, match=r"own.py has no 'Coins' \(did you mean 'Coin'"):
        polinfer.make("own.py:Coins")
    with pytest.raises(DomainError, match=r"nothing\.py: no such file"):
        polinfer.make("nothing.py:Coin")
    with pytest.raises(DomainError, match="cannot be made with fortune"):
        polinfer.make("own.py:Coin", fortune=1)
    (own / "torn.py").write_text("class Torn:\n    def __init__(self):\n        self.deck = {}['cards']\n")
    with pytest.raises(DomainError, match=r"torn\.py:Torn cannot be made \(KeyError: 'cards'\)"):
        polinfer.make("torn.py:Torn")


def test_a_jax_class_without_outcomes(own):
    problem = polinfer.make("own.py:Slope", draws=64)
    assert exploration_of(problem).draws == 64
    posterior = polinfer.infer(problem)
    assert posterior.method == "exact"
    assert posterior.view.num_states == 5
    action, _ = posterior.predict(np.int32(0), deterministic=True)
    assert action == 1


def test_the_second_time_a_table_is_read_from_disk(own, monkeypatch):
    first = polinfer.tabulate(polinfer.make("own.py:Coin", draws=10))
    kept = list((own / "cache" / "tables").glob("*.npz"))
    assert len(kept) == 1
    assert (own / "cache" / "tables").stat().st_mode & 0o077 == 0
    from polinfer.problems.tabular.exploration import problem as module

    with monkeypatch.context() as patch:
        patch.setattr(module, "_explore", None)  # would fail if it were asked
        again = polinfer.make("own.py:Coin", draws=10)
        assert polinfer.tabulate(again) == first
        assert polinfer.tabulate(again).states == first.states
    # Another source, another option, or a damaged file: explored anew.
    polinfer.tabulate(polinfer.make("own.py:Coin", draws=11))
    assert len(list((own / "cache" / "tables").glob("*.npz"))) == 2
    kept[0].write_bytes(b"nonsense")
    assert polinfer.tabulate(polinfer.make("own.py:Coin", draws=10)) == first
    (own / "own.py").write_text(textwrap.dedent(OWN) + "\n# changed\n")
    polinfer.tabulate(polinfer.make("own.py:Coin", draws=10))
    assert len(list((own / "cache" / "tables").glob("*.npz"))) == 3
    monkeypatch.setattr(cache, "LIMIT", 1)
    polinfer.tabulate(polinfer.make("own.py:Coin", draws=12))
    assert list((own / "cache" / "tables").glob("*.npz")) == []
    monkeypatch.setenv(cache.VARIABLE, "off")
    polinfer.tabulate(polinfer.make("own.py:Coin", draws=13))
    assert list((own / "cache" / "tables").glob("*.npz")) == []


def test_flags_are_read(own, capsys):
    assert main(["plan", "gym:MountainCar-v0", "--bins", "x0", "--json"]) == 2
    assert "--bins takes x0=8" in capsys.readouterr().err
    assert main(["plan", "own.py:Coin", "--max-states", "1", "--method", "exact", "--no-table-cache"]) == 2
    assert "more than 1 states" in capsys.readouterr().err.replace("\n", " ")
