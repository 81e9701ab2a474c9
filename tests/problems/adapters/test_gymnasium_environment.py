"""Our problems as Gymnasium environments."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import polinfer
from polinfer import exact
from polinfer.core.errors import DomainError, PolinferError
from polinfer.problems import registry
from polinfer.problems.adapters.snapshots import SnapshotSimulator
from polinfer.problems.domains.gridworld import CELL_COLOURS

pytestmark = pytest.mark.usefixtures("compile_quickly")

FORK = "polinfer/probe-fork-v0"


@pytest.mark.parametrize("observation", ["features", "index"])
@pytest.mark.parametrize(
    "name", ["gridworld-multimodal", "bandit", "continuation", "probe-fork", "probe-three-targets"]
)
def test_registered_problems_pass_gymnasiums_own_check(name, observation):
    check_env(gymnasium.make(f"polinfer/{name}-v0", observation=observation).unwrapped)


def test_problems_of_ones_own_pass_too():
    table = polinfer.make("gym:FrozenLake-v1", encode=lambda s: [s / 16, 1.0])
    check_env(polinfer.to_gymnasium(table))
    check_env(polinfer.to_gymnasium(polinfer.make("gridworld", map="S.#G\n..W."), observation="index"))


def test_every_domain_without_required_options_has_an_id():
    ids = {name for name in gymnasium.registry if name.startswith("polinfer/")}
    assert {"polinfer/gridworld-flat-v0", "polinfer/gridworld-ablation-v0", FORK} <= ids
    assert "polinfer/gridworld-v0" not in ids  # It needs a map.


def test_the_prefix_has_gymnasium_import_polinfer():
    code = (
        "import gymnasium; e = gymnasium.make('polinfer:polinfer/gridworld-multimodal-v0', "
        "render_mode='ansi', reward_scale=0.5); print(e.unwrapped.mdp.reward_scale)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("0.5", 0), done.stderr


def test_own_domains_get_ids_on_request(monkeypatch):
    monkeypatch.setattr(registry, "_DOMAINS", dict(registry._DOMAINS))
    polinfer.register("mine/a b", polinfer.problems.domains.gridworld.gridworld, map="S.G")
    try:
        polinfer.problems.adapters.register_environments()
        env = gymnasium.make("polinfer/mine-a-b-v0", horizon=3, success_prob=1.0)
        assert env.unwrapped.mdp.horizon == 3
    finally:
        gymnasium.registry.pop("polinfer/mine-a-b-v0", None)


def play(env, policy, seed):
    """Return the rewards of an episode, how it ended, and the last info."""
    observation, info = env.reset(seed=seed)
    rewards, over = [], False
    while not over:
        observation, reward, terminated, truncated, info = env.step(policy(observation, info))
        rewards.append(reward)
        over = terminated or truncated
    return rewards, terminated, truncated, info


def test_episodes_earn_what_the_exact_value_says():
    mdp = polinfer.make("gridworld/ablation", horizon=6)
    table = polinfer.tabulate(mdp)
    env = polinfer.to_gymnasium(mdp, observation="index")
    actions = np.array([1, 0, 1, 0, 1, 0])
    truth = exact.evaluate_policy(table, exact.one_hot_policy(table, actions))
    played = [play(env, lambda s, _: int(actions[s]), None if i else 5) for i in range(400)]
    returns = [sum(rewards) for rewards, *_ in played]
    assert abs(np.mean(returns) - truth.expected_return) < 5 * truth.std / 20
    ended = [info.get("ending") for *_, info in played]
    for name, share in truth.endings.items():
        error = 5 * np.sqrt(share * (1 - share) / 400) + 1e-9
        assert abs(np.mean([other == name for other in ended]) - share) < error
    for rewards, terminated, truncated, info in played:
        assert terminated != truncated
        assert ("ending" in info) == terminated
        assert len(rewards) <= 6
        assert not truncated or len(rewards) == 6


def follow(actions):
    rest = iter(actions)
    return lambda *_: next(rest)


def test_seeds_repeat_episodes():
    env = gymnasium.make("polinfer/gridworld-multimodal-v0", reward_scale=0.5)
    choose = np.random.default_rng(0)
    actions = choose.integers(0, 4, 1000).tolist()
    episodes = [play(env, follow(actions), seed)[0] for seed in (3, 3, 4)]
    assert episodes[0] == episodes[1] != episodes[2]
    assert min(episodes[0]) == pytest.approx(-0.55)


def test_info_tells_identity_mask_and_ending():
    env = gymnasium.make(FORK)
    features, info = env.reset(seed=0)
    assert features.dtype == np.float32
    assert (info["identity"].dtype, info["identity"].tolist()) == (np.int32, [0])
    assert (info["action_mask"].dtype, info["action_mask"].tolist()) == (np.int8, [1, 1])
    assert "ending" not in info


def masked_table():
    return polinfer.TabularMDP(
        [[[0, 1.0], [1.0, 0]], [[0, 0], [0, 0]]],
        [[1.0, 5.0], [0, 0]],
        0,
        [False, True],
        4,
        legal=[[True, False], [True, True]],
        state_names=["here", "there"],
        action_names=["go", "stay"],
    )


def test_absorbing_states_can_go_on_until_the_horizon():
    env = gymnasium.make("polinfer/continuation-v0", horizon=5, rho=0.0, absorbing="continue")
    check_env(env.unwrapped)
    env.reset(seed=1)
    seen = [env.step(action)[1:4] for action in (1, 0, 1, 1, 0)]
    assert seen == [(1.0, False, False), *[(0.0, False, False)] * 3, (0.0, False, True)]
    ends = gymnasium.make("polinfer/continuation-v0", horizon=5, rho=0.0)
    ends.reset(seed=1)
    assert ends.step(1)[1:4] == (1.0, True, False)
    # What the environment tells others to make it anew tells this, too.
    assert env.unwrapped.spec.kwargs["absorbing"] == "continue"
    with pytest.raises(PolinferError, match="absorbing must be 'end' or 'continue', got 'goes on'"):
        polinfer.to_gymnasium(polinfer.make("continuation"), absorbing="goes on")


def test_illegal_actions_are_refused_by_name():
    env = polinfer.to_gymnasium(masked_table())
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [1, 0]
    with pytest.raises(
        PolinferError, match=r"action 'stay' is not legal in state here; info\['action_mask'\]"
    ):
        env.step(1)
    for nonsense in (2, -1, 0.5, "go"):
        with pytest.raises(PolinferError, match=r"is not one of 0\.\.1"):
            env.step(nonsense)
    assert env.step(0)[1:3] == (1.0, True)


def test_order_is_enforced():
    env = polinfer.to_gymnasium(masked_table(), render_mode="ansi")
    for too_early in (env.render, env.get_state, lambda: env.step(0)):
        with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
            too_early()


def test_text_of_a_grid_marks_the_agent():
    env = polinfer.to_gymnasium(polinfer.make("gridworld", map="..G\nS#W", success_prob=1.0), "ansi")
    env.reset(seed=0)
    assert env.render() == "..G\n@#W\n(1,1), step 0 of 15"
    env.step(1)
    env.step(0)
    assert env.render() == ".@G\nS#W\n(2,2), step 2 of 15, right, reward -0.1"


def test_text_of_others_names_the_state():
    env = polinfer.to_gymnasium(polinfer.make("probe/fork"), render_mode="ansi", observation="index")
    env.reset(seed=0)
    assert env.render() == "gate, step 0 of 2"
    assert polinfer.to_gymnasium(polinfer.make("probe/fork")).render() is None


def rgb(letter):
    return [int(CELL_COLOURS[letter][i : i + 2], 16) for i in (1, 3, 5)]


@pytest.mark.parametrize("observation", ["features", "index"])
def test_picture_of_a_grid(observation):
    grid = polinfer.make("gridworld", map="R.G\nS#W", success_prob=1.0)
    env = polinfer.to_gymnasium(grid, render_mode="rgb_array", observation=observation)
    env.reset(seed=0)
    env.step(1)
    image = env.render()
    assert (image.shape, image.dtype) == ((128, 192, 3), np.uint8)
    corners = [[image[64 * r + 8, 64 * c + 8].tolist() for c in range(3)] for r in range(2)]
    assert corners == [[rgb(letter) for letter in row] for row in ("R.G", "S#W")]
    centres = [[image[64 * r + 32, 64 * c + 32].tolist() for c in range(3)] for r in range(2)]
    assert centres[0][0] not in [rgb(letter) for letter in CELL_COLOURS]  # The agent, a disc
    assert centres[1] == [rgb("S"), rgb("#"), rgb("W")]
    assert image[64 + 4, 32].tolist() == [0, 0, 0]  # The frame of the start.
    env.step(0)
    assert (env.render()[:64, :64] != image[:64, :64]).any()


def test_pictures_of_large_grids_stay_small():
    rows = ["S" + "." * 199] + ["." * 200] * 3
    env = polinfer.to_gymnasium(polinfer.make("gridworld", map="\n".join(rows)), render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (24, 1200, 3)


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("bandit", {"render_mode": "rgb_array"}, "no render mode 'rgb_array'; it has 'ansi'"),
        ("gridworld/flat", {"render_mode": "human"}, "it has 'ansi', 'rgb_array'"),
        ("bandit", {"observation": "pixels"}, "observation must be 'features' or 'index', got 'pixels'"),
    ],
)
def test_refused_options(name, options, complaint):
    with pytest.raises(PolinferError, match=complaint):
        polinfer.to_gymnasium(polinfer.make(name), **options)


def test_simulators_and_unknown_options_are_refused():
    with pytest.raises(PolinferError, match=r"takes a polinfer.MDP, got SnapshotSimulator"):
        polinfer.to_gymnasium(polinfer.make("gym:Blackjack-v1", horizon=5))
    with pytest.raises(DomainError, match="has no option 'slipperiness'"):
        gymnasium.make("polinfer/gridworld-flat-v0", slipperiness=1)


def test_there_and_back_again():
    """What goes out comes back as a simulator, by the environment's own state functions."""
    mdp = polinfer.make("gridworld/ablation")
    back = polinfer.from_gymnasium(polinfer.to_gymnasium(mdp, observation="index"), horizon=10)
    assert isinstance(back, SnapshotSimulator)
    table, start = polinfer.tabulate(mdp), back.init(0)
    assert start.key == 0
    reached = [back.step(seed, start, 0)[0].key for seed in range(60)]
    likely = {int(n): float(p) for n, p in zip(table.successor[0, 0], table.probability[0, 0], strict=True)}
    assert set(reached) == set(likely)
    for state, share in likely.items():
        assert abs(np.mean(np.array(reached) == state) - share) < 5 * np.sqrt(share * (1 - share) / 60)
    assert reached == [back.step(seed, start, 0)[0].key for seed in range(60)]
