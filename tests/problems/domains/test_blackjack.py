"""Blackjack: the law is that of a second program that keeps every card, and of Gymnasium's own game."""

import itertools
from collections import Counter, defaultdict
from fractions import Fraction
from functools import cache

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polinfer
from polinfer import exact
from polinfer.core.errors import DomainError, PolinferError
from polinfer.problems.conformance import check_mdp
from polinfer.problems.domains import Blackjack
from polinfer.problems.domains.blackjack import Hand, hands_of

FLAGS = list(itertools.product([False, True], repeat=2))  # natural, sab
DECK = {**{card: Fraction(1, 13) for card in range(1, 10)}, 10: Fraction(4, 13)}
STICK, HIT = 0, 1


@cache
def table_of(natural, sab):
    return polinfer.tabulate(Blackjack(natural=natural, sab=sab))


def policy_from(table, stick_from):
    """Stick on totals from `stick_from` on, ``[S]``."""
    total = hands_of(table.identities).total
    return np.where(total >= stick_from, STICK, HIT)


# -- a second implementation, in which a hand is the sorted tuple of its cards ----------------------------


def worth(cards):
    return sum(cards) + 10 if 1 in cards and sum(cards) <= 11 else sum(cards)


def called(cards, natural, sab):
    if cards == (1, 10) and (natural or sab):
        return "natural"
    return f"{'soft' if worth(cards) > sum(cards) else 'hard'} {worth(cards)}"


@cache
def dealer_ends(cards):
    """Return ``{(total or 'bust', natural): probability}`` of the dealer's final hand."""
    if len(cards) > 1 and worth(cards) >= 17:
        return {("bust" if worth(cards) > 21 else worth(cards), cards == (1, 10)): Fraction(1)}
    ends = defaultdict(Fraction)
    for card, p in DECK.items():
        for end, q in dealer_ends(tuple(sorted((*cards, card)))).items():
            ends[end] += p * q
    return dict(ends)


@cache
def sticking(total, is_natural, natural, sab):
    """Return exact ``[return, win, draw, loss]`` of sticking on a hand, by the dealer's card 1..10."""
    columns = []
    for dealer in range(1, 11):
        win = draw = loss = Fraction(0)
        for (dealer_total, dealer_natural), p in dealer_ends((dealer,)).items():
            if sab and is_natural:
                draw, win = (draw + p, win) if dealer_natural else (draw, win + p)
            elif dealer_total == "bust" or total > dealer_total:
                win += p
            elif total == dealer_total:
                draw += p
            else:
                loss += p
        pay = Fraction(3, 2) if natural and not sab and is_natural else 1
        columns.append((pay * win - loss, win, draw, loss))
    return tuple(zip(*columns, strict=True))


def play(natural, sab, choose):
    """Play as `choose(total, q_stick, q_hit) -> value, probability of hitting` says.

    Returns ``{cards: (value, consequences)}``: ``[10]`` and ``[4, 10]``, as in `sticking`.
    """
    done = {}
    bust = np.outer([-1.0, -1.0, 0.0, 0.0, 1.0], np.ones(10))
    deck = [(card, float(p)) for card, p in DECK.items()]

    def visit(cards):
        """Return the value and the consequences, one below the other."""
        if sum(cards) > 21:
            return bust
        if cards not in done:
            later = sum(p * visit(tuple(sorted((*cards, card)))) for card, p in deck)
            now = np.array(sticking(worth(cards), cards == (1, 10), natural, sab), np.float64)
            value, hit = choose(worth(cards), now[0], later[0])
            done[cards] = np.vstack([value, (1 - hit) * now + hit * later[1:]])
        return done[cards]

    for deal in itertools.combinations_with_replacement(DECK, 2):
        visit(deal)
    return {cards: (rows[0], rows[1:]) for cards, rows in done.items()}


def from_the_deal(hands):
    """Return the value and the consequences ``[4]``, averaged over the deal."""
    value, later = 0.0, np.zeros(4)
    for (one, p), (other, q), (dealer, r) in itertools.product(DECK.items(), repeat=3):
        v, c = hands[tuple(sorted((one, other)))]
        value += float(p * q * r) * v[dealer - 1]
        later += float(p * q * r) * c[:, dealer - 1]
    return value, later


