"""The worker behind the page: right answers, cached by problem; newer problems end older work."""

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

import polinfer
from polinfer.core.errors import PolinferError
from polinfer.explore.answers import answer_record, executed, soft_record
from polinfer.explore.limits import known_names, make_problem
from polinfer.explore.pictures import picture_of
from polinfer.explore.questions import given_record
from polinfer.explore.records import GridProblem, JobRequest, JobState, NamedProblem
from polinfer.explore.session import Session, _Job, _overtaken

ABLATION = GridProblem("WG\nS.\n..", success_prob=0.5, horizon=10)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session() as made:
        yield made


def shares(record: dict[str, Any]) -> np.ndarray:
    import base64

    return np.frombuffer(base64.b64decode(record["data"]), "<u2") / 65535


def test_an_answer_is_that_of_infer_and_is_cached(session: Session) -> None:
    request = JobRequest("draft", ABLATION)
    key = session.submit(request).key
    record = msgspec.json.decode(session.wait(key))
    exact = polinfer.infer(make_problem(ABLATION, {}), "exact")
    probs = exact.table_probs()
    assert probs is not None
    assert abs(shares(record["executed"]["policy"]).reshape(probs.shape[1:]) - probs[0]).max() < 1e-4
    assert (record["method"], record["draft"]) == ("exact", False)
    assert session.submit(request).state == "done"


def test_a_failure_is_one_sentence_and_the_worker_lives_on(session: Session) -> None:
    key = session.submit(JobRequest("given", ABLATION, given=((0, 99),))).key
    with pytest.raises(PolinferError, match="no action 99"):
        session.wait(key)
    assert session.wait(session.submit(JobRequest("problem", ABLATION)).key)


def test_what_the_slider_asks_for_is_overtaken_by_the_slider_alone() -> None:
    def overtaken(older: JobRequest, newer: JobRequest) -> bool:
        return _overtaken(_Job(1, older), newer)

    plain, slid = JobRequest("answer", ABLATION), JobRequest("answer", ABLATION, scale=2.5)
    given = JobRequest("given", ABLATION, given=((0, 1),))
    assert overtaken(slid, JobRequest("answer", ABLATION, scale=3.0))
    assert overtaken(given, JobRequest("given", ABLATION, given=((0, 2),)))
    # A page that is opened at another scale asks for both.
    assert not overtaken(slid, plain)
    assert not overtaken(plain, slid)
    assert not overtaken(slid, JobRequest("certificate", ABLATION, scale=3.0))


def test_a_long_computation_pauses_for_a_question_and_ends_for_a_newer_problem(session: Session) -> None:
    seen: list[JobState] = []
    leave = session.listen(seen.append)
    large = GridProblem("\n".join(["." * 12] * 11 + ["S" + "." * 10 + "G"]))
    key = session.submit(JobRequest("path", large)).key
    while session.state(key).state == "queued":  # type: ignore[union-attr]
        time.sleep(0.01)
    asked = session.submit(JobRequest("problem", large)).key
    assert b"(12,12)" in session.wait(asked)
    assert [state.key for state in session.running()] == [key]
    began = time.monotonic()
    assert session.wait(session.submit(JobRequest("problem", ABLATION)).key)
    while session.state(key).state == "running":  # type: ignore[union-attr]
        assert time.monotonic() - began < 15 + session._starting
        time.sleep(0.01)
    leave()
    assert [state.state for state in seen if state.key == key][-1] == "cancelled"


def test_a_worker_that_starts_is_waited_for_and_one_that_takes_too_long_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("polinfer.explore.session._PATIENCE", 0.0)
    with Session() as session:
        first = session._process.pid
        session.submit(JobRequest("problem", GridProblem("S.G")))
        time.sleep(0.2)  # It is being started for this one.
        assert session.wait(session.submit(JobRequest("problem", ABLATION)).key)
        assert session._process.pid == first
        session.time_limit = 0.2
        key = session.submit(JobRequest("path", GridProblem("\n".join(["S" + "." * 19] * 20)))).key
        with pytest.raises(PolinferError, match=r"longer than 0\.2 seconds"):
            session.wait(key)


