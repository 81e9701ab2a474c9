"""Tables by exploration, compared with exact tables of the same problems."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer.analysis.table_error import table_error
from polinfer.core.errors import CostError, PolinferError, TooLargeError
from polinfer.core.protocol import Transition
from polinfer.problems.tabular.exploration import NotMarkovError
from polinfer.problems.tabular.exploration.influence import influence
from polinfer.problems.tabular.exploration.markov import homogeneity


class Silent:
    """A JAX problem that does not list its outcomes."""

    def __init__(self, mdp):
        self.mdp, self.num_actions, self.horizon = mdp, mdp.num_actions, mdp.horizon
        for name in ("init", "step", "encode", "identity", "legal"):
            setattr(self, name, getattr(mdp, name))


class Walk:
    """Five places in a row in plain Python; the second place is left for certain."""

    num_actions, horizon = 2, 8

    def init(self, seed):
        return 0

    def step(self, seed, state, action):
        if action == 1:
            state = state + 1 if state == 1 or random.Random(seed).random() < 0.7 else max(state - 1, 0)
        return state, 3.0 if state == 4 else -0.1, state == 4

    def legal(self, state):
        return [True, True]

    def encode(self, state):
        return [state / 4]


@pytest.fixture(scope="module")
def ablation():
    mdp = polinfer.make("gridworld/ablation")
    exact = polinfer.tabulate(mdp)
    return mdp, exact, polinfer.tabulate(Silent(mdp), draws=300)


def rows_in(table, of):
    """Return the row of each state of `of` in `table`."""
    known = {row.tobytes(): i for i, row in enumerate(table.identities)}
    return np.array([known[row.tobytes()] for row in of.identities])


def dense(table):
    P = np.zeros((table.num_states, table.num_actions, table.num_states))
    s, a, b = np.nonzero(table.probability)
    np.add.at(P, (s, a, table.successor[s, a, b]), table.probability[s, a, b])
    return P


def test_probabilities_are_those_of_the_exact_table_within_their_errors(ablation):
    _, exact, found = ablation
    row = rows_in(found, exact)
    assert found.num_states == exact.num_states
    one, other = dense(exact), dense(found)[row][:, :, row]
    draws = found.draws[row]
    acting = ~exact.absorbing
    stderr = np.sqrt(one * (1 - one) / np.maximum(draws, 1)[..., None])[acting]
    assert (np.abs(one - other)[acting] <= 5 * stderr + 1e-12).all()
    assert (draws[acting] >= 100).all()
    assert found.absorbing[row].tolist() == exact.absorbing.tolist()


def test_rewards_are_exact_decimals(ablation):
    _, _, found = ablation
    assert set(np.unique(found.reward[found.probability > 0]).tolist()) <= {-5.1, -0.1, 0.0, 4.9}


def test_more_draws_go_where_they_matter_for_the_return(ablation):
    _, _, found = ablation
    weight = influence(found)
    random_pairs = found.draws > 0
    heavy = weight >= np.quantile(weight[random_pairs], 0.8)
    light = weight <= np.quantile(weight[random_pairs], 0.2)
    assert found.draws[heavy & random_pairs].mean() > 1.5 * found.draws[light & random_pairs].mean()


def test_influence_is_the_derivative_of_the_return():
    # One state, one random action: d J / d p (to the end with 2) by hand, and by a finite difference.
    P = np.array([[[0.6, 0.4]], [[0.0, 1.0]]])
    R = np.array([[[1.0, 2.0]], [[0.0, 0.0]]])
    table = polinfer.TabularMDP(P, R, 0, [1], 3)
    value = lambda p: (1 + (1 - p) + (1 - p) ** 2) * ((1 - p) * 1.0 + p * 2.0)  # noqa: E731
    slope = (value(0.4 + 1e-6) - value(0.4 - 1e-6)) / 2e-6
    assert influence(table)[0, 0] == pytest.approx(abs(slope) * np.sqrt(0.4 * 0.6), rel=1e-5)


def test_a_problem_without_chance_is_exact_with_one_draw():
    class Sure(Silent):
        def __init__(self):
            super().__init__(polinfer.make("gridworld/ablation"))
            self.step = self.move

        def move(self, key, state, action):
            return self.mdp.step(jax.random.key(3), state, action)

    table = polinfer.tabulate(Sure())
    assert table.draws is None
    assert not table.is_estimated
    assert set(np.unique(table.probability)) <= {0.0, 1.0}


def test_plain_python(ablation):
    table = polinfer.tabulate(Walk(), draws=200)
    assert table.num_states == 5
    assert table.state_names == ("0", "1", "2", "3", "4 (end)")
    P = dense(table)
    assert P[1, 1].tolist() == [0, 0, 1, 0, 0]
    stderr = np.sqrt(0.7 * 0.3 / table.draws[2, 1])
    assert abs(P[2, 1, 3] - 0.7) < 5 * stderr
    again = polinfer.tabulate(Walk(), draws=200)
    assert again == table
    assert polinfer.tabulate(Walk(), draws=200, seed=1) != table


def test_auto_explores_and_answers_by_the_state():
    posterior = polinfer.infer(Walk())
    assert posterior.method == "exact"
    # Against the exact table, by hand.
    P = np.zeros((5, 2, 5))
    P[:4, 0] = np.eye(5)[:4]
    for s in range(4):
        P[s, 1, s + 1] += 1.0 if s == 1 else 0.7
        P[s, 1, max(s - 1, 0)] += 0.0 if s == 1 else 0.3
    R = np.full((5, 2, 5), -0.1)
    R[:, :, 4] = 3.0
    R[4] = 0.0
    true = polinfer.infer(polinfer.TabularMDP(P, R, 0, [4], 8), "exact")
    for state in range(4):
        assert posterior.action_probs(state) == pytest.approx(true.action_probs(state), abs=0.06)
    error = table_error(posterior)
    assert abs(posterior.policies.log_evidence - true.policies.log_evidence) < 4 * error.log_evidence_stderr


def test_identity_merges_states():
    class Counting(Walk):
        """The state also holds a number that does not matter."""

        def init(self, seed):
            return (0, seed % 3)

        def step(self, seed, state, action):
            place, reward, over = super().step(seed, state[0], action)
            return (place, (state[1] + 1) % 3), reward, over

        def encode(self, state):
            return [state[0] / 4]

    assert polinfer.tabulate(Counting(), draws=20).num_states == 15
    table = polinfer.tabulate(Counting(), draws=20, identity=lambda state: state[0])
    assert table.num_states == 5
    assert table.states[:4] == (0, 1, 2, 3)


class Hidden(Walk):
    """What is seen leaves out a switch that decides where a step leads."""

    class State:
        def __init__(self, place, switch):
            self.place, self.switch = place, switch

        def __eq__(self, other):
            return self.place == other.place

        def __hash__(self):
            return hash(self.place)

        def __repr__(self):
            return f"place {self.place}"

    def init(self, seed):
        return self.State(0, random.Random(seed).random() < 0.5)

    def step(self, seed, state, action):
        chance = random.Random(seed).random()
        up = chance < (0.9 if state.switch else 0.1)
        place = min(state.place + 1, 4) if up and action else state.place
        return self.State(place, state.switch), -1.0, place == 4

    def encode(self, state):
        return [state.place / 4]


def test_what_is_not_markov_is_named():
    with pytest.raises(NotMarkovError, match="not be Markov: state place 0 was reached by two ways"):
        polinfer.tabulate(Hidden(), draws=40)
    table = polinfer.tabulate(Hidden(), draws=40, markov="ignore")
    assert table.num_states == 5
    assert table.averaged
    # The switch is even at the start: up with 0.9 or 0.1.  Random actions leave the first place with half of
    # that at each of 8 steps, so it is seen more often where the switch is off.
    on, off = ((1 - (1 - rate / 2) ** 8) / (rate / 2) for rate in (0.9, 0.1))
    expected = (0.9 * on + 0.1 * off) / (on + off)
    up = table.probability[0, 1][table.successor[0, 1] == 1].sum()
    assert 20 <= table.draws[0, 1] <= 60
    assert abs(up - expected) < 5 * np.sqrt(0.4**2 / table.draws[0, 1])


def test_more_draws_average_over_more_of_what_is_hidden():
    # A certificate that asks for more draws must be able to get them.
    few, many = (polinfer.tabulate(Hidden(), draws=draws, markov="ignore") for draws in (40, 400))
    assert many.draws[0, 1] > 7 * few.draws[0, 1]


def test_an_average_over_what_is_hidden_is_not_trusted():
    # Up with 0.9 for ever or 0.1 for ever is no walk that goes up with their average.
    certificate = polinfer.certify(polinfer.infer(polinfer.tabulate(Hidden(), draws=4000, markov="ignore")))
    assert certificate.table_error.distance < 0.02
    assert certificate.verdict is polinfer.Verdict.CARE
    assert "averages over what states do not show" in certificate.reason


def test_to_ignore_what_is_hidden_changes_nothing_where_nothing_is(tmp_path):
    table = polinfer.tabulate(Boxed(), draws=40, markov="ignore")
    assert not table.averaged
    assert table == polinfer.tabulate(Boxed(), draws=40)
    averaged = polinfer.tabulate(Hidden(), draws=40, markov="ignore")
    polinfer.save_table(averaged, tmp_path / "t.npz")
    assert polinfer.load_table(tmp_path / "t.npz").averaged


class Boxed(Hidden):
    """The switch is thrown anew at each step, so that it hides nothing."""

    def step(self, seed, state, action):
        moved, reward, over = super().step(seed, self.State(state.place, True), action)
        moved.switch = seed % 2
        return moved, reward, over


def test_what_is_markov_is_not_refused():
    for seed in range(5):
        assert polinfer.tabulate(Boxed(), draws=20, seed=seed).num_states == 5


def test_homogeneity_is_uniform_under_the_null():
    from scipy import stats

    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        counts = rng.multinomial(60, [0.5, 0.3, 0.2], size=2)
        found.append(homogeneity(np.tile(np.arange(3), 2), np.repeat([0, 1], 3), counts.ravel()))
        assert found[-1] == pytest.approx(stats.chi2_contingency(counts, correction=False).pvalue)
    share = np.mean(np.array(found) < 0.05)
    assert abs(share - 0.05) < 5 * np.sqrt(0.05 * 0.95 / 400)


def test_jax_states_with_one_identity_must_behave_alike():
    class Two(Silent):
        def __init__(self):
            super().__init__(polinfer.make("gridworld/ablation"))
            self.init = lambda key: jnp.array([0, jax.random.bernoulli(key)], jnp.int32)
            self.step = self.move
            self.identity = lambda state: state[:1]
            self.encode = lambda state: state.astype(jnp.float32)
            self.legal = lambda state: jnp.ones(4, bool)

        def move(self, key, state, action):
            over = state[0] == 3
            up = jax.random.uniform(key) < jnp.where(state[1] == 1, 0.9, 0.2)
            place = jnp.where(over, 3, jnp.minimum(state[0] + up, 3)).astype(jnp.int32)
            return Transition(jnp.stack([place, state[1]]), jnp.where(over, 0.0, -1.0), place == 3)

    with pytest.raises(NotMarkovError, match="reached by two ways"):
        polinfer.tabulate(Two(), draws=64)


class Endless(Walk):
    def step(self, seed, state, action):
        return state + 1 + seed % 3, 0.0, False


def test_too_many_states_tell_the_count_and_the_remedy():
    with pytest.raises(TooLargeError, match=r"more than 50 states: \d+ found after expanding .* identity="):
        polinfer.tabulate(Endless(), 50, draws=4)


def test_draws_for_more_than_a_day_are_refused_before_the_first():
    with pytest.raises(CostError, match=r"4,000,000,000 draws of the first state would take about .* days"):
        polinfer.tabulate(Endless(), draws=1_000_000_000)


def test_states_that_cannot_be_hashed_tell_the_remedy():
    class Listed(Walk):
        def init(self, seed):
            return [0]

    with pytest.raises(PolinferError, match=r"a list, which cannot be hashed; .* identity="):
        polinfer.tabulate(Listed(), draws=4)


def test_draws_are_for_problems_that_need_them():
    with pytest.raises(PolinferError, match="lists its outcomes, so its table is exact; leave out draws"):
        polinfer.tabulate(polinfer.make("gridworld/ablation"), draws=4)
    with pytest.raises(PolinferError, match="leave out draws"):
        polinfer.make("gridworld/ablation", draws=4)


def test_random_rewards_of_many_values_are_kept_by_a_few():
    class Paid(Walk):
        def step(self, seed, state, action):
            place, _, over = super().step(seed, state, action)
            return place, random.Random(seed + 1).gauss(2.0 * action, 1.0), over

    table = polinfer.tabulate(Paid(), draws=400)
    assert table.successor.shape[-1] <= 16
    mean = (table.probability * table.reward).sum(axis=-1)[:4]
    stderr = 1 / np.sqrt(np.where(table.draws[:4] > 0, table.draws[:4], 1))
    assert (np.abs(mean - [0.0, 2.0]) < 5 * stderr).all()


def test_an_estimated_table_is_written_and_read(tmp_path, ablation):
    _, _, found = ablation
    for name in ("table.npz", "table.json"):
        polinfer.save_table(found, tmp_path / name)
        read = polinfer.load_table(tmp_path / name)
        np.testing.assert_array_equal(read.draws, found.draws)
        assert read == found


def test_progress_counts_states():
    seen = []
    polinfer.tabulate(Walk(), draws=20, progress=seen.append)
    assert seen[-1].done == seen[-1].total == 5
    assert seen[-1].unit == "states explored"
    assert "draws" in seen[-1].note


@pytest.mark.parametrize(("scale", "draws", "seeds"), [(1.0, 128, 8)])
def test_the_error_of_a_table_is_the_one_that_it_has(ablation, scale, draws, seeds):
    check_error_against_truth(ablation[0], scale, draws, seeds)


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "draws", "seeds"), [(1.0, 128, 60), (3.0, 512, 60)])
def test_the_error_of_a_table_is_the_one_that_it_has_with_many_seeds(ablation, scale, draws, seeds):
    check_error_against_truth(ablation[0], scale, draws, seeds)


RARE = [  # state, action, next state, probability, reward: what matters most comes once in 25 to 50 times
    (0, 0, 1, 1.0, 0.21),
    *[(0, 1, 1, 0.97, 0.0), (0, 1, 3, 0.03, 11.0)],
    *[(0, 2, 1, 0.98, 0.5), (0, 2, 3, 0.02, -9.0)],
    *[(1, 0, 0, 0.8, 0.1), (1, 0, 3, 0.2, 0.0)],
    *[(1, 1, 2, 0.55, 0.4), (1, 1, 0, 0.45, 0.0)],
    *[(1, 2, 2, 0.3, 0.0), (1, 2, 1, 0.7, 0.0)],
    (2, 0, 3, 1.0, 0.9),
    *[(2, 1, 0, 0.6, 0.0), (2, 1, 3, 0.4, 1.3)],
    *[(2, 2, 1, 0.96, 0.0), (2, 2, 3, 0.04, 7.0)],
]


class Rare:
    """Four places; a jackpot, a wreck and a prize that few draws show."""

    num_actions, horizon = 3, 9

    def init(self, seed):
        return 0

    def step(self, seed, state, action):
        rows = [row[2:] for row in RARE if row[:2] == (state, action)]
        reached, _, reward = random.Random(seed).choices(rows, [row[1] for row in rows])[0]
        return reached, reward, reached == 3

    def legal(self, state):
        return [True] * 3


@pytest.mark.parametrize("seeds", [10])
def test_what_few_draws_have_not_shown_is_allowed_for(seeds):
    P, R = np.zeros((4, 3, 4)), np.zeros((4, 3, 4))
    for s, a, n, probability, reward in RARE:
        P[s, a, n], R[s, a, n] = probability, reward
    exact = polinfer.TabularMDP(P, R, 0, [3], 9)
    policy = polinfer.infer(exact, "exact").table_probs()[0].astype(np.float64)
    policy /= policy.sum(axis=1, keepdims=True)
    weight = polinfer.exact.evaluate_policy(exact, policy).occupancy[:3]
    off, said = np.zeros(seeds), np.zeros(seeds)
    for seed in range(seeds):
        table = polinfer.tabulate(Rare(), draws=40, seed=seed)
        answer = polinfer.infer(table, "exact")
        found = answer.table_probs()[0][[table.states.index(state) for state in range(3)]]
        off[seed] = (0.5 * np.abs(found - policy[:3]).sum(axis=-1)) @ weight / weight.sum()
        said[seed] = table_error(answer).distance
    assert not ((said <= 0.03) & (off > 0.03)).any()  # nothing wrong would be trusted
    assert np.mean(off <= said) >= 0.9 - 3 * np.sqrt(0.9 * 0.1 / seeds)


def check_error_against_truth(mdp, scale, draws, seeds):
    """Compare log Z and marginals of estimated tables with the truth, and with what `table_error` says."""
    exact = polinfer.tabulate(mdp).with_problem(reward_scale=scale)
    truth = polinfer.infer(exact, "exact")
    policy = truth.table_probs()[0].astype(np.float64)
    policy /= policy.sum(axis=1, keepdims=True)
    weight = polinfer.exact.evaluate_policy(exact, policy).occupancy * ~exact.absorbing
    weight /= weight.sum()
    silent, off, covered = Silent(mdp), [], []
    for seed in range(seeds):
        table = polinfer.tabulate(silent, draws=draws, seed=seed).with_problem(reward_scale=scale)
        answer = polinfer.infer(table, "exact")
        error = table_error(answer)
        found = answer.table_probs()[0][rows_in(table, exact)]
        distance = float((0.5 * np.abs(found - policy).sum(axis=-1)) @ weight)
        off.append((answer.policies.log_evidence - truth.policies.log_evidence) / error.log_evidence_stderr)
        covered.append(distance <= error.distance)
    # Of `seeds` standardised errors the mean square is one, with a standard error of sqrt(2 / seeds).
    assert abs(np.mean(np.square(off)) - 1) < 4 * np.sqrt(2 / seeds)
    assert np.mean(covered) >= 0.9 - 4 * np.sqrt(0.9 * 0.1 / seeds)
