"""Problems and answers from implementations that nobody here wrote.

Gymnasium's toy texts (its own transition tables ``env.unwrapped.P``), pymdptoolbox's examples with its own
solvers, and Puterman's two-state problem with QuantEcon's.
"""

from __future__ import annotations

import importlib
import json
from collections import deque
from functools import cache
from typing import Any

import gymnasium
import mdptoolbox.example
import mdptoolbox.mdp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import polinfer
from polinfer import exact
from polinfer.problems.tabular import OutcomeRows

from .brute_force import random_plain

# Gymnasium 1.0 has Taxi-v3; later versions only Taxi-v4, with the same default rules.
TAXI = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"
FORMS = ("rows", ".npz", ".json")


@cache
def toy(name: str) -> gymnasium.Env:
    return gymnasium.make(name).unwrapped


def terminal(name: str) -> set[int]:
    table = toy(name).P
    return {int(n) for s in table for a in table[s] for _, n, _, ends in table[s][a] if ends}


def from_gymnasium(name: str, horizon: int) -> polinfer.TabularMDP:
    env, ends = toy(name), terminal(name)
    rows = [
        (s, a, int(n), float(p), float(r))
        for s in env.P
        if s not in ends
        for a in env.P[s]
        for p, n, r, _ in env.P[s][a]
    ]
    return polinfer.TabularMDP.from_outcomes(
        OutcomeRows(*(np.array(column) for column in zip(*rows, strict=True))),
        len(env.P),
        len(env.P[0]),
        np.asarray(env.initial_state_distrib, np.float64),
        sorted(ends),
        horizon,
        success=[n for n in sorted(ends) if any(row[2] == n and row[4] > 0 for row in rows)],
    )


def in_form(table: polinfer.TabularMDP, form: str, folder) -> polinfer.TabularMDP:
    """The table itself, or what a file gives back of it."""
    if form == "rows":
        return table
    path = folder / f"table{form}"
    polinfer.save_table(table, path)
    return polinfer.load_table(path)


def by_linear_program(name: str, discount: float) -> np.ndarray:
    """The least v >= 0 with v(s) >= E[r + discount v(s')] for every action; rewards must not be negative."""
    env, ends = toy(name), terminal(name)
    rows, bounds = [], []
    for s in env.P:
        if s in ends:
            continue
        for a in env.P[s]:
            row = np.zeros(len(env.P))
            row[s] -= 1
            for p, n, _, done in env.P[s][a]:
                row[n] += 0 if done else discount * p
            rows.append(row)
            bounds.append(-sum(p * r for p, _, r, _ in env.P[s][a]))
    answer = scipy.optimize.linprog(np.ones(len(env.P)), A_ub=np.array(rows), b_ub=bounds)
    assert answer.success
    return answer.x


@pytest.mark.parametrize("form", FORMS)
def test_frozen_lake_is_crossed_with_probability_14_17ths(form, tmp_path):
    """4x4, slippery, without a step limit: 14/17 = 0.8235."""
    table = in_form(from_gymnasium("FrozenLake-v1", 100), form, tmp_path)
    assert (table.num_states, table.num_actions) == (16, 4)
    solution = exact.stationary_value_iteration(table)
    assert solution.result is exact.Result.CONVERGED
    assert solution.objective == pytest.approx(14 / 17, abs=1e-7)
    np.testing.assert_allclose(solution.value, by_linear_program("FrozenLake-v1", 1.0), atol=1e-6)
    crossed = exact.evaluate_policy(table, solution.policy, horizon=3000)
    assert crossed.success == pytest.approx(14 / 17, abs=1e-9)
    assert crossed.endings["failure"] == pytest.approx(3 / 17, abs=1e-9)
    assert crossed.occupancy[15] == pytest.approx(14 / 17, abs=1e-9)


def test_frozen_lake_discounted():
    """By a linear program, 0.5420 at a discount of 0.99 and 0.0689 at 0.9."""
    table = from_gymnasium("FrozenLake-v1", 100)
    for discount, rounded in ((0.99, 0.5420), (0.9, 0.0689)):
        solution = exact.stationary_value_iteration(table, discount=discount)
        assert solution.objective == pytest.approx(rounded, abs=5e-5)
        np.testing.assert_allclose(solution.value, by_linear_program("FrozenLake-v1", discount), atol=1e-7)


