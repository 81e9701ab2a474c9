"""Random valid tables and what must hold for every table, shared by the tests in this folder."""

from typing import Any

import numpy as np

from polinfer.problems.tabular import OutcomeRows, TabularMDP

ARRAYS = (
    "successor",
    "probability",
    "reward",
    "initial",
    "absorbing",
    "legal_actions",
    "ending_of",
    "identities",
)
SCALARS = ("horizon", "state_names", "action_names", "endings", "features")


def random_table(seed: int, **options: Any) -> TabularMDP:
    """Make a table with random sizes, masks, duplicate successors and random rewards."""
    rng = np.random.default_rng(seed)
    states, actions = (int(n) for n in rng.integers(1, 6, 2))
    absorbing = rng.random(states) < 0.3
    legal = rng.random((states, actions)) < 0.7
    legal[np.arange(states), rng.integers(actions, size=states)] = True
    rows = []
    for s, a in zip(*np.nonzero(legal & ~absorbing[:, None]), strict=True):
        count = int(rng.integers(1, 5))
        for p in rng.dirichlet(np.ones(count)):
            rows.append((s, a, rng.integers(states), p, rng.normal()))
    initial = rng.dirichlet(np.ones(states)) * (rng.random(states) < 0.7)
    if initial.sum() == 0:
        initial[rng.integers(states)] = 1.0
    success = absorbing & (rng.random(states) < 0.5) if rng.random() < 0.5 else None
    columns = list(zip(*rows, strict=True)) or [(), (), (), (), ()]
    kinds = (np.int64, np.int64, np.int64, np.float64, np.float64)
    return TabularMDP.from_outcomes(
        OutcomeRows(*(np.array(c, k) for c, k in zip(columns, kinds, strict=True))),
        states,
        actions,
        initial / initial.sum(),
        absorbing,
        int(rng.integers(1, 50)),
        legal=legal,
        success=success,
        **options,
    )


def assert_equal_tables(one: TabularMDP, other: TabularMDP) -> None:
    """Assert that two tables are the same to the last bit."""
    for name in ARRAYS:
        a, b = getattr(one, name), getattr(other, name)
        assert a.dtype == b.dtype, name
        np.testing.assert_array_equal(a, b, err_msg=name)
    for name in SCALARS:
        assert getattr(one, name) == getattr(other, name), name


def assert_valid(table: TabularMDP) -> None:
    """Assert what the engines rely on."""
    S, A = table.num_states, table.num_actions
    assert table.successor.shape == table.probability.shape == table.reward.shape
    assert table.successor.dtype == np.int32
    assert ((table.successor >= 0) & (table.successor < S)).all()
    assert (table.probability >= 0).all()
    np.testing.assert_allclose(table.probability.sum(axis=-1), 1.0, rtol=0, atol=1e-12)
    assert np.isfinite(table.reward).all()
    assert table.initial.shape == (S,)
    assert (table.initial >= 0).all()
    assert abs(table.initial.sum() - 1) < 1e-12
    assert table.absorbing.shape == (S,)
    assert table.absorbing.dtype == np.bool_
    assert table.legal_actions.shape == (S, A)
    assert table.legal_actions.dtype == np.bool_
    assert table.legal_actions.any(axis=1).all()
    at_rest = (~table.legal_actions | table.absorbing[:, None])[:, :, None] & (table.probability > 0)
    assert (table.successor == np.arange(S)[:, None, None])[at_rest].all()
    assert (table.reward[at_rest] == 0).all()
    assert type(table.horizon) is int
    assert table.horizon >= 1
    assert len(set(table.state_names)) == len(table.state_names) == S
    assert len(set(table.action_names)) == len(table.action_names) == A
    assert all(type(name) is str for name in (*table.state_names, *table.action_names))
    assert table.ending_of.shape == (S,)
    assert ((table.ending_of == -1) | table.absorbing).all()
    assert ((table.ending_of >= -1) & (table.ending_of < len(table.endings))).all()


def dense(table: TabularMDP) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities and the expected payments ``[S, A, S]`` of a table."""
    S, A, B = table.successor.shape
    probability, payment = np.zeros((S, A, S)), np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            for b in range(B):
                probability[s, a, table.successor[s, a, b]] += table.probability[s, a, b]
                payment[s, a, table.successor[s, a, b]] += table.probability[s, a, b] * table.reward[s, a, b]
    return probability, payment
