"""What the page is told to draw."""

import polinfer
from polinfer.explore.limits import make_problem, preset_of
from polinfer.explore.pictures import picture_of
from polinfer.explore.records import NamedProblem
from polinfer.problems.tables import shared_table


def test_courses_stand_behind_their_prerequisites_and_every_state_has_its_record() -> None:
    problem = make_problem(NamedProblem("advising/1 relevant"), {})
    table = shared_table(problem)
    picture = picture_of(problem, table)
    assert picture.kind == "courses"
    assert all(picture.nodes[first][0] < picture.nodes[second][0] for first, second in picture.edges)
    assert len(set(picture.records)) == table.num_states == 243
    at = {name: picture.labels.index(name) for name in ("CS11", "CS12", "CS21")}
    record = picture.records[table.state_names.index("passed CS12, failed CS21")]
    assert [record[at[name]] for name in ("CS11", "CS12", "CS21")] == ["n", "p", "f"]
    assert picture.marks[at["CS21"]] == "required"
    assert picture.sets[list(table.action_names).index("enrol CS12")] == [at["CS12"]]
    assert picture.sets[0] == []


def test_a_preset_with_options_is_not_mistaken_for_the_problem_without() -> None:
    assert preset_of("advising/1", {"relevant_only": True, "horizon": 20}) == "advising/1 relevant"
    assert preset_of("advising/1", {}) is None
    assert preset_of("advising/1", {"relevant_only": True, "load": 2}) is None
    assert preset_of("gridworld/flat", {"reward_scale": 2.0}) == "gridworld/flat"
    assert polinfer.make("advising/1", relevant_only=True).num_actions == 6
