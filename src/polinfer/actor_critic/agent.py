"""The learning half of discrete soft actor-critic: networks, targets, losses.

Haarnoja et al. 2018, for discrete actions Christodoulou 2019; settings as in CleanRL (Huang et al. 2022).
The actor's loss sums over actions, where CleanRL's discrete agent takes the mean over them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from polinfer.actor_critic.config import SacConfig
from polinfer.actor_critic.passes import Pass, backward, forward
from polinfer.actor_critic.replay import Experience
from polinfer.core.protocol import MDP, State, discount_of, has_prior, log_prior_of
from polinfer.problems.tabular.table import TabularMDP
from polinfer.smc.proposal import NetworkProposal, log_policy

_TARGET_ENTROPY = 0.89  # share of the uniform policy's entropy, for a tuned alpha


class Learner(NamedTuple):
    """What is learned, and what learning remembers."""

    actor: NetworkProposal
    critics: NetworkProposal  # every leaf ``[2, ...]``
    targets: NetworkProposal  # likewise
    log_alpha: Array
    optimisers: dict[str, Any]  # of actor, critics and alpha


Known = tuple[Pass, Pass] | None
"""Actor and critics, evaluated in all states of a table: good until they change."""


@dataclass(frozen=True)
class SacAgent:
    """The functions of one configuration on one MDP; unbatched over seeds.

    With `by_table`, networks are evaluated once for all states of a table and looked up by the batch.
    """

    mdp: MDP
    config: SacConfig
    by_table: bool

    def initial(self, seed: int) -> Learner:
        """Return an untrained learner; its policy is uniform."""
        config, actions = self.config, self.mdp.num_actions
        features = jax.eval_shape(self.mdp.encode, jax.eval_shape(self.mdp.init, jax.random.key(0))).shape[0]

        def network(number: int, zero_last: bool) -> NetworkProposal:
            own = (number, seed)
            return NetworkProposal.initial(own, features, actions, config.width, config.depth, zero_last)

        actor = network(0, zero_last=True)
        critics = jax.tree.map(lambda *two: jnp.stack(two), network(1, False), network(2, False))
        log_alpha = jnp.log(jnp.asarray(config.alpha, jnp.float32))
        parts = {"actor": actor, "critics": critics, "alpha": log_alpha}
        return Learner(
            actor=actor,
            critics=critics,
            targets=jax.tree.map(jnp.copy, critics),
            log_alpha=log_alpha,
            optimisers={name: self._adam(name).init(part) for name, part in parts.items()},
        )

    def known(self, learner: Learner) -> Known:
        """Evaluate actor and critics in all states of a table, for the updates to come; nothing elsewhere."""
        return self._evaluate(learner) if self.by_table else None

    def behaviour(self, actor: NetworkProposal, known: Known = None) -> Callable[[State], Array]:
        """Return the function from a state to ``pi(.|s)``."""
        if self.by_table:
            rows = forward(actor, self._features).outputs if known is None else known[0].outputs
            return lambda state: jnp.exp(log_policy(rows[state], self.mdp.legal(state)))
        return lambda state: jnp.exp(log_policy(actor.logits(self.mdp.encode(state)), self.mdp.legal(state)))

    def bootstrap(self, targets: NetworkProposal) -> Callable[[State], Array]:
        """Return the function from a batch of states to the lower of both targets' values, ``[B, A]``.

        Targets that rest for many updates are evaluated once for all states of a table.
        """
        table, config = self.mdp, self.config
        updates = max(1, config.target_every // config.steps_per_update)
        once = isinstance(table, TabularMDP) and table.num_states <= updates * config.batch
        if self.by_table or once:
            rows = self._each_critic(targets, self._features).outputs.min(axis=0)
            return lambda states: rows[states]
        return lambda states: self._each_critic(targets, self._encode(states)).outputs.min(axis=0)

    def learn(
        self, learner: Learner, batch: Experience, bootstrap: Callable[[State], Array], known: Known = None
    ) -> tuple[Learner, Known, Array, Array]:
        """Make one update of all but the targets; return what is known then, the critics' loss, the entropy.

        Rows are those of the batch, states before successors, or all states of a table with the
        share of the batch that is in each.
        """
        config = self.config
        alpha = jnp.exp(learner.log_alpha)
        taken = _one_hot(batch.action, self.mdp.num_actions)
        size = config.batch
        if self.by_table:
            actor_pass, critic_pass = known or self._evaluate(learner)
            features = self._features
            states = later = jnp.arange(len(features))
            # Products with ones and zeros: XLA on CPU makes loops of gathers and of their gradients.
            now, then = (
                jax.nn.one_hot(of, len(states), dtype=jnp.float32) for of in (batch.state, batch.successor)
            )
            share = now.mean(axis=0)
        else:
            states, later = batch.state, batch.successor
            features = self._encode(states)
            # One product for states and successors.
            actor_pass = forward(learner.actor, jnp.concatenate([features, self._encode(later)]))
            critic_pass = self._each_critic(learner.critics, features)
            share = jnp.full(size, 1 / size)
        legal, legal_later = jax.vmap(self.mdp.legal)(states), jax.vmap(self.mdp.legal)(later)

        log_later = _log_policy(actor_pass.outputs[-len(share) :], legal_later)
        paid = bootstrap(later) - alpha * (log_later - self._log_reference(later))
        value = _expect(log_later, legal_later, paid)
        gamma = config.gamma * discount_of(self.mdp)
        goes_on = gamma * (1.0 - batch.terminated.astype(jnp.float32))
        wanted = batch.reward + goes_on * (then @ value if self.by_table else value)

        guessed = critic_pass.outputs if not self.by_table else now @ critic_pass.outputs  # [2, B, A]
        error = (guessed * taken).sum(axis=-1) - wanted
        loss = (error**2).mean(axis=-1).sum()
        slope = (2 / size) * error[..., None] * taken
        if self.by_table:
            slope = now.T @ slope
        critic_slope = jax.vmap(backward, in_axes=(0, None, 0, 0))(
            learner.critics, features, critic_pass, slope
        )
        critics, critic_optimiser = self._descend("critics", learner.critics, critic_slope, learner)
        critic_pass = self._each_critic(critics, features)
        worth = critic_pass.outputs.min(axis=0)

        first = jax.tree.map(lambda rows: rows[: len(share)], actor_pass)

        def actor_loss(rows: Array) -> tuple[Array, Array]:
            log_pi = _log_policy(rows, legal)
            entropy = -_expect(log_pi, legal, log_pi)
            held = _expect(log_pi, legal, self._log_reference(states)) if self._has_prior else 0.0
            return (share * (-_expect(log_pi, legal, worth) - alpha * (entropy + held))).sum(), entropy

        slope, entropy = jax.grad(actor_loss, has_aux=True)(first.outputs)
        actor_slope = backward(learner.actor, features, first, slope)
        actor, actor_optimiser = self._descend("actor", learner.actor, actor_slope, learner)
        log_alpha, alpha_optimiser = learner.log_alpha, learner.optimisers["alpha"]
        if config.autotune:
            kept = _TARGET_ENTROPY * jnp.log(legal.sum(axis=-1).astype(jnp.float32))
            change = alpha * (share * (entropy - kept)).sum()
            log_alpha, alpha_optimiser = self._descend("alpha", learner.log_alpha, change, learner)

        optimisers = {"actor": actor_optimiser, "critics": critic_optimiser, "alpha": alpha_optimiser}
        after = Learner(actor, critics, learner.targets, log_alpha, optimisers)
        # The critics were just evaluated for the actor's sake; the next update begins with these values.
        known = (forward(actor, features), critic_pass) if self.by_table else None
        return after, known, loss, (share * entropy).sum()

    def move_targets(self, learner: Learner, updates: Array) -> Learner:
        """Move the targets towards the critics if that is due after so many updates."""
        stride, every = self.config.steps_per_update, self.config.target_every
        due = updates * stride // every > (updates - 1) * stride // every
        share = jnp.where(due, self.config.tau, 0.0)
        moved = jax.tree.map(lambda old, new: old + share * (new - old), learner.targets, learner.critics)
        return learner._replace(targets=moved)

    def next_move(self, updates: Array) -> Array:
        """Return the number of updates after which targets move for the first time after `updates`."""
        stride = self.config.steps_per_update
        every = max(stride, self.config.target_every)
        return -(-(updates * stride // every + 1) * every // stride)

    def _adam(self, name: str) -> Any:
        import optax  # type: ignore[import-untyped] # noqa: PLC0415 - only training needs it

        rate = self.config.actor_rate if name == "actor" else self.config.critic_rate
        return optax.adam(rate, eps=self.config.adam_epsilon)

    def _descend(self, name: str, part: Any, slope: Any, learner: Learner) -> tuple[Any, Any]:
        change, optimiser = self._adam(name).update(slope, learner.optimisers[name])
        return jax.tree.map(jnp.add, part, change), optimiser

    def _evaluate(self, learner: Learner) -> tuple[Pass, Pass]:
        return forward(learner.actor, self._features), self._each_critic(learner.critics, self._features)

    @property
    def _features(self) -> Array:
        """The features of all states of the table, ``[S, F]``."""
        assert isinstance(self.mdp, TabularMDP)
        return self._encode(jnp.arange(self.mdp.num_states))

    def _encode(self, states: State) -> Array:
        features: Array = jax.vmap(self.mdp.encode)(states)
        return features

    def _each_critic(self, critics: NetworkProposal, features: Array) -> Pass:
        """Evaluate both critics; every leaf is ``[2, ...]``."""
        return jax.vmap(forward, in_axes=(0, None))(critics, features)

    @property
    def _has_prior(self) -> bool:
        return has_prior(self.mdp)

    def _log_reference(self, states: State) -> Array:
        """Return what the divergence is taken from, ``[B, A]``: zeros (so it is entropy) without a prior."""
        if not self._has_prior:
            return jnp.zeros(())
        log_prior = jax.vmap(lambda state: log_prior_of(self.mdp, state))(states)
        return jnp.where(jnp.isfinite(log_prior), log_prior, 0.0)


def _log_policy(logits: Array, legal: Array) -> Array:
    """Return ``log pi`` ``[R, A]``; zero where illegal, so that nothing times it is not a number."""
    return jnp.where(legal, log_policy(logits, legal), 0.0)


def _one_hot(numbers: Array, count: int) -> Array:
    """Return ones and zeros, ``[B, count]``."""
    ones: Array = jax.nn.one_hot(numbers, count, dtype=jnp.float32)
    return ones


def _expect(log_pi: Array, legal: Array, of: Array) -> Array:
    """Return the mean of `of` under the policy, ``[B]``."""
    return jnp.where(legal, jnp.exp(log_pi) * of, 0.0).sum(axis=-1)
