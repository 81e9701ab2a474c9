"""Marginals from conditionals instead of indicators, without bias: Rao-Blackwellisation with a remainder.

Moves of a few states propose each reached state's action from ``c = softmax(log g + scale G)``, with
probability `rho` each.  Let `x` be the indicator of an action in a state, `r` whether the state is reached
(in which its own action has no say) and `A` the chance that a move is accepted; primes are after the move.
Moves are reversible, so ``E[A r r' (x' - x)] = 0`` in equilibrium; and given the policy, ``E[x' - x]`` is
``rho (c - x)``.  Hence

    E[r x] = E[r c] - E[r (1 - A r') (x' - x)] / rho.

A conditional varies far less than an indicator, and the remainder is small where single changes are rarely
refused.  Control variates from reversible chains are due to Dellaportas and Kontoyiannis (2012).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from polinfer.annealing.moves import Kind, Target, Walkers, few_share, softmax
from polinfer.annealing.rows import Evaluation


class Remainder(NamedTuple):
    """What conditionals lack, from one move."""

    lacking: tuple[Array, ...]  # A of [N, P]; zero for moves of other kinds
    counted: Array  # [P] bool, whether the move is one of a few states


def conditionals(target: Target, evaluation: Evaluation) -> tuple[Array, ...]:
    """Return ``r c`` of each action, A of ``[N, P]``: zero where a policy does not come."""
    dtype, actions = evaluation.adjoint.dtype, range(evaluation.adjoint.shape[1])
    slope = target.scale.astype(dtype)
    logits = [target.log_prior[:, a, None].astype(dtype) + slope * evaluation.adjoint[:, a] for a in actions]
    return tuple(jnp.where(evaluation.visits > 0, part, 0.0) for part in softmax(logits))


def remainder(target: Target, kind: Kind, before: Walkers, tried: Walkers, chance: Array) -> Remainder:
    """Return ``-r (1 - A r') (x' - x) / rho`` for moves that are accepted with probabilities `chance`."""
    come = before.evaluation.visits > 0
    kept = jnp.where(tried.evaluation.visits > 0, chance, 0.0)
    counted = ~kind.by_influence & ~kind.from_fill & ~kind.refresh & (kind.tilt == 1.0)
    lost = jnp.where(come & counted, (1.0 - kept) / few_share(target, kind).astype(kept.dtype), 0.0)

    def of(action: int) -> Array:
        return lost * ((before.policy == action).astype(lost.dtype) - (tried.policy == action))

    return Remainder(tuple(of(action) for action in range(before.evaluation.adjoint.shape[1])), counted)