def test_frozen_lake_within_gymnasiums_step_limit():
    """100 steps: above Gymnasium's threshold for *solved*; and Gymnasium itself, playing, agrees."""
    env = gymnasium.make("FrozenLake-v1")
    assert env.spec.max_episode_steps == 100
    table = from_gymnasium("FrozenLake-v1", 100)
    stationary, best = exact.stationary_optimum(table), exact.finite_horizon_optimum(table)
    assert env.spec.reward_threshold < stationary.objective < best.objective < 14 / 17

    value = np.zeros(16)
    for _ in range(100):
        value = np.array(
            [
                max(
                    sum(p * (r + (not end) * value[n]) for p, n, r, end in toy("FrozenLake-v1").P[s][a])
                    for a in range(4)
                )
                for s in range(16)
            ]
        )
    assert best.objective == pytest.approx(value[0], abs=1e-12)

    actions = stationary.policy.argmax(axis=1)
    truth = exact.evaluate_policy(table, actions)
    episodes, won, steps = 1500, np.zeros(1500), np.zeros(1500)
    for i in range(episodes):
        state, _ = env.reset(seed=7 if i == 0 else None)
        over = False
        while not over:
            state, reward, terminated, truncated, _ = env.step(int(actions[state]))
            won[i] += reward
            steps[i] += 1
            over = terminated or truncated
    assert abs(won.mean() - truth.expected_return) < 5 * truth.std / np.sqrt(episodes)
    assert abs(steps.mean() - truth.length) < 5 * steps.std() / np.sqrt(episodes)


@pytest.mark.parametrize("form", FORMS)
def test_cliff_walking_takes_13_steps(form, tmp_path):
    table = in_form(from_gymnasium("CliffWalking-v1", 30), form, tmp_path)
    assert table.num_states == 48
    for solution in (
        exact.stationary_value_iteration(table),
        exact.finite_horizon_optimum(table),
        exact.stationary_optimum(table),
    ):
        assert solution.objective == pytest.approx(-13, abs=1e-9), solution.method
    walk = exact.evaluate_policy(table, exact.stationary_optimum(table).policy)
    assert walk.length == pytest.approx(13, abs=1e-12)
    assert walk.variance == pytest.approx(0, abs=1e-12)
    # Along the edge: one up from the start at 36, eleven to the right, one down into the goal at 47.
    assert [int(s) for s in np.nonzero(walk.occupancy)[0]] == [*range(24, 37), 47]


def taxi_by_breadth_first_search() -> dict[int, int]:
    """The best return from each state: +20 on delivery, -1 for each of the fewest steps before it."""
    env = toy(TAXI)
    back: dict[int, list[int]] = {}
    best: dict[int, int] = {}
    queue: deque[int] = deque()
    for s in env.P:
        for a in env.P[s]:
            ((_, n, r, ends),) = env.P[s][a]
            if ends:
                assert r == 20
                best[s] = 20
                queue.append(s)
            elif r == -1:
                back.setdefault(int(n), []).append(s)
    while queue:
        s = queue.popleft()
        for before in back.get(s, []):
            if before not in best:
                best[before] = best[s] - 1
                queue.append(before)
    return best


@pytest.mark.parametrize("form", FORMS)
def test_taxi_earns_7_93_on_average(form, tmp_path):
    """The mean over Gymnasium's 300 starts is 7.93, from 3 for the longest ride to 15 for the shortest."""
    table = in_form(from_gymnasium(TAXI, 200), form, tmp_path)
    assert (table.num_states, table.num_actions) == (500, 6)
    truth = taxi_by_breadth_first_search()
    starts = np.nonzero(toy(TAXI).initial_state_distrib)[0].tolist()
    assert len(starts) == 300
    mean = sum(truth[s] for s in starts) / 300
    assert round(mean, 2) == 7.93
    solution = exact.stationary_value_iteration(table)
    assert solution.result is exact.Result.CONVERGED
    np.testing.assert_allclose(solution.value[starts], [truth[s] for s in starts], atol=1e-9)
    assert solution.objective == pytest.approx(mean, abs=1e-9)
    ride = exact.evaluate_policy(table, solution.policy)
    assert ride.expected_return == pytest.approx(mean, abs=1e-9)
    assert ride.length == pytest.approx(21 - mean, abs=1e-9)
    assert ride.success == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("form", [".npz", ".json"])
