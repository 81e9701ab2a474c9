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

    def behaviour(self, actor: NetworkProposal) -> Callable[[State], Array]:
        """Return the function from a state to ``pi(.|s)``."""
        if self.by_table:
            rows = self._rows(actor)
            return lambda state: jnp.exp(log_policy(rows[state], self.mdp.legal(state)))
        return lambda state: jnp.exp(log_policy(actor.logits(self.mdp.encode(state)), self.mdp.legal(state)))

    def bootstrap(self, targets: NetworkProposal) -> Callable[[State], Array]:
        """Return the function from a batch of states to the lower of both targets' values, ``[B, A]``.

        Targets that rest for many updates are evaluated once for all states of a table.
        """
        table, config = self.mdp, self.config
        updates = max(1, config.target_every // config.steps_per_update)
        if isinstance(table, TabularMDP) and table.num_states <= updates * config.batch:
            rows = jax.vmap(self._rows)(targets).min(axis=0)
            return lambda states: rows[states]
        return lambda states: self._each_critic(targets, states).min(axis=0)

    def learn(
        self, learner: Learner, batch: Experience, bootstrap: Callable[[State], Array]
    ) -> tuple[Learner, Array, Array]:
        """Make one update of all but the targets; return the critics' loss and the mean entropy, too."""
        config = self.config
        alpha = jnp.exp(learner.log_alpha)
        legal, legal_next = jax.vmap(self.mdp.legal)(batch.state), jax.vmap(self.mdp.legal)(batch.successor)
        taken = jax.nn.one_hot(batch.action, self.mdp.num_actions, dtype=jnp.float32)

        log_next = self._log_policy(learner.actor, batch.successor, legal_next)
        gamma = config.gamma * discount_of(self.mdp)
        goes_on = gamma * (1.0 - batch.terminated.astype(jnp.float32))
        later = bootstrap(batch.successor) - alpha * (log_next - self._log_reference(batch.successor))
        wanted = batch.reward + goes_on * _expect(log_next, legal_next, later)

        def critic_loss(critics: NetworkProposal) -> Array:
            guessed = (self._each_critic(critics, batch.state) * taken).sum(axis=-1)
            return ((guessed - wanted) ** 2).mean(axis=-1).sum()

        loss, slope = jax.value_and_grad(critic_loss)(learner.critics)
        critics, critic_optimiser = self._descend("critics", learner.critics, slope, learner)
        worth = self._each_critic(critics, batch.state).min(axis=0)

        def actor_loss(actor: NetworkProposal) -> tuple[Array, Array]:
            log_pi = self._log_policy(actor, batch.state, legal)
            entropy = -_expect(log_pi, legal, log_pi)
            held = _expect(log_pi, legal, self._log_reference(batch.state)) if self._has_prior else 0.0
            return (-_expect(log_pi, legal, worth) - alpha * (entropy + held)).mean(), entropy

        slope, entropy = jax.grad(actor_loss, has_aux=True)(learner.actor)
        actor, actor_optimiser = self._descend("actor", learner.actor, slope, learner)
        log_alpha, alpha_optimiser = learner.log_alpha, learner.optimisers["alpha"]
        if config.autotune:
            kept = _TARGET_ENTROPY * jnp.log(legal.sum(axis=-1).astype(jnp.float32))
            slope = alpha * (entropy - kept).mean()
            log_alpha, alpha_optimiser = self._descend("alpha", learner.log_alpha, slope, learner)

        optimisers = {"actor": actor_optimiser, "critics": critic_optimiser, "alpha": alpha_optimiser}
        after = Learner(actor, critics, learner.targets, log_alpha, optimisers)
        return after, loss, entropy.mean()

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

    def _rows(self, network: NetworkProposal) -> Array:
        """Return the network's outputs in all states of the table, ``[S, A]``."""
        table = self.mdp
        assert isinstance(table, TabularMDP)
        return jax.vmap(lambda state: network.logits(table.encode(state)))(jnp.arange(table.num_states))

    def _values(self, network: NetworkProposal, states: State) -> Array:
        """Return the network's outputs in a batch of states, ``[B, A]``."""
        if self.by_table:
            assert isinstance(self.mdp, TabularMDP)
            # A product with ones and zeros: XLA on CPU makes a loop of a gather's gradient.
            picked: Array = jax.nn.one_hot(states, self.mdp.num_states, dtype=jnp.float32)
            return picked @ self._rows(network)
        return jax.vmap(lambda state: network.logits(self.mdp.encode(state)))(states)

    def _each_critic(self, critics: NetworkProposal, states: State) -> Array:
        """Return both critics' values, ``[2, B, A]``."""
        return jax.vmap(self._values, in_axes=(0, None))(critics, states)

    @property
    def _has_prior(self) -> bool:
        return has_prior(self.mdp)

    def _log_reference(self, states: State) -> Array:
        """Return what the divergence is taken from, ``[B, A]``: zeros (so it is entropy) without a prior."""
        if not self._has_prior:
            return jnp.zeros(())
        log_prior = jax.vmap(lambda state: log_prior_of(self.mdp, state))(states)
        return jnp.where(jnp.isfinite(log_prior), log_prior, 0.0)

    def _log_policy(self, actor: NetworkProposal, states: State, legal: Array) -> Array:
        """Return ``log pi`` ``[B, A]``; zero where illegal, so that nothing times it is not a number."""
        return jnp.where(legal, log_policy(self._values(actor, states), legal), 0.0)


def _expect(log_pi: Array, legal: Array, of: Array) -> Array:
    """Return the mean of `of` under the policy, ``[B]``."""
    return jnp.where(legal, jnp.exp(log_pi) * of, 0.0).sum(axis=-1)
