"""The replay store: what goes in comes out, the oldest is overwritten, and nothing else is ever drawn."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polinfer.actor_critic import fit, replay, sac
from polinfer.actor_critic.config import SacConfig
from polinfer.actor_critic.replay import Experience, lay_in, make_packing, pick_rows
from polinfer.actor_critic.sac import SacState, SacTrainer, make_sac_trainer
from polinfer.core.protocol import Transition
from polinfer.smc.proposal import Layer, NetworkProposal

from .sac_cases import LEGAL, masked_softmax, outputs, slippery, weights_of


class Mixed(NamedTuple):
    flags: Any  # [3] bool
    small: Any  # [2, 2] int8
    whole: Any  # [] int32
    real: Any  # [2] float32


def test_packing_gives_back_every_kind_of_leaf() -> None:
    def state(sign: int) -> dict[str, Any]:
        return {
            "mixed": Mixed(
                jnp.array([True, False, sign > 0]),
                jnp.array([[-128, 127], [sign, 0]], jnp.int8),
                jnp.asarray(sign * (2**31 - 1), jnp.int32),
                jnp.array([-0.0, sign * 1.5e-38], jnp.float32),
            ),
            "unsigned": jnp.array([0, 2**32 - 1], jnp.uint32),
        }

    packing = make_packing(jax.eval_shape(lambda: state(1)))
    given = Experience(
        state(1), jnp.asarray(2, jnp.int32), jnp.asarray(-7.25, jnp.float32), state(-1), jnp.asarray(True)
    )
    row = packing.pack(given)
    assert row.shape == (packing.width,) == (2 * (3 + 4 + 1 + 2 + 2) + 3,)
    assert row.dtype == jnp.int32
    found = packing.unpack(row)
    assert jax.tree.structure(found) == jax.tree.structure(given)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(given), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_a_packing_made_in_double_precision_is_single_all_the_same() -> None:
    with jax.enable_x64(True):
        packing = make_packing(jax.ShapeDtypeStruct((), jnp.int32))
    assert packing.unpack(jnp.zeros(packing.width, jnp.int32)).reward.dtype == jnp.float32


def test_picking_rows_at_the_border_of_store_and_block() -> None:
    store = jnp.arange(100, 112, dtype=jnp.int32).reshape(6, 2)
    block = jnp.arange(200, 208, dtype=jnp.int32).reshape(4, 2)
    index = jnp.array([0, 3, 4, 5, 7], jnp.int32)
    found = pick_rows(store, block, index, jnp.asarray(4, jnp.int32))
    assert found[:, 0].tolist() == [100, 106, 200, 202, 206]
    assert pick_rows(store, block, index[:1], jnp.asarray(0, jnp.int32)).tolist() == [[200, 201]]


@pytest.mark.usefixtures("compile_fully")  # of the program that users get
def test_laying_in_writes_its_rows_and_no_others_in_place() -> None:
    store = jnp.arange(2 * 7 * 3, dtype=jnp.int32).reshape(2, 7, 3)
    before = np.asarray(store).copy()
    block = -1 - jnp.arange(2 * 2 * 3, dtype=jnp.int32).reshape(2, 2, 3)
    four, two, one = (jnp.asarray(n, jnp.int32) for n in (4, 2, 1))
    after = lay_in(store, block, four, two)
    assert store.is_deleted()  # its memory was given away
    expected = before.copy()
    expected[:, 4:6] = np.asarray(block)
    np.testing.assert_array_equal(after, expected)
    # Of a block that is not full, the rest is left alone.
    expected[:, 1] = np.asarray(block)[:, 0]
    after = lay_in(after, block, one, one)
    np.testing.assert_array_equal(after, expected)
    text = lay_in.lower(after, block, four, two).compile().as_text()
    assert re.search(r"input_output_alias=\{ *\{\}: \(0, \{\}, ", text)


class Counting:
    """Never ends and counts its steps, so that a transition tells when it was made."""

    num_actions = 2
    horizon = 10**9

    def init(self, key: Any) -> Any:
        return jnp.zeros((), jnp.int32)

    def step(self, key: Any, state: Any, action: Any) -> Transition:
        return Transition(state + 1, state + 0.5, jnp.asarray(False))

    def encode(self, state: Any) -> Any:
        return jnp.ones(1, jnp.float32)

    def identity(self, state: Any) -> Any:
        return state[None]

    def legal(self, state: Any) -> Any:
        return jnp.ones(2, jnp.bool_)


COUNTING = Counting()


def watch_store(config: SacConfig, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """Run `config` on `Counting` and check the store that every segment is given; return the segments."""
    seen: list[tuple[int, bool]] = []
    # Sizes of blocks and stores vary from case to case; acting alone compiles quickly.
    real = fit.sac_trainer(COUNTING, config)
    capacity = -(-config.buffer // config.steps_per_update) * config.steps_per_update

    def watched(learning: bool) -> Any:
        def run(state: SacState, store: Any, stored: Any, first: Any, last: Any) -> Any:
            done = int(first) * config.steps_per_update
            assert int(stored) == min(done, capacity)
            words = np.asarray(store)[0, : int(stored)].copy()
            state_then, _, _, state_after, terminated = words.T
            # Oldest overwritten: the n-th step lies at n modulo the capacity.
            made = np.arange(done - int(stored), done)
            expected = np.empty_like(made)
            expected[made % capacity] = made
            np.testing.assert_array_equal(state_then, expected)
            np.testing.assert_array_equal(state_after, expected + 1)
            np.testing.assert_array_equal(words.view(np.float32)[:, 2], expected + np.float32(0.5))
            assert not terminated.any()
            seen.append((done, learning))
            return real.collect(state, store, stored, first, last)

        return run

    trainer = SacTrainer(real.init, real.width, watched(False), watched(True))
    monkeypatch.setattr(fit, "sac_trainer", lambda *_: trainer)
    last = None
    for piece in fit.sac_segments(COUNTING, config, 0, real.init([4])):
        assert last is None or piece.done > last
        last = piece.done
    assert last == -(-config.steps // config.steps_per_update) * config.steps_per_update
    return seen


@pytest.mark.parametrize(
    ("steps", "buffer", "starts", "stride"),
    [
        (300, 10**6, 41, 3),  # all is kept; learning starts in the middle of a block
        (310, 90, 41, 3),  # wraps, a store of whole blocks
        (290, 4, 17, 2),  # a store of two blocks
        # A segment that ends before its block is full:
        (950, 7, 23, 1),  # a store that is smaller than a block
        (950, 100, 23, 1),  # a store of no whole number of blocks
        (920, 45, 50, 3),  # learning starts after the store has wrapped
    ],
)
def test_the_store_holds_the_latest_transitions_and_nothing_else(
    steps: int, buffer: int, starts: int, stride: int, monkeypatch: pytest.MonkeyPatch, compile_quickly: None
) -> None:
    config = SacConfig(
        steps=steps, buffer=buffer, learning_starts=starts, steps_per_update=stride, batch=2, width=2, depth=1
    )
    seen = watch_store(config, monkeypatch)
    assert min(done for done, learning in seen if learning) == -(-starts // stride) * stride
    assert all(learning == (done >= starts) for done, learning in seen)


# Rates so small that no weight of the actor changes: acting can be watched while learning runs.
STILL = SacConfig(
    alpha=0.3,
    gamma=0.9,
    steps=4_000,
    learning_starts=0,
    batch=48,
    steps_per_update=2,
    critic_rate=1e-30,
    actor_rate=1e-30,
    width=4,
    depth=1,
)
BLOCK, ROWS_STORED = 3_000, 777
drawn: list[tuple[np.ndarray, int]] = []


class Standing(NamedTuple):
    trainer: SacTrainer
    packing: replay.Packing
    state: SacState


@pytest.fixture(scope="module")
def standing() -> Standing:
    """One compiled trainer whose actor is not uniform, and which writes down what it draws."""

    def watched(store: Any, block: Any, index: Any, stored: Any) -> Any:
        jax.debug.callback(lambda i, n: drawn.append((np.asarray(i), int(n))), index, stored)
        return pick_rows(store, block, index, stored)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sac, "pick_rows", watched)
        trainer = make_sac_trainer.__wrapped__(slippery(), STILL, True, BLOCK)
        state = trainer.init([2])
        random = np.random.default_rng(5)
        actor = NetworkProposal(
            tuple(
                Layer(
                    *(jnp.asarray(random.normal(0, 1.0, array.shape), jnp.float32) for array in layer_arrays)
                )
                for layer_arrays in ((layer.weight, layer.bias) for layer in state.learner.actor.layers)
            )
        )
        state = state._replace(learner=state.learner._replace(actor=actor))
        # Traced while the watch stands in the place of the function.
        run(Standing(trainer, make_packing(jnp.zeros((), jnp.int32)), state), 0, 0, 1)
    return Standing(trainer, make_packing(jnp.zeros((), jnp.int32)), state)


def run(
    standing: Standing, stored: int, first: int, last: int, poisoned: Any = slice(0), learn: bool = True
) -> Any:
    """A segment on a store of good rows, but for those that are poisoned with a reward that is no number."""
    drawn.clear()
    row = Experience(*(jnp.asarray(x) for x in (1, 2)), jnp.asarray(0.9), jnp.asarray(3), jnp.asarray(True))
    good = standing.packing.pack(row)
    bad = standing.packing.pack(row._replace(reward=jnp.asarray(jnp.nan)))
    store = jnp.broadcast_to(good, (1, ROWS_STORED, good.shape[0])).at[:, poisoned].set(bad)
    segment = standing.trainer.learn if learn else standing.trainer.collect
    copy = jax.tree.map(jnp.copy, standing.state)  # the state is given away
    result = segment(copy, store, *(jnp.asarray(n, jnp.int32) for n in (stored, first, last)))
    jax.block_until_ready(result)
    jax.effects_barrier()
    return result


def test_draws_cover_exactly_what_was_stored_and_made(standing: Standing) -> None:
    for first in range(5):  # 3 stored rows and the 2 of this update
        run(standing, 3, first, first + 1)
        ((index, stored),) = drawn
        assert stored == 3
        assert index.shape == (48,)
        assert set(index.tolist()) == {0, 1, 2, 3, 4}
    run(standing, 600, 100, 400)
    index = np.stack([row for row, _ in drawn])
    assert index.shape == (300, 48)
    assert index.min() == 0
    assert 1190 <= index.max() < 1200
    # Update k draws one of 602 + 2k rows, so their shares of them are uniform.
    share = np.sort((index + 0.5) / (602 + 2 * np.arange(300))[:, None], axis=None)
    assert np.abs(share - (np.arange(share.size) + 0.5) / share.size).max() < 1.63 / np.sqrt(share.size)
    assert len({tuple(row) for row in index.tolist()}) == 300  # updates draw anew


def test_rows_that_were_not_written_are_never_read(standing: Standing) -> None:
    assert bool(run(standing, 0, 0, 300, slice(None))[2].finite[0])
    assert bool(run(standing, 401, 0, 300, slice(401, None))[2].finite[0])
    # The poison works: the first and the last stored row are drawn.
    assert not bool(run(standing, 401, 0, 300, 400)[2].finite[0])
    assert not bool(run(standing, 401, 0, 300, 0)[2].finite[0])


def test_actions_follow_the_actor_and_before_learning_the_uniform_policy(standing: Standing) -> None:
    actor = weights_of(standing.state.learner.actor, 0)
    probs = masked_softmax(outputs(actor, np.eye(4)), LEGAL)
    assert np.abs(probs - LEGAL / LEGAL.sum(axis=1, keepdims=True))[:3].max(axis=1).min() > 0.05
    unpack = jax.jit(jax.vmap(standing.packing.unpack))
    for learn, expected in ((True, probs), (False, LEGAL / LEGAL.sum(axis=1, keepdims=True))):
        state, rows, _ = run(standing, 0, 0, BLOCK // 2, learn=learn)
        one = jax.tree.map(np.asarray, unpack(rows[0]))
        np.testing.assert_array_equal(weights_of(state.learner.actor, 0)[0], actor[0])
        counts = np.zeros((4, 3))
        np.add.at(counts, (one.state, one.action), 1)
        assert counts[3].sum() == 0  # nobody acts at the end
        visits = counts[:3].sum(axis=1, keepdims=True)
        assert visits.min() > 200
        spread = np.sqrt(visits * expected[:3] * (1 - expected[:3]))
        assert (np.abs(counts[:3] - visits * expected[:3]) <= 5 * spread).all()
        assert (counts[~LEGAL] == 0).all()


def test_episodes_end_in_the_store_only_where_they_end_in_the_problem(standing: Standing) -> None:
    _, rows, metrics = run(standing, 0, 0, BLOCK // 2, learn=False)
    one = jax.tree.map(np.asarray, jax.vmap(standing.packing.unpack)(rows[0]))
    np.testing.assert_array_equal(one.terminated, one.successor == 3)
    # Follow the episodes: at most 3 steps, each from where the last one led; then a start, never the end.
    length, gained, returns, cut_off, starts = 0, 0.0, [], 0, []
    for n in range(BLOCK):
        if length == 0:
            starts.append(one.state[n])
        else:
            assert one.state[n] == one.successor[n - 1]
        length, gained = length + 1, gained + float(one.reward[n])
        if one.terminated[n] or length == 3:
            cut_off += not one.terminated[n]
            returns.append(gained)
            length, gained = 0, 0.0
    assert cut_off > 100
    np.testing.assert_allclose(float(metrics.episode_return[0]), np.mean(returns), rtol=1e-4)
    share = np.bincount(starts, minlength=4) / len(starts)
    wanted = np.array([0.5, 0.2, 0.3, 0.0])
    assert (np.abs(share - wanted) <= 5 * np.sqrt(wanted * (1 - wanted) / len(starts))).all()


@pytest.mark.usefixtures("compile_fully")  # of the program that users get
def test_a_segment_does_not_copy_the_store(standing: Standing) -> None:
    store = jnp.zeros((1, 54_321, standing.trainer.width), jnp.int32)
    trainer = make_sac_trainer(slippery(), STILL, True, BLOCK)
    numbers = [jnp.asarray(n, jnp.int32) for n in (50_000, 0, 10)]
    text = trainer.learn.lower(standing.state, store, *numbers).compile().as_text()
    # Whatever has the store's size is the store itself, handed on.
    makers = re.findall(r" = s32\[(?:\d+,)*54321(?:,\d+)*\]\S* ([\w-]+)\(", text)
    assert "parameter" in makers
    assert set(makers) <= {"parameter", "get-tuple-element", "bitcast"}
    assert not re.search(r"54321.* copy-start\(", text)