@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1", TAXI, "random"])
def test_files_give_back_what_they_got(name, form, tmp_path):
    if name == "random":  # Numbers with all their digits, rows out of order, illegal actions, many starts.
        mdp = random_plain(0, 50, terminals=2, start_on_terminal=True)
        table = mdp.table(success=[min(mdp.absorbing)])
    else:
        table = from_gymnasium(name, 50)
    back = in_form(table, form, tmp_path)
    for field in ("successor", "probability", "reward", "initial", "absorbing", "legal_actions", "ending_of"):
        np.testing.assert_array_equal(getattr(back, field), getattr(table, field), err_msg=field)
    assert (back.horizon, back.endings) == (50, table.endings)
    assert (back.state_names, back.action_names) == (table.state_names, table.action_names)


def test_json_file_written_by_hand(tmp_path):
    """Puterman's problem as a person would write it, names and all, an illegal action left out."""
    contents = {
        "state_names": ["one", "two"],
        "action_names": ["a", "b"],
        "outcomes": [
            ["one", "a", "one", 0.5, 5],
            ["one", "a", "two", 0.5, 5],
            ["one", "b", "two", 1, 10],
            ["two", "a", "two", 1, -1],
        ],
        "legal": [[True, True], [True, False]],
        "initial": "one",
        "horizon": 10,
    }
    path = tmp_path / "puterman.json"
    path.write_text(json.dumps(contents))
    solution = exact.stationary_value_iteration(polinfer.load_table(path), discount=0.95, tolerance=1e-12)
    np.testing.assert_allclose(solution.value, [-60 / 7, -20], atol=1e-9)


# ---- QuantEcon ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def markov() -> Any:
    """QuantEcon, which compiles with numba where it is imported, for seconds."""
    return importlib.import_module("quantecon.markov")


def puterman(markov: Any, horizon: int) -> tuple[Any, polinfer.TabularMDP]:
    """Puterman (2005), Section 3.1, as in the documentation of quantecon.markov.ddp."""
    rewards, moves = [5.0, 10.0, -1.0], [(0.5, 0.5), (0.0, 1.0), (0.0, 1.0)]
    states, actions = [0, 0, 1], [0, 1, 0]
    problem = markov.DiscreteDP(np.array(rewards), np.array(moves), 0.95, np.array(states), np.array(actions))
    rows = [
        (s, a, n, p, r)
        for s, a, r, row in zip(states, actions, rewards, moves, strict=True)
        for n, p in enumerate(row)
    ]
    table = polinfer.TabularMDP.from_outcomes(
        OutcomeRows(*(np.array(column) for column in zip(*rows, strict=True))),
        2,
        2,
        [0.5, 0.5],
        None,
        horizon,
        legal=np.array([[True, True], [True, False]]),
    )
    return problem, table


def test_puterman_two_states(markov):
    """v* = (-60/7, -20): their documentation prints [-8.57142857, -20.], with sigma* = [0, 0]."""
    problem, table = puterman(markov, 10)
    theirs = problem.solve(method="policy_iteration")
    ours = exact.stationary_value_iteration(table, discount=0.95, tolerance=1e-12)
    np.testing.assert_allclose(theirs.v, [-60 / 7, -20], atol=1e-9)
    np.testing.assert_allclose(ours.value, theirs.v, atol=1e-9)
    assert ours.policy.argmax(axis=1).tolist() == theirs.sigma.tolist() == [0, 0]


@pytest.mark.parametrize("horizon", [1, 10])
def test_puterman_over_a_horizon(markov, horizon):
    problem, table = puterman(markov, horizon)
    values, policies = markov.backward_induction(problem, horizon)
    ours = exact.finite_horizon_optimum(table, discount=0.95)
    np.testing.assert_allclose(ours.value, values[0], atol=1e-10)
    np.testing.assert_array_equal(ours.stages.argmax(axis=-1), policies)