def best(_, stick, hit):
    return np.maximum(stick, hit), (hit > stick).astype(float)


def soft(alpha):
    def choose(_, stick, hit):
        value = alpha * np.logaddexp(stick / alpha, hit / alpha)
        return value, np.exp((hit - value) / alpha)

    return choose


def sticking_from(least):
    def choose(total, stick, hit):
        return (stick, 0.0) if total >= least else (hit, 1.0)

    return choose


def assert_values(table, value, hands, flags):
    """Every hand, card by card, is worth what the table says of the state that it is called."""
    by_name = dict(zip(table.state_names, value, strict=True))
    players = {called(cards, *flags) for cards in hands}
    names = {player: [f"{player} vs {card}" for card in ("ace", *range(2, 11))] for player in players}
    assert {"win", "draw", "loss"}.union(*names.values()) == set(table.state_names)
    got = {player: np.array([by_name[name] for name in names[player]]) for player in players}
    for cards, (want, _) in hands.items():
        assert abs(got[called(cards, *flags)] - want).max() < 1e-9, cards


def assert_consequences(evaluation, later):
    got = [evaluation.expected_return, *(evaluation.endings[name] for name in ("win", "draw", "loss"))]
    np.testing.assert_allclose(got, later, rtol=0, atol=1e-9)
    assert sum(got[1:]) == pytest.approx(1, abs=1e-12)
    assert evaluation.success == evaluation.endings["win"]


@pytest.mark.parametrize("flags", FLAGS)
def test_the_optimum_is_that_of_a_second_implementation(flags):
    table, hands = table_of(*flags), play(*flags, best)
    solution = exact.finite_horizon_optimum(table)
    value, later = from_the_deal(hands)
    assert_values(table, solution.value, hands, flags)
    assert abs(solution.objective - value) < 1e-9
    assert_consequences(exact.evaluate_policy(table, solution.executable), later)


