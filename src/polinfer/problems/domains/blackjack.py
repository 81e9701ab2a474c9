"""Blackjack against a dealer with a fixed strategy: the dynamics of Gymnasium's ``Blackjack-v1``."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.core.errors import DomainError, check_at_least, check_finite
from polinfer.core.protocol import (
    Ending,
    Outcomes,
    Starts,
    Transition,
    constant,
    sample_outcome,
    sample_start,
)

ACTIONS = ("stick", "hit")
ENDINGS = (Ending("win", True), Ending("draw", False), Ending("loss", False))
CARDS = np.arange(1, 11, dtype=np.int32)  # the ace first; court cards are tens
CARD_PROBABILITY = np.array([1.0] * 9 + [4.0]) / 13

_WIN, _LOSS = 0, 2
_LOWEST, _HIGHEST = 4, 21  # of the totals that a hand in play can have
_DEALER_STANDS = 17


class Hand(NamedTuple):
    """What is known while a hand is played.  The three finished hands are zero but for their ending."""

    total: Any  # [] int32, 4..21; a usable ace counts 11
    dealer: Any  # [] int32, the dealer's open card, 1 (ace) .. 10
    usable: Any  # [] bool, whether an ace counts 11
    natural: Any  # [] bool, an ace and a ten and nothing else; always false where no rule asks for it
    ending: Any  # [] int32, -1 in play, 0 win, 1 draw, 2 loss


@dataclass(frozen=True)
class Blackjack:
    """Blackjack against a dealer with an infinite deck: stick or hit.

    The dynamics are those of Gymnasium's ``Blackjack-v1`` with the same flags and the same defaults as
    ``gymnasium.make("Blackjack-v1")``.  Every card is drawn from a full deck.  A player beyond 21 loses.  The
    dealer draws until 17 or more, counts an ace as 11 where that fits, and stands on every 17.  A win pays 1,
    a loss -1 and a draw nothing, times `reward_scale`.

    Gymnasium's observation does not show whether a soft 21 is a natural (an ace and a ten as dealt), although
    both flags pay by it.  Here the state says so, or it would not be a Markov decision process; where neither
    flag is set it makes no difference, and no state is split.  The dealer's hidden card is drawn when the
    player sticks rather than with the deal: nothing depends on it before.

    Parameters
    ----------
    natural
        Whether a win with a natural pays 1.5.  As in Gymnasium, ignored when `sab` is true.
    sab
        Whether to play by the rules of Sutton and Barto: a natural beats everything but the dealer's own
        natural, with which it draws.  A dealer's natural is an ordinary 21 against any other hand.
    reward_scale
        A factor on every reward.
    horizon
        The largest number of actions in a hand.  No hand can have more than 20.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.tabulate(Blackjack())
    >>> stick = polinfer.exact.evaluate_policy(table, np.zeros(table.num_states, int))
    >>> {name: round(p, 2) for name, p in stick.endings.items()}
    {'win': 0.38, 'draw': 0.05, 'loss': 0.57}
    """

    natural: bool = False
    sab: bool = True
    reward_scale: float = 1.0
    # With aces counted as 1, two cards are worth at least 2 and each hit adds at least 1: the 20th hit
    # reaches 22, so that no hand is ever cut off.
    horizon: int = 20

    def __post_init__(self) -> None:
        for name in ("natural", "sab"):
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_):
                raise DomainError(f"{name} must be true or false, got {value!r}")
            object.__setattr__(self, name, bool(value))
        check_finite("reward_scale", self.reward_scale)
        object.__setattr__(self, "horizon", check_at_least("horizon", self.horizon, 1))

    @property
    def num_actions(self) -> int:
        """Two: stick and hit."""
        return len(ACTIONS)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Stick and hit, numbered as in Gymnasium."""
        return ACTIONS

    @property
    def endings(self) -> tuple[Ending, ...]:
        """Win, draw and loss."""
        return ENDINGS

    @property
    def naturals_matter(self) -> bool:
        """Whether some rule asks for naturals, so that states tell them apart."""
        return self.sab or self.natural

    @cached_property
    def _stick(self) -> NDArray[np.float64]:
        """The probabilities ``[natural, total, dealer's card, ending]`` of sticking."""
        return _stick_probabilities(self.sab)

    @cached_property
    def _pay(self) -> NDArray[np.float64]:
        """The reward ``[natural, ending]``."""
        of_natural = 1.5 if self.natural and not self.sab else 1.0
        return np.array([[1.0, 0.0, -1.0], [of_natural, 0.0, -1.0]]) * self.reward_scale

    @cached_property
    def _deal(self) -> tuple[NDArray[np.float64], Hand]:
        """The probabilities of the hands that can be dealt, equal ones merged, and the hands."""
        deal: defaultdict[Hand, float] = defaultdict(float)
        cards = list(zip(CARDS.tolist(), CARD_PROBABILITY.tolist(), strict=True))
        for (one, p), (other, q), (dealer, r) in itertools.product(cards, repeat=3):
            usable = 1 in (one, other)
            total = one + other + 10 * usable
            deal[Hand(total, dealer, usable, self.naturals_matter and total == _HIGHEST, -1)] += p * q * r
        hands = sorted(deal)
        types = (np.int32, np.int32, np.bool_, np.bool_, np.int32)
        columns = zip(zip(*hands, strict=True), types, strict=True)
        return np.array([deal[hand] for hand in hands]), Hand(*(np.array(c, t) for c, t in columns))

    def starts(self) -> Starts:
        """List the hands that can be dealt."""
        probability, hands = self._deal
        return Starts(constant(probability), jax.tree.map(jnp.asarray, hands))

    def outcomes(self, state: Hand, action: Array) -> Outcomes:
        """List the ten cards of a hit, the ace first; or win, draw and loss in the first three slots."""
        cards = jnp.asarray(CARDS)
        hit = jnp.asarray(action) == 1
        over = state.ending >= 0
        # Counted with all aces as 1.  An ace that no longer fits as 11 never will again, so that the hand's
        # cards need not be known.
        plain = state.total - jnp.where(state.usable, 10, 0) + cards
        usable = (state.usable | (cards == 1)) & (plain + 10 <= _HIGHEST)
        # The last seven slots of sticking are never drawn; they hold what the third does.
        ending_of_stick = np.minimum(np.arange(len(CARDS), dtype=np.int32), _LOSS)
        reached_ending = jnp.where(hit, jnp.where(plain > _HIGHEST, _LOSS, -1), jnp.asarray(ending_of_stick))
        reached_ending = jnp.where(over, state.ending, reached_ending).astype(jnp.int32)
        ended = reached_ending >= 0
        reached = Hand(
            jnp.where(ended, 0, plain + jnp.where(usable, 10, 0)).astype(jnp.int32),
            jnp.where(ended, 0, state.dealer).astype(jnp.int32),
            usable & ~ended,
            jnp.zeros(len(CARDS), jnp.bool_),
            reached_ending,
        )
        natural = jnp.asarray(state.natural).astype(jnp.int32)
        stick = constant(self._stick)[natural, state.total, state.dealer]
        probability = jnp.where(
            hit,
            constant(CARD_PROBABILITY),
            jnp.concatenate([stick, jnp.zeros(len(CARDS) - len(ENDINGS), stick.dtype)]),
        )
        pay = constant(self._pay)[natural, reached_ending]
        reward = jnp.where(ended & ~over, pay, jnp.zeros_like(pay))
        return Outcomes(probability, Transition(reached, reward, ended))

    def init(self, key: Array) -> Hand:
        """Deal."""
        state: Hand = sample_start(key, self.starts())
        return state

    def step(self, key: Array, state: Hand, action: Array) -> Transition:
        """Draw a card, or let the dealer play."""
        return sample_outcome(key, self.outcomes(state, action))

    def encode(self, state: Hand) -> Array:
        """Return total and dealer's card, each one-hot, and the flags; nothing but zeros after the end."""
        total = jax.nn.one_hot(state.total - _LOWEST, _HIGHEST - _LOWEST + 1, dtype=jnp.float32)
        dealer = jax.nn.one_hot(state.dealer - 1, len(CARDS), dtype=jnp.float32)
        flags = [state.usable, state.natural] if self.naturals_matter else [state.usable]
        return jnp.concatenate([total, dealer, jnp.stack(flags).astype(jnp.float32)])

    def identity(self, state: Hand) -> Array:
        """Return the ending of a finished hand, and a number that `hands_of` reads for any other."""
        flags = 2 * jnp.asarray(state.natural, jnp.int32) + jnp.asarray(state.usable, jnp.int32)
        playing = (flags * 16 + state.dealer) * 32 + state.total
        return jnp.where(state.ending >= 0, state.ending, playing).astype(jnp.int32)[None]

    def legal(self, state: Hand) -> Array:
        """Both actions."""
        del state
        return jnp.ones(self.num_actions, jnp.bool_)

    def ending(self, state: Hand) -> Array:
        """0 for a win, 1 for a draw, 2 for a loss, -1 in play."""
        return jnp.asarray(state.ending, jnp.int32)

    def state_name(self, state: Any) -> str:
        """Name a hand: ``hard 16 vs 10``, ``soft 18 vs ace``, ``natural vs 9``, ``win``."""
        total, dealer, usable, natural, ending = (int(np.asarray(x)) for x in state)
        if ending >= 0:
            return ENDINGS[ending].name
        player = "natural" if natural else f"{'soft' if usable else 'hard'} {total}"
        return f"{player} vs {'ace' if dealer == 1 else dealer}"