def test_the_conditional_posterior_is_the_exact_one() -> None:
    """Against enumeration by hand: the posterior's mass on the policies that make the choice."""
    posterior = polinfer.infer(polinfer.make("gridworld/ablation"), "exact")
    table = posterior.view
    assert isinstance(table, polinfer.TabularMDP)
    start, right = int(np.argmax(table.initial)), 0
    deciding = [int(s) for s in polinfer.exact.decision_states(table, table.horizon)]
    count = 4 ** len(deciding)
    policies = np.zeros((count, table.num_states), np.int32)
    for place, state in enumerate(deciding):
        policies[:, state] = np.arange(count) // 4**place % 4
    weight = np.exp(polinfer.exact.deterministic_returns(table, policies))
    held = policies[:, start] == right
    wanted = np.array(
        [
            [weight[held & (policies[:, s] == a)].sum() / weight[held].sum() for a in range(4)]
            for s in deciding
        ]
    )
    record = given_record(posterior, {start: right})
    found = np.frombuffer(record.executed.policy.data, "<u2").reshape(-1, 4) / 65535
    assert abs(found[deciding] - wanted).max() < 1e-5
    assert record.chance == pytest.approx(weight[held].sum() / weight.sum(), abs=1e-6)


def test_choices_are_given_where_states_are_no_keys() -> None:
    """Tireworld's states are arrays; its two roads out of the start share the posterior."""
    posterior = polinfer.infer(polinfer.make("tireworld/1"), "exact", samples=2)
    probs = posterior.table_probs()
    assert probs is not None
    start = 0
    records = [given_record(posterior, {start: action}) for action in range(2)]
    assert [record.chance for record in records] == pytest.approx(probs[0, start].tolist(), abs=1e-6)
    mixed = sum(
        (record.chance or 0.0) * np.frombuffer(record.executed.policy.data, "<u2") / 65535
        for record in records
    )
    assert abs(mixed - probs[0].ravel()).max() < 1e-4


def test_the_policies_that_are_sent_are_draws_of_all_islands() -> None:
    posterior = polinfer.infer(polinfer.make("gridworld/ablation"), "exact", samples=50)
    record = answer_record(posterior, draft=False, began=0.0)
    assert record.draws == 50


def test_an_average_over_time_says_what_it_returns_itself() -> None:
    """The page plays the average, which returns something else than the policy with a clock."""
    table = polinfer.tabulate(polinfer.make("gridworld/ablation"))
    soft = polinfer.exact.soft_value_iteration(table)
    played = polinfer.exact.evaluate_policy(table, soft.policy).expected_return
    record = soft_record(table)
    assert record.averaged == pytest.approx(played)
    assert abs(record.returned - played) > 1e-3
    assert executed(table, "posterior", soft.policy).averaged is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gridworld/ablation", "grid"),
        ("gym:FrozenLake-v1", "grid"),
        ("gym:CliffWalking-v1", "grid"),
        ("blackjack", "cards"),
        ("tireworld/1", "map"),
        ("continuation", "graph"),
    ],
)
def test_problems_have_pictures(name: str, kind: str) -> None:
    assert name in known_names()
    problem = make_problem(NamedProblem(name), {})
    table = polinfer.tabulate(problem)
    picture = picture_of(problem, table)
    assert picture.kind == kind
    if kind == "grid":
        assert len(picture.letters) == picture.width * picture.height
        assert len(picture.cell) == table.num_states
        start = picture.cell[int(np.argmax(table.initial))]
        assert picture.letters[start] == "S"
    if kind == "cards":
        states = {state for row in picture.chart for state in row} - {-1}
        assert states == set(np.flatnonzero(~table.absorbing).tolist())
