"""A run of soft actor-critic, segment by segment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.actor_critic.config import SacConfig
from polinfer.actor_critic.replay import lay_in
from polinfer.actor_critic.sac import SacMetrics, SacState, SacTrainer, Segment, make_sac_trainer
from polinfer.core.errors import PolinferError
from polinfer.core.files import Arrays, flatten_arrays, unflatten_arrays
from polinfer.core.progress import Progress
from polinfer.core.protocol import MDP
from polinfer.core.threads import thread_limit
from polinfer.posterior.checkpoint import Checkpoint, Piece, Snapshot, run_in_pieces
from polinfer.posterior.trace import Trace
from polinfer.problems.tables import Representation, table_of
from polinfer.smc.proposal import NetworkProposal

COLUMNS = tuple(name for name in SacMetrics._fields if name != "finite")
_SEGMENTS = 100
_SPLIT = 4  # seeds, from which on they are trained in two threads
_TOGETHER = 8  # seeds of a group, at most
_LONGEST = 10_000  # steps; the block that a segment fills stays in the processor's cache


class Block(NamedTuple):
    """The transitions of one segment, and where in the replay store they belong."""

    position: int
    rows: NDArray[np.int32]  # [seeds, n, W]


class SacPiece(NamedTuple):
    """What a segment leaves behind."""

    done: int  # steps
    state: SacState
    metrics: SacMetrics
    block: Block


class FittedActor(NamedTuple):
    """A trained actor."""

    view: MDP  # the problem as training saw it
    actor: NetworkProposal  # every leaf with a leading seed axis
    trace: Trace


def fit_actor(
    mdp: MDP,
    config: SacConfig,
    *,
    seed: int = 0,
    seeds: int = 1,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> FittedActor:
    """Train each seed; a run that is resumed ends as if it had not stopped."""
    # Single precision, even in a program that has switched JAX to double.
    with jax.enable_x64(False):
        done, state = 0, sac_trainer(mdp, config).init(range(seed, seed + seeds))
        trace = Trace.empty("steps", COLUMNS, seeds)
        saved = checkpoint.read() if checkpoint is not None else None
        blocks: list[Block] = []
        if saved is not None:
            state = unflatten_arrays(state, saved.arrays, "state", "the checkpoint")
            done, trace = saved.done, saved.trace or trace
            blocks = [_read_block(saved.blocks, end) for end in kept_ends(config, done)]
        state, trace = run_in_pieces(
            (_as_piece(config, piece) for piece in sac_segments(mdp, config, done, state, blocks)),
            state,
            trace,
            seed=seed,
            total=config.steps,
            note=_note,
            progress=progress,
            checkpoint=checkpoint,
        )
        return FittedActor(choose_sac_representation(mdp, config).mdp, state.learner.actor, trace)


def _as_piece(config: SacConfig, piece: SacPiece) -> Piece:
    def snapshot(trace: Trace) -> Snapshot:
        block: Arrays = {"rows": piece.block.rows, "position": np.asarray(piece.block.position)}
        return Snapshot(
            piece.done,
            flatten_arrays(piece.state, "state"),
            trace,
            {_block_name(piece.done): block},
            frozenset(map(_block_name, kept_ends(config, piece.done))),
        )

    return Piece(piece.done, piece.state, piece.metrics, snapshot)


def _read_block(blocks: Mapping[str, Arrays], end: int) -> Block:
    found = blocks.get(_block_name(end))
    if found is None or found.keys() != {"rows", "position"}:
        raise PolinferError(
            f"the block {_block_name(end)} of the replay store is missing or damaged; start the run again"
        )
    return Block(int(found["position"]), found["rows"])


def _block_name(end: int) -> str:
    return f"{end:012d}"


def _note(trace: Trace) -> str:
    gained, entropy = float(trace["episode_return"][-1].mean()), float(trace["entropy"][-1].mean())
    return f"return {gained:.3f}  entropy {entropy:.3f}"


def choose_sac_representation(mdp: MDP, config: SacConfig) -> Representation:
    """Evaluate networks for all states of a table where those are half a batch at most: measured."""
    table = table_of(mdp)
    if table is None:
        return Representation(mdp, by_table=False)
    return Representation(table, by_table=2 * table.num_states <= config.batch)


def sac_trainer(mdp: MDP, config: SacConfig) -> SacTrainer:
    """Return the compiled functions for `config` on `mdp`."""
    view = choose_sac_representation(mdp, config)
    return make_sac_trainer(view.mdp, config, view.by_table, _block_size(config))


def sac_segments(
    mdp: MDP, config: SacConfig, done: int, state: SacState, blocks: Iterable[Block] = ()
) -> Iterator[SacPiece]:
    """Run the segments after the first `done` steps; `blocks` are what was stored until then."""
    trainer = sac_trainer(mdp, config)
    size, stride = _block_size(config), config.steps_per_update
    capacity = _round_up(config.buffer, stride)
    seeds = jax.tree.leaves(state)[0].shape[0]
    # The last block may be laid in shortly before the end: there is room for all of it.
    rows = min(capacity, _round_up(config.steps, stride)) + size
    groups = _groups(seeds)
    states = [jax.tree.map(lambda leaf, own=own: leaf[own], state) for own in groups]
    stores = [jnp.zeros((own.stop - own.start, rows, trainer.width), jnp.int32) for own in groups]
    for block in blocks:
        if block.rows.ndim != 3 or block.rows.shape[::2] != (seeds, trainer.width):
            raise PolinferError(
                f"a block of the replay store has the shape {list(block.rows.shape)}, not {seeds} seeds of "
                f"rows of {trainer.width} words; remove the run and start again"
            )
        padded = np.zeros((seeds, size, trainer.width), np.int32)
        padded[:, : block.rows.shape[1]] = block.rows
        place = _whole(block.position, block.rows.shape[1])
        stores = [
            lay_in(store, jnp.asarray(padded[own]), *place) for store, own in zip(stores, groups, strict=True)
        ]
    for upto in (end for end in segment_ends(config) if end > done):
        run = trainer.collect if upto <= _round_up(config.learning_starts, stride) else trainer.learn
        # When the store is full, what will be overwritten next can be drawn until the segment ends.
        stored = min(done, capacity)
        position, count = done % capacity, upto - done
        span, place = _whole(stored, done // stride, upto // stride), _whole(position, count)

        def advance(state: SacState, store: Array, run: Segment = run, span: Any = span) -> Any:
            # The precision in force is a thread's own.
            with jax.enable_x64(False):
                found = run(state, store, *span)
                found[1].block_until_ready()
            return found

        with ThreadPoolExecutor(min(len(groups), thread_limit())) as threads:
            pieces = list(threads.map(advance, states, stores))
        states = [piece[0] for piece in pieces]
        stores = [lay_in(store, piece[1], *place) for store, piece in zip(stores, pieces, strict=True)]
        state, fresh, metrics = pieces[0] if len(pieces) == 1 else jax.tree.map(_join, *pieces)
        block = Block(position, np.asarray(fresh[:, :count]))
        done = upto
        yield SacPiece(done, state, metrics, block)


def segment_ends(config: SacConfig) -> list[int]:
    """Return the steps after which segments end.

    No segment is longer than a block, wraps around the store, or begins to learn on its way.
    """
    stride = config.steps_per_update
    total, size, capacity = (
        _round_up(config.steps, stride),
        _block_size(config),
        _round_up(config.buffer, stride),
    )
    ends = {total, _round_up(config.learning_starts, stride), *range(size, total, size)}
    ends |= set(range(capacity, total, capacity))
    return sorted(end for end in ends if end > 0)


def kept_ends(config: SacConfig, done: int) -> list[int]:
    """Return the ends of the segments whose rows, or some of them, are in the store after `done` steps."""
    oldest = done - _round_up(config.buffer, config.steps_per_update)
    return [end for end in segment_ends(config) if oldest < end <= done]


def _block_size(config: SacConfig) -> int:
    return _round_up(max(1, min(_LONGEST, config.steps // _SEGMENTS)), config.steps_per_update)


def _groups(seeds: int) -> list[slice]:
    """Split many seeds in an even number of groups, for two threads: operations this small leave cores idle.

    Groups are small enough for their networks and Adam's moments to stay in the second cache of a core.
    """
    count = 1 if seeds < _SPLIT else 2 * -(-seeds // (2 * _TOGETHER))
    ends = np.cumsum([0, *map(len, np.array_split(np.arange(seeds), count))])
    return [slice(int(first), int(last)) for first, last in pairwise(ends)]


def _join(*parts: Array) -> Array:
    return jnp.concatenate(parts)


def _whole(*numbers: int) -> list[Array]:
    return [jnp.asarray(number, jnp.int32) for number in numbers]


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