def hands_of(identities: NDArray[np.int32]) -> Hand:
    """Return the hands ``[S]`` that have these identities ``[S, 1]``: the inverse of `Blackjack.identity`.

    Examples
    --------
    >>> mdp = Blackjack()
    >>> deal = mdp.starts().state
    >>> hands = hands_of(np.asarray(jax.vmap(mdp.identity)(deal)))
    >>> all(np.array_equal(a, b) for a, b in zip(hands, deal, strict=True))
    True
    """
    number = np.asarray(identities)[:, 0]
    ended = number < len(ENDINGS)
    playing = np.where(ended, 0, number)
    return Hand(
        total=playing % 32,
        dealer=playing // 32 % 16,
        usable=playing // 512 % 2 == 1,
        natural=playing // 1024 == 1,
        ending=np.where(ended, number, -1),
    )


@cache
def _stick_probabilities(sab: bool) -> NDArray[np.float64]:
    """Return ``[natural, total, dealer's card, ending]``; what is no hand wins: all rows sum to one."""
    table = np.zeros((2, _HIGHEST + 1, len(CARDS) + 1, len(ENDINGS)))
    table[..., _WIN] = 1.0
    for dealer in CARDS.tolist():
        final = _dealer_finals(dealer, dealer == 1)
        for total in range(_LOWEST, _HIGHEST + 1):
            table[:, total, dealer] = final[:total].sum(), final[total], final[total + 1 :].sum()
        if sab:
            # An ace needs a ten, and a ten an ace; the dealer's first card is no natural alone.
            ten_or_ace = {1: CARD_PROBABILITY[-1], 10: CARD_PROBABILITY[0]}.get(dealer, 0.0)
            table[1, _HIGHEST, dealer] = 1.0 - ten_or_ace, ten_or_ace, 0.0
    table.setflags(write=False)
    return table


@cache
def _dealer_finals(plain: int, ace: bool) -> NDArray[np.float64]:
    """Return the probabilities ``[22]`` of the dealer's final totals, 0 for more than 21.

    `plain` is the worth of the dealer's cards with aces as 1, and `ace` whether there is one.
    """
    total = plain + 10 if ace and plain + 10 <= _HIGHEST else plain
    final = np.zeros(_HIGHEST + 1)
    if total >= _DEALER_STANDS:
        final[total if total <= _HIGHEST else 0] = 1.0
        return final
    for card, probability in zip(CARDS.tolist(), CARD_PROBABILITY, strict=True):
        final += probability * _dealer_finals(plain + card, ace or card == 1)
    return final