@pytest.mark.parametrize("seed", [1, 2])
def test_quantecon_random_problems(markov, seed):
    problem = markov.random_discrete_dp(6, 3, beta=0.9, scale=2.0, random_state=np.random.default_rng(seed))
    table = polinfer.TabularMDP(problem.Q, problem.R, np.full(6, 1 / 6), None, 5)
    theirs = problem.solve(method="policy_iteration")
    ours = exact.stationary_value_iteration(table, discount=0.9)
    np.testing.assert_allclose(ours.value, theirs.v, atol=1e-8)
    np.testing.assert_array_equal(ours.policy.argmax(axis=1), theirs.sigma)
    values, policies = markov.backward_induction(problem, 5)
    finite = exact.finite_horizon_optimum(table, discount=0.9)
    np.testing.assert_allclose(finite.value, values[0], atol=1e-10)
    np.testing.assert_array_equal(finite.stages.argmax(axis=-1), policies)
    # The value of a policy that is not optimal.
    other = (theirs.sigma + 1) % 3
    long = exact.evaluate_policy(table, other, horizon=300, discount=0.9)
    np.testing.assert_allclose(long.value, problem.evaluate_policy(other), atol=1e-8)


# ---- pymdptoolbox ---------------------------------------------------------------------------------


def from_toolbox(moves: np.ndarray, rewards: np.ndarray, horizon: int) -> polinfer.TabularMDP:
    """pymdptoolbox has transitions [A, S, S]; its episodes never end."""
    size = moves.shape[1]
    dense = np.stack([np.asarray(m.todense()) if scipy.sparse.issparse(m) else m for m in moves])
    return polinfer.TabularMDP(dense.transpose(1, 0, 2), rewards, np.full(size, 1 / size), None, horizon)


EXAMPLES = {
    "forest": mdptoolbox.example.forest,
    "large forest": lambda: mdptoolbox.example.forest(S=8, r1=5, r2=3, p=0.2),
    "small": mdptoolbox.example.small,
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_toolbox_policy_iteration(name):
    moves, rewards = EXAMPLES[name]()
    theirs = mdptoolbox.mdp.PolicyIteration(moves, rewards, 0.9)
    theirs.run()
    ours = exact.stationary_value_iteration(from_toolbox(moves, rewards, 3), discount=0.9)
    np.testing.assert_allclose(ours.value, theirs.V, atol=1e-8)
    assert ours.policy.argmax(axis=1).tolist() == list(theirs.policy)
    if name == "forest":
        # Printed in its documentation of PolicyIteration.
        np.testing.assert_allclose(ours.value, [26.244, 29.484, 33.484], atol=1e-8)


@pytest.mark.parametrize("name", EXAMPLES)
def test_toolbox_value_iteration(name):
    """Its stopping rule bounds the policy's loss and not the values, so only the policies are the same."""
    moves, rewards = EXAMPLES[name]()
    theirs = mdptoolbox.mdp.ValueIteration(moves, rewards, 0.96, epsilon=1e-9)
    theirs.run()
    ours = exact.stationary_value_iteration(from_toolbox(moves, rewards, 3), discount=0.96)
    assert ours.policy.argmax(axis=1).tolist() == list(theirs.policy)


@pytest.mark.parametrize("discount", [0.9, 1.0])
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.filterwarnings("ignore::UserWarning:mdptoolbox")
def test_toolbox_finite_horizon(name, discount, capsys):
    moves, rewards = EXAMPLES[name]()
    theirs = mdptoolbox.mdp.FiniteHorizon(moves, rewards, discount, 3)
    theirs.run()
    ours = exact.finite_horizon_optimum(from_toolbox(moves, rewards, 3), discount=discount)
    np.testing.assert_allclose(ours.value, theirs.V[:, 0], atol=1e-12)
    np.testing.assert_array_equal(ours.stages.argmax(axis=-1), theirs.policy.T)
    if name == "forest" and discount == 0.9:
        # Printed in its documentation of FiniteHorizon.
        np.testing.assert_allclose(ours.value, [2.6973, 5.9373, 9.9373], atol=1e-12)
    capsys.readouterr()  # It prints a warning about discount 1.
