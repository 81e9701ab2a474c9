"""The answer that a user holds: a posterior over policies, with its diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.core.display import Shown, viewer
from polinfer.core.errors import PolinferError
from polinfer.core.noise import as_uniform, query_words, seed_words
from polinfer.core.protocol import MDP, State, invert_cumulative
from polinfer.exact.solution import PolicyPosterior
from polinfer.posterior.config import MethodConfig
from polinfer.posterior.saving import save
from polinfer.posterior.trace import Trace
from polinfer.posterior.viewing import the_viewer
from polinfer.problems.encoded import EncodedView
from polinfer.problems.lookup import Lookup, native_action, split_observations
from polinfer.problems.registry import Problem
from polinfer.problems.tabular.table import TabularMDP
from polinfer.smc.proposal import Proposal, TableProposal, log_proposal_of


class Chance(NamedTuple):
    """An estimated probability."""

    probability: float
    stderr: float


@dataclass(frozen=True)
class Posterior(Shown):
    """A posterior over deterministic policies, or several of them, one per seed.

    ``posterior[i]`` is the one of seed i; answers to questions about a state are means over seeds, and
    `table_probs` has the seed axis.  What ``sac`` returns has the same form, but is no posterior: it is the
    policy of a baseline.

    Attributes
    ----------
    mdp
        The problem as the user gave it.
    view
        The problem as the engine saw it: the same, a table of it, or the encoded states of a simulator.
    config
        The method's configuration, every default filled in.
    proposal
        The fitted ``q(a|s)``, or the actor of ``sac``; every leaf with a leading seed axis.
    seeds, seed
        How many independent runs it holds, and the first one's seed.
    trace
        How the run went.
    policies
        What is known of whole policies, from methods that sample or enumerate them: evidence, reach policy,
        the most probable policies, and draws; None where there is only a proposal.
    reason
        Why ``auto`` chose the method; empty where it was named.
    """

    mdp: Problem
    view: MDP
    config: MethodConfig
    proposal: Proposal
    seeds: int = 1
    seed: int = 0
    trace: Trace = field(default_factory=Trace)
    policies: PolicyPosterior | None = None
    reason: str = ""

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.config.method

    def __repr__(self) -> str:
        problem = type(self.mdp).__name__
        return f"Posterior({self.method} on {problem}, {self.seeds} seed{'s' if self.seeds > 1 else ''})"

    def __getitem__(self, member: int) -> Posterior:
        if not -self.seeds <= member < self.seeds:
            raise IndexError(f"seed {member} of {self.seeds}")
        picked = member % self.seeds
        return replace(
            self,
            proposal=jax.tree.map(lambda leaf: leaf[np.array([picked])], self.proposal),
            seeds=1,
            seed=self.seed + picked,
            trace=self.trace.of_seed(picked),
        )

    @cached_property
    def states(self) -> tuple[State, ...]:
        """The states of the problem in the order of the rows of `table_probs`."""
        if not isinstance(self.view, TabularMDP):
            raise PolinferError("the states of a problem without a table are not listed")
        table = self.view
        return tuple(range(table.num_states)) if table is self.mdp else table.states

    def action_probs(self, state: State) -> NDArray[np.float32]:
        """Return the probability of each action in `state`, ``[A]``: the mean over seeds."""
        probs: NDArray[np.float32] = self.action_probs_by_seed(state).mean(axis=0)
        return probs

    def action_probs_by_seed(self, state: State) -> NDArray[np.float32]:
        """Return the probability of each action in `state` for each seed, ``[seeds, A]``."""
        several = self._several(state)
        if several is not None:
            every = [np.exp(np.asarray(self._log_probs(jnp.asarray(row)))) for row in several]
            return np.asarray(np.mean(every, axis=0), np.float32)
        return np.exp(self.log_probs_by_seed(state))

    def log_probs_by_seed(self, state: State) -> NDArray[np.float32]:
        """Return ``log q(.|state)`` for each seed, ``[seeds, A]``; -inf where an action is illegal."""
        if isinstance(self.view, TabularMDP) and isinstance(self.proposal, TableProposal):
            place = int(self._to_view(state))
            return _masked_log_softmax(
                np.asarray(self.proposal.rows)[:, place], self.view.legal_actions[place]
            )
        return np.asarray(self._log_probs(self._to_view(state)))

    def sample_policy(self, seed: int, member: int = 0) -> SampledPolicy:
        """Draw one deterministic policy: it gives the same action whenever it is asked about a state."""
        if not 0 <= member < self.seeds:
            raise PolinferError(f"member must lie in 0..{self.seeds - 1}, got {member}")
        return SampledPolicy(self, int(seed), member)

    def probability(self, choices: Mapping[Any, int]) -> Chance:
        """Return the probability that one policy makes all these choices, of an action in each state.

        It is the share among the policies drawn from the posterior (see `policies`); a proposal, which
        chooses independently in each state, gives the product.  The standard error is that of the draws,
        and of the sample that they are drawn from as far as the marginal policy's own error tells.
        """
        if self.policies is not None and self.policies.sampled_policies is not None:
            drawn, errors = self.policies.sampled_policies, self.policies.policy_stderr
            held, of_sample = np.ones(len(drawn), np.bool_), 0.0
            for state, action in choices.items():
                number = int(self._to_view(state))
                held &= drawn[:, number] == int(action)
                if errors is not None:
                    of_sample = max(of_sample, float(errors[number, int(action)]))
            share = float(held.mean())
            return Chance(share, float(np.hypot(np.sqrt(share * (1 - share) / len(drawn)), of_sample)))
        product = np.ones(self.seeds)
        for state, action in choices.items():
            product *= self.action_probs_by_seed(state)[:, int(action)]
        return Chance(float(product.mean()), float(product.std() / np.sqrt(self.seeds)))

    def predict(
        self,
        observation: State,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        *,
        seed: int | None = None,
    ) -> tuple[Any, Any]:
        """Choose an action as Stable-Baselines3's policies do: ``(action, state)``.

        The action is what the problem's own environment takes: a number, or an array where it makes several
        choices at once.

        Parameters
        ----------
        observation
            A state of the problem, or what its environment shows; or a batch, as vectorised environments
            stack them, which is answered by an array of actions.
        state, episode_start
            The hidden state of a recurrent policy, handed back unused: this one has none.
        deterministic
            Take the most probable action instead of drawing one.
        seed
            Makes the draw repeatable.
        """
        del episode_start
        chance = np.random.default_rng(seed)
        batch = split_observations(self.mdp, observation)
        if batch is not None:
            return np.array([self._choose(one, deterministic, chance) for one in batch]), state
        return self._choose(observation, deterministic, chance), state

    def _choose(self, observation: State, deterministic: bool, chance: np.random.Generator) -> Any:
        probs = self.action_probs(observation).astype(np.float64)
        action = probs.argmax() if deterministic else chance.choice(len(probs), p=probs / probs.sum())
        return native_action(self.mdp, int(action))

    def table_probs(self) -> NDArray[np.float32] | None:
        """Return the policies of all `states`, ``[seeds, S, A]``; None where the view is no table."""
        if not isinstance(self.view, TabularMDP):
            return None
        if isinstance(self.proposal, TableProposal):
            # NumPy: a program of its own for each table would take longer to compile than all else to show.
            rows = _masked_log_softmax(np.asarray(self.proposal.rows), self.view.legal_actions)
            return np.asarray(np.exp(rows))
        states = jnp.arange(self.view.num_states)
        probs: NDArray[np.float32] = np.exp(np.asarray(jax.vmap(self._log_probs, out_axes=1)(states)))
        return probs

    @cached_property
    def drawn_policies(self) -> Array | None:
        """Whole policies drawn from the posterior ``[n, S]``; None where a proposal draws them itself."""
        if self.policies is None:
            return None
        if self.policies.sampled_policies is None:
            raise PolinferError(
                f"{self.policies.num_policies:,} policies were too many to keep for drawing whole ones; "
                "use mode 'stepwise', or a smaller problem"
            )
        return jnp.asarray(self.policies.sampled_policies)

    def _log_probs(self, state: State) -> Array:
        return _make_log_probs(self.view)(self.proposal, state)

    def _committed(self, seed: int, state: State) -> Array:
        """Return the action in a state of `view` of each member's sampled policy, ``[seeds]``."""
        number = jnp.asarray(seed % 2**32, jnp.uint32)
        return _make_commit(self.view)(self.proposal, self.drawn_policies, number, state)

    @cached_property
    def _lookup(self) -> Lookup:
        assert isinstance(self.view, TabularMDP)
        return Lookup(self.mdp, self.view)

    def _several(self, state: State) -> list[int] | None:
        """Return the states that an observation may stand for, where there are more than one."""
        if not isinstance(self.view, TabularMDP) or not self.view.observed:
            return None
        rows = self._lookup.rows(state)
        return rows if len(rows) > 1 else None

    def _to_view(self, state: State) -> State:
        """Turn a state of the user's problem into one of the view."""
        if isinstance(self.view, EncodedView):
            return self.view.of(state)
        if isinstance(self.view, TabularMDP):
            return jnp.asarray(self._lookup.rows(state)[0])
        return state

    def plot(self) -> Any:
        """Draw the policy, as its domain draws policies: a `matplotlib.figure.Figure`."""
        return viewer().plot(self)

    def to_frame(self) -> Any:
        """Return the action probabilities as a pandas data frame, which is an optional dependency."""
        return viewer().to_frame(self)

    def to_arviz(self) -> Any:
        """Return drawn policies and their ``J`` for arviz, islands as chains; an optional dependency."""
        return viewer().to_arviz(self)

    def save(self, folder: str | Path) -> None:
        """Write this posterior into `folder`; `polinfer.load` reads it back."""
        save(self, folder)

    def explore(self, *, port: int | None = None, open_browser: bool = True) -> None:
        """Show this posterior in the browser, until it is interrupted; needs the extra ``explore``.

        Parameters
        ----------
        port
            The port of the server, on this machine only; a free one by default.
        open_browser
            Open the page; its address is printed in any case.
        """
        the_viewer()(self, port=port, open_browser=open_browser)