@pytest.mark.parametrize("alpha", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("flags", FLAGS)
def test_soft_values_are_those_of_a_second_implementation(flags, alpha):
    table, hands = table_of(*flags), play(*flags, soft(alpha))
    solution = exact.soft_value_iteration(table, alpha=alpha)
    value, later = from_the_deal(hands)
    assert_values(table, solution.value, hands, flags)
    assert abs(solution.objective - value) < 1e-9
    assert_consequences(exact.evaluate_policy(table, solution.executable), later)


@pytest.mark.parametrize("least", [0, 17, 20])
@pytest.mark.parametrize("flags", FLAGS)
def test_fixed_policies_earn_what_a_second_implementation_says(flags, least):
    table, hands = table_of(*flags), play(*flags, sticking_from(least))
    evaluation = exact.evaluate_policy(table, policy_from(table, least))
    value, later = from_the_deal(hands)
    assert_values(table, evaluation.value, hands, flags)
    assert abs(value - later[0]) < 1e-12
    assert_consequences(evaluation, later)


@pytest.mark.parametrize("flags", FLAGS)
def test_sticking_has_the_exact_probabilities(flags):
    table = table_of(*flags)
    for s in np.flatnonzero(~table.absorbing):
        player, dealer = table.state_names[s].split(" vs ")
        hand = (21, True) if player == "natural" else (int(player[5:]), False)
        column = 0 if dealer == "ace" else int(dealer) - 1
        _, *want = (float(row[column]) for row in sticking(*hand, *flags))
        got = Counter()
        for successor, p in zip(table.successor[s, STICK], table.probability[s, STICK], strict=True):
            got[table.state_names[successor]] += p
        assert [got[name] for name in ("win", "draw", "loss")] == pytest.approx(want, abs=1e-15)


# -- numbers that were written down before ---------------------------------------------------------------


def test_always_sticking_gives_the_numbers_of_the_design():
    table = table_of(False, True)
    stick = exact.evaluate_policy(table, np.zeros(table.num_states, int))
    assert stick.expected_return == pytest.approx(-0.184, abs=2e-3)
    rounded = [round(stick.endings[name], 2) for name in ("win", "draw", "loss")]
    assert rounded == [0.38, 0.05, 0.57]


@pytest.mark.parametrize(
    ("alpha", "of_sab", "of_neither"), [(1.0, -0.244, -0.246), (0.1, -0.061, -0.064), (0.01, -0.043, -0.047)]
)
def test_soft_returns(alpha, of_sab, of_neither):
    # The design prints the last column, which is the game without either flag.
    for sab, want in ((True, of_sab), (False, of_neither)):
        table = table_of(False, sab)
        policy = exact.soft_value_iteration(table, alpha=alpha).executable
        assert round(exact.evaluate_policy(table, policy).expected_return, 3) == want


def test_the_optimum_sticks_from_where_card_counters_say():
    table = table_of(False, True)
    policy = exact.finite_horizon_optimum(table).policy
    hit = {name: p[HIT] == 1 for name, p in zip(table.state_names, policy, strict=True)}
    cards = ("ace", *map(str, range(2, 11)))
    for kind, lowest, want in (
        ("hard", 4, [17, 13, 13, 12, 12, 12, 17, 17, 17, 17]),
        ("soft", 12, [19, 18, 18, 18, 18, 18, 18, 18, 19, 19]),
    ):
        for card, least in zip(cards, want, strict=True):
            hits = [hit[f"{kind} {total} vs {card}"] for total in range(lowest, 22)]
            assert hits == [total < least for total in range(lowest, 22)]


# -- Gymnasium's own environment -------------------------------------------------------------------------


class Dealt:
    """Stands for an environment's random generator, and deals from a list."""

    def __init__(self, cards):
        self.cards = list(cards)

    def choice(self, options):
        return self.cards.pop(0) if options[0] == 1 else options[0]  # a card, or a suit that nobody sees


def environment(natural=False, sab=True):
    return gymnasium.make("Blackjack-v1", natural=natural, sab=sab).unwrapped


@cache
def listed(natural, sab):
    """Return ``{hand: ([probability], [hand], [reward], [terminated])}`` by action, for all hands in play."""
    mdp = Blackjack(natural=natural, sab=sab)
    kinds = [(total, False, False) for total in range(4, 22)] + [(t, True, False) for t in range(12, 22)]
    kinds += [(21, True, True)] if natural or sab else []
    hands = [Hand(t, d, u, n, -1) for (t, u, n), d in itertools.product(kinds, range(1, 11))]
    types = (np.int32, np.int32, np.bool_, np.bool_, np.int32)
    states = Hand(*(np.array(c, t) for c, t in zip(zip(*hands, strict=True), types, strict=True)))
    outcomes = jax.jit(jax.vmap(lambda s: jax.vmap(lambda a: mdp.outcomes(s, a))(jnp.arange(2))))(states)
    probability, state, reward, terminated = (outcomes.probability, *outcomes.transition)
    probability, reward, terminated = (np.asarray(x).tolist() for x in (probability, reward, terminated))
    columns = [np.asarray(x).tolist() for x in state]
    rows = {}
    for i, hand in enumerate(hands):
        for a in (STICK, HIT):
            reached = [Hand(*(c[i][a][b] for c in columns)) for b in range(10)]
            rows[hand, a] = probability[i][a], reached, reward[i][a], terminated[i][a]
    return rows


def seen(observation):
    total, dealer, usable = observation
    return total, dealer, bool(usable)


def follow(env, cards, actions, flags):
    """Play `cards` in both games; return the hand, action by action."""
    env.np_random = Dealt(cards)
    observation, _ = env.reset()
    natural = (flags[0] or flags[1]) and sorted(env.player) == [1, 10]
    hand = Hand(*seen(observation), natural, -1)
    passed = [hand]
    for action in actions:
        drawn = env.np_random.cards[0] if env.np_random.cards else None
        observation, reward, terminated, truncated, _ = env.step(action)
        assert not truncated
        probability, reached, rewards, ends = listed(*flags)[hand, action]
        assert sum(probability) == pytest.approx(1, abs=1e-6)
        if action == HIT:
            slot = drawn - 1
            assert probability[slot] == pytest.approx(float(DECK[drawn]), rel=1e-6)
        else:
            (slot,) = [b for b in range(10) if probability[b] > 0 and rewards[b] == reward]
            assert slot < 3
        assert rewards[slot] == reward
        assert ends[slot] == terminated
        hand = reached[slot]
        passed.append(hand)
        if terminated:
            # Gymnasium pays 1.5, 1, 0 or -1.
            assert hand == Hand(0, 0, False, False, 0 if reward > 0 else 1 if reward == 0 else 2)
            return passed
        assert hand == Hand(*seen(observation), False, -1)
    return passed


# Dealer's two cards, player's two, then what is drawn; actions; the ending by Gymnasium's rules with `sab`.
SCRIPTS = {
    "natural against 17": ([10, 7, 1, 10], [STICK], 0),
    "natural against a natural": ([10, 1, 10, 1], [STICK], 1),
    "natural against an ace that shows, and a ten": ([1, 10, 10, 1], [STICK], 1),
    "natural against 21 of three cards": ([10, 5, 1, 10, 6], [STICK], 0),
    "natural that hits": ([10, 7, 1, 10, 6], [HIT, STICK], 1),
    "soft 21 of three cards against a natural": ([1, 10, 1, 5, 5], [HIT, STICK], 1),
    "hard 21 against a natural": ([10, 1, 10, 5, 6], [HIT, STICK], 1),
    "20 against a natural": ([10, 1, 10, 10], [STICK], 2),
    "the dealer stands on a soft 17": ([1, 6, 10, 8, 4], [STICK], 0),
    "the dealer draws to a soft 17": ([1, 2, 10, 7, 4, 10], [STICK], 1),
    "the dealer's ace becomes 1": ([1, 5, 10, 8, 10, 5], [STICK], 2),
    "the dealer busts": ([10, 6, 2, 2, 10], [STICK], 0),
    "the player busts": ([10, 6, 10, 6, 6], [HIT], 2),
    "the player's ace becomes 1": ([9, 9, 1, 6, 10, 1, 1], [HIT, HIT, HIT, STICK], 0),
    "nothing but aces": ([10, 10, *[1] * 22], [HIT] * 20, 2),
    "aces to 21": ([10, 10, *[1] * 21], [HIT] * 19 + [STICK], 0),
}


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_hand_goes_as_in_gymnasium(script, flags):
    cards, actions, ending = SCRIPTS[script]
    passed = follow(environment(*flags), cards, actions, flags)
    assert len(passed) == len(actions) + 1
    if flags[1]:
        assert passed[-1].ending == ending


@pytest.mark.parametrize("flags", FLAGS)
def test_many_hands_go_as_in_gymnasium(flags):
    env, rng = environment(*flags), np.random.default_rng(0)
    # Aces and tens more often than in a deck.
    odds = np.array([5, 1, 1, 1, 2, 2, 2, 1, 1, 6]) / 22
    passed = Counter()
    for _ in range(2000):
        cards = (1 + rng.choice(10, 40, p=odds)).tolist()
        passed.update(follow(env, cards, [*(rng.random(19) < 0.6).astype(int).tolist(), STICK], flags))
    assert {hand.ending for hand in passed} == {-1, 0, 1, 2}
    assert any(hand.natural for hand in passed) == any(flags)
    assert len(passed) > 250


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("open_card", [10, 7, 1])
def test_the_dealer_has_the_law_of_gymnasiums(open_card, flags):
    """Exhaust the cards that Gymnasium's dealer can draw, against some hands."""
    env = environment(*flags)
    for cards in ((1, 10), (1, 5, 5), (10, 8)):
        law, waiting = Counter(), [((), Fraction(1))]
        while waiting:
            drawn, p = waiting.pop()
            if drawn:
                env.np_random, env.player = Dealt(drawn[1:]), list(cards)
                env.dealer = [open_card, drawn[0]]
                try:
                    _, reward, terminated, _, _ = env.step(STICK)
                except IndexError:  # the dealer wants another card
                    pass
                else:
                    assert terminated
                    law[reward] += p
                    continue
            waiting += [((*drawn, card), p * q) for card, q in DECK.items()]
        hand = Hand(worth(cards), open_card, 1 in cards, cards == (1, 10) and any(flags), -1)
        probability, _, rewards, _ = listed(*flags)[hand, STICK]
        ours = Counter()
        for reward, p in zip(rewards, probability, strict=True):
            ours[reward] += p
        assert sum(law.values()) == 1
        assert {r: p for r, p in ours.items() if p > 0} == pytest.approx(
            {r: float(p) for r, p in law.items()}
        )


@pytest.mark.parametrize(
    "least",
    [0, pytest.param(17, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.slow)],
)
def test_endings_are_as_frequent_as_in_gymnasium(least):
    table, episodes = table_of(False, True), 20_000
    want = exact.evaluate_policy(table, policy_from(table, least)).endings
    env = gymnasium.make("Blackjack-v1").unwrapped
    (total, _, _), _ = env.reset(seed=least)
    counts = Counter()
    while counts.total() < episodes:
        (total, _, _), reward, terminated, _, _ = env.step(STICK if total >= least else HIT)
        if terminated:
            counts[reward] += 1
            (total, _, _), _ = env.reset()
    for name, reward in (("win", 1.0), ("draw", 0.0), ("loss", -1.0)):
        p = want[name]
        assert abs(counts[reward] / episodes - p) < 5 * np.sqrt(p * (1 - p) / episodes), name


def test_the_defaults_are_those_of_gymnasium():
    env = gymnasium.make("Blackjack-v1").unwrapped
    assert (env.natural, env.sab) == (Blackjack().natural, Blackjack().sab) == (False, True)
    assert polinfer.make("blackjack") == Blackjack()


# -- states ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [pytest.param((False, False), marks=pytest.mark.slow), (False, True)])
def test_the_mdp_keeps_its_promises(flags):
    report = check_mdp(Blackjack(natural=flags[0], sab=flags[1], reward_scale=0.7), episodes=256)
    assert report.terminated == 256


@pytest.mark.parametrize("flags", FLAGS)
def test_states_are_as_many_as_there_are_hands(flags):
    table = table_of(*flags)
    # Hard 4..21, soft 12..21 and, where a rule asks for it, the natural, each against ten cards; three ends.
    assert table.num_states == (18 + 10 + any(flags)) * 10 + 3
    assert table.absorbing.sum() == 3
    assert len(set(table.state_names)) == table.num_states
    assert any(name.startswith("natural") for name in table.state_names) == any(flags)
    assert (table.features.dtype, table.features.shape[1]) == (np.float32, 18 + 10 + 1 + any(flags))
    rows = {tuple(row) for row in table.features[~table.absorbing].tolist()}
    assert len(rows) == table.num_states - 3
    assert not table.features[table.absorbing].any()
    assert table.identities.shape == (table.num_states, 1)
    assert {e.name: e.success for e in table.endings} == {"win": True, "draw": False, "loss": False}
    for s in np.flatnonzero(table.absorbing):
        assert table.endings[table.ending_of[s]].name == table.state_names[s]
    assert table.legal_actions.all()
    assert table.action_names == ("stick", "hit")


def test_hands_are_read_from_identities_features_and_names():
    mdp = Blackjack()
    for fields, name in (
        ((16, 10, False, False, -1), "hard 16 vs 10"),
        ((18, 1, True, False, -1), "soft 18 vs ace"),
        ((21, 9, True, True, -1), "natural vs 9"),
        ((21, 9, True, False, -1), "soft 21 vs 9"),
        ((0, 0, False, False, 0), "win"),
        ((0, 0, False, False, 1), "draw"),
        ((0, 0, False, False, 2), "loss"),
    ):
        hand = Hand(*fields)
        assert mdp.state_name(hand) == name
        assert mdp.state_name(jax.tree.map(jnp.asarray, hand)) == name
        identity = np.asarray(mdp.identity(hand))
        assert (identity.shape, identity.dtype) == ((1,), np.int32)
        assert Hand(*(x[0].item() for x in hands_of(identity[None]))) == hand
        assert mdp.ending(hand) == fields[-1]
        total, dealer, flags = np.split(np.asarray(mdp.encode(hand)), [18, 28])
        want = [*(t == fields[0] for t in range(4, 22)), *(d == fields[1] for d in range(1, 11))]
        assert [*total, *dealer] == want
        assert flags.tolist() == [fields[2], fields[3]]


@pytest.mark.parametrize("flags", FLAGS)
def test_the_deal_is_merged_and_drawn_by_its_probabilities(flags):
    mdp, draws = Blackjack(natural=flags[0], sab=flags[1]), 20_000
    want = Counter()
    for (one, p), (other, q), (dealer, r) in itertools.product(DECK.items(), repeat=3):
        natural = any(flags) and {one, other} == {1, 10}
        want[worth((one, other)), dealer, 1 in (one, other), natural, -1] += p * q * r
    starts = mdp.starts()
    hands = list(zip(*(np.asarray(x).tolist() for x in starts.state), strict=True))
    assert len(hands) == len(set(hands)) == 270
    np.testing.assert_allclose(starts.probability, [float(want[hand]) for hand in hands], rtol=1e-6)
    drawn = jax.jit(jax.vmap(mdp.init))(jax.random.split(jax.random.key(1), draws))
    counts = Counter(zip(*(np.asarray(x).tolist() for x in drawn), strict=True))
    assert counts.keys() <= want.keys()
    for hand, p in want.items():
        assert abs(counts[hand] - draws * p) <= 5.5 * float(draws * p) ** 0.5 + 1, hand


def test_no_hand_outlasts_the_horizon():
    table = table_of(False, True)
    # Every state that can be reached in 19 actions, and then in 20: of a hand of 21 aces, one goes on.
    reach = table.initial > 0
    for _ in range(19):
        successors = table.successor[reach][table.probability[reach] > 0]
        reach = np.isin(np.arange(table.num_states), successors)
    assert {table.state_names[s][:7] for s in np.flatnonzero(reach & ~table.absorbing)} == {"hard 21"}
    successors = table.successor[reach][table.probability[reach] > 0]
    assert table.absorbing[successors].all()
    assert Blackjack().horizon == 20


def test_probabilities_are_double_in_a_table_after_single_in_a_simulation():
    mdp = Blackjack(natural=True, sab=False, reward_scale=0.1)
    step = jax.jit(lambda key: mdp.step(key, mdp.init(key), jnp.int32(0)))
    assert step(jax.random.key(0)).reward.dtype == jnp.float32
    table = polinfer.tabulate(mdp)
    for s in np.flatnonzero(table.initial):
        assert set(table.probability[s, HIT][table.probability[s, HIT] > 0]) <= {k / 13 for k in range(1, 14)}
    assert set(table.reward.ravel()) == {0.0, 0.1, 0.1 * 1.5, -0.1}
    assert step(jax.random.key(1)).reward.dtype == jnp.float32


# -- options ---------------------------------------------------------------------------------------------


def test_reward_scale_multiplies_every_reward():
    plain, scaled = (polinfer.tabulate(Blackjack(True, False, reward_scale=c)) for c in (1.0, -4.0))
    np.testing.assert_array_equal(scaled.reward, -4.0 * plain.reward)
    assert set(plain.reward.ravel()) == {0.0, 1.0, 1.5, -1.0}


def test_sab_overrules_natural():
    with_natural, without = (table_of(natural, True) for natural in (True, False))
    for name in ("successor", "probability", "reward", "initial"):
        np.testing.assert_array_equal(getattr(with_natural, name), getattr(without, name))


@pytest.mark.parametrize("option", ["natural", "sab"])
@pytest.mark.parametrize("value", [0, 1, "true", None, 1.0, [True]], ids=str)
def test_flags_must_be_true_or_false(option, value):
    with pytest.raises(DomainError, match=f"{option} must be true or false, got"):
        polinfer.make("blackjack", **{option: value})


def test_options_are_checked_and_made_plain():
    mdp = Blackjack(natural=np.bool_(True), horizon=np.int64(5))
    assert (type(mdp.natural), type(mdp.horizon)) == (bool, int)
    assert hash(mdp) == hash(Blackjack(natural=True, horizon=5))
    for value in (0, 2.5, True, "5"):
        with pytest.raises(PolinferError, match="horizon must be"):
            Blackjack(horizon=value)
    for value in (float("nan"), float("inf"), "2", None):
        with pytest.raises(PolinferError, match="reward_scale must be a finite number"):
            Blackjack(reward_scale=value)