def _masked_log_softmax(logits: NDArray[np.float32], legal: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return logarithms of probabilities ``[..., A]``; -inf where an action is illegal."""
    kept = np.where(legal, logits, -np.inf).astype(np.float32)
    shifted = kept - kept.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)), np.float32)


@dataclass(frozen=True)
class SampledPolicy:
    """One deterministic policy drawn from a posterior (Thompson sampling).

    The action of a state is a pure function of the seed and the state, and nothing needs to be remembered.
    From ``exact`` it is one of the policies that were drawn from the posterior when it was enumerated, a
    thousand unless more were asked for (``samples``).  From a proposal, which is per state
    independent, the choice in one state says nothing of that in another.
    """

    posterior: Posterior
    seed: int
    member: int = 0

    def __call__(self, state: State) -> Any:
        """Return the action that this policy takes in `state`, or on an observation of the environment."""
        action = self.posterior._committed(self.seed, self.posterior._to_view(state))[self.member]
        return native_action(self.posterior.mdp, int(action))


def log_policy_function(view: MDP, proposal: Proposal) -> Callable[[State], Array]:
    """Return the traceable function from a state of `view` to ``log q`` for one member's `proposal`."""
    return log_proposal_of(view, proposal, by_table=isinstance(view, TabularMDP))


def committed_action(view: MDP, drawn: Array | None, words: Array, state: State, probs: Array) -> Array:
    """Return the action in a state of `view` of the sampled policy that `words` stand for.

    It is one of the policies `drawn`, or, of a proposal, the same action whenever the same state is asked.
    """
    if drawn is not None:
        return drawn[words[0] % drawn.shape[0], state]
    zero = jnp.zeros((), jnp.uint32)
    return invert_cumulative(as_uniform(query_words(words, view.identity(state), zero, zero)), probs)


# The weights are arguments of these programs: as constants, XLA would compute with them for seconds.
@lru_cache(maxsize=16)
def _make_log_probs(view: MDP) -> Callable[[Proposal, State], Array]:
    """Compile ``log q`` of every member in a state; posteriors of one problem share it."""
    return jax.jit(
        lambda members, state: jax.vmap(lambda one: log_policy_function(view, one)(state))(members)
    )


@lru_cache(maxsize=16)
def _make_commit(view: MDP) -> Callable[[Proposal, Array | None, Array, State], Array]:
    """Compile the action of every member's sampled policy in a state."""

    def commit(members: Proposal, drawn: Array | None, seed: Array, state: State) -> Array:
        def one(member: Proposal) -> Array:
            probs = jnp.exp(log_policy_function(view, member)(state))
            return committed_action(view, drawn, seed_words(seed), state, probs)

        return jax.vmap(one)(members)

    return jax.jit(commit)
