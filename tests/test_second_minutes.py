"""What people type after the first answer: it works, or one sentence says what to write."""

import numpy as np
import pandas
import pytest
from hypothesis import given

import cmpe
from cmpe import LogLinearModel, Problem, Solutions
from cmpe.domain import Domain
from cmpe.errors import EvidenceError, FormatError, MethodError, ModelError
from tests.problems import Shape, all_assignments, random_model, seeds
from tests.refusals import refused

NET = LogLinearModel.from_tables(
    [2, 3],
    [((0, 1), np.arange(6.0).reshape(2, 3))],
    names=["rain", "wind"],
    states=[["no", "yes"], ["low", "mid", "high"]],
)
CALM = cmpe.count({"wind": ["low", "mid"]}, name="calm (days)")
PROBLEM = Problem(NET, [CALM >= 1])


@given(seeds)
def test_values_by_name_are_values_by_number(seed):
    rng = np.random.default_rng(seed)
    cards = [int(k) for k in rng.integers(1, 5, int(rng.integers(1, 6)))]
    model = random_model(rng, cards, Shape(zeros=True)).named([f"v{v}" for v in range(len(cards))])
    rows = all_assignments(cards)
    named = [{f"v{v}": int(state) for v, state in enumerate(row)} for row in rows]
    by_number = model.value(rows)
    assert np.array_equal(model.value(named), by_number)
    assert np.array_equal(model.value(pandas.DataFrame(named)), by_number)
    assert model.value(named[-1]) == by_number[-1]


def test_values_of_answers():
    answers = cmpe.solve(PROBLEM, [{"rain": "no"}, {}])
    assert NET.value(answers) == pytest.approx(answers.objective)
    assert NET.value(answers[1]) == pytest.approx([4.0])
    refused(lambda: NET.value({"rain": "no"}), "row 0 needs a state of variable 'wind'", ModelError)
    refused(lambda: NET.value({"rain": "no", "wnd": 0}), "did you mean 'wind'", ModelError)


def test_models_counts_and_numbers_are_added_in_any_order():
    rows = all_assignments((2, 3))
    t = CALM.over(NET.domain).value(rows)
    h = NET.value(rows)
    for function, expected in (
        (CALM + NET, t + h),
        (NET + CALM, t + h),
        (NET - CALM, h - t),
        (CALM - NET, t - h),
        (NET + 1, h + 1),
        (2 - NET, 2 - h),
        ((1 - CALM).over(NET.domain), 1 - t),
    ):
        assert function.value(rows) == pytest.approx(expected)


def test_equal_to_a_number_is_two_limits():
    answer = cmpe.solve(Problem(NET, [NET == 3]))[0]
    assert (answer.objective, answer["rain"]) == (3.0, "yes")
    other = NET.named(["a", "b"])
    assert (other == NET, other == NET.named(["a", "b"])) == (False, True)  # models are compared


@pytest.mark.parametrize("function", [NET, CALM])
def test_strict_limits_say_what_to_write(function):
    refused(lambda: function < 2, "of a count, t < 2 is t <= 1", ModelError)
    refused(lambda: function > 2, "of a count, t > 2 is t >= 3", ModelError)


def test_one_constraint_is_number_0():
    refused(lambda: cmpe.front(PROBLEM, over=3), "there is one constraint: over=0", MethodError)


def test_frames_keep_index_and_chosen_columns():
    frame = pandas.DataFrame(
        {"id": [7, 8, 9], "rain": ["no", "yes", None], "when": ["a", "b", "c"]},
        index=pandas.Index(["x", "y", "z"], name="patient"),
    )
    answers = cmpe.solve(PROBLEM, frame, keep=["id", "when"])
    found = answers.to_frame()
    assert found.index.equals(frame.index)
    assert found.index.name == "patient"
    assert found[["id", "when"]].equals(frame[["id", "when"]])
    assert answers[[2, 0]].to_frame().index.tolist() == ["z", "x"]
    assert answers[[2, 0]].to_frame()["id"].tolist() == [9, 7]
    assert found.attrs["observed"] == []
    both = Solutions.concatenate([answers[:1], answers[1:]])
    assert both.to_frame().index.tolist() == ["x", "y", "z"]
    assert cmpe.solve(PROBLEM, frame[:2], keep="id", ignore_extra=True).to_frame().attrs == {
        "observed": ["rain"]
    }


KEPT = {
    "rows": [{"id": 1, "rain": "no"}, {"id": 2}],
    "columns": {"id": [1, 2], "rain": ["no", None]},
}


@pytest.mark.parametrize("name", KEPT)
def test_other_evidence_keeps_columns(name, tmp_path):
    answers = cmpe.solve(PROBLEM, KEPT[name], keep=["id"])
    assert answers.to_frame()["id"].tolist() == [1, 2]
    answers.to_parquet(tmp_path / "a.parquet")
    assert pandas.read_parquet(tmp_path / "a.parquet")["id"].tolist() == [1, 2]
    refused(lambda: cmpe.solve(PROBLEM, KEPT[name], keep=["no"]), "no column 'no'", EvidenceError)


def test_arrays_have_no_columns_to_keep():
    refused(lambda: cmpe.solve(PROBLEM, [[0, 1]], keep=["id"]), "keep needs a frame", EvidenceError)


def test_states_by_variable():
    assert cmpe.solve(PROBLEM, [{"rain": "no"}, {}])["wind"] == ["mid", "mid"]
    assert cmpe.solve(Problem(NET, [CALM >= 2]))["wind"] == [None]
    refused(lambda: cmpe.solve(PROBLEM)["wnd"], "did you mean 'wind'", ModelError)


def test_states_come_back_with_their_type():
    typed = LogLinearModel.from_tables(
        [2, 3, 2, 2],
        [((0, 1, 2, 3), np.arange(24.0).reshape(2, 3, 2, 2))],
        names=["a", "b", "c", "d"],
        states=[[0, 1], [0, 50, 100], [False, True], ["0", "x"]],
    )
    answer = cmpe.solve(Problem(typed), {"c": True})
    assert dict(answer[0]) == {"a": 1, "b": 100, "c": True, "d": "x"}
    assert [type(s) for s in answer[0].values()] == [int, int, bool, str]
    frame = answer.to_frame()
    assert [frame[name].dtype.kind for name in "abc"] == ["i", "i", "b"]
    assert dict(cmpe.solve(Problem(typed), answer[0])[0]) == dict(answer[0])
    domain = Domain((2, 2), ("a", "b"), (("10", "5"), ("01", "2")))
    assert (domain.label(0, 1), domain.label(1, 0)) == (5, "01")


def test_booleans_are_states_of_two_valued_variables():
    for states in (["no", "yes"], ["False", "True"], ["0", "1"], ["on", "off"], [False, True]):
        domain = Domain((2,), ("a",), (tuple(states),))
        on, off = domain.state(0, True), domain.state(0, np.bool_(False))
        assert {str(states[on]).lower()} <= {"yes", "true", "1", "on"}
        assert on == 1 - off
    for states in (("a", "b"), ("no", "yes", "perhaps")):
        domain = Domain((len(states),), ("a",), (states,))
        refused(lambda d=domain: d.state(0, True), "True is none of its states", ModelError)


def test_tensors_with_gradients():
    torch = pytest.importorskip("torch")
    soft = torch.tensor([0.2, 0.3, 0.5], requires_grad=True)
    expected = cmpe.solve(PROBLEM, {"wind": [0.2, 0.3, 0.5]})
    for evidence in ({"wind": soft}, [{"wind": soft}]):
        assert cmpe.solve(PROBLEM, evidence).objective == pytest.approx(expected.objective)
    rows = torch.tensor([[1.0, -1.0]], requires_grad=True)
    assert cmpe.solve(PROBLEM, rows).objective == [4.0]
    assert NET.value(torch.tensor([[1.0, 1.0]], requires_grad=True)) == [4.0]


CSV = {
    "semicolons": "rain;wind\nyes;mid\n;low\n",
    "tabs": "rain\twind\nyes\tmid\n\tlow\n",
    "a spreadsheet's": "\ufeffrain;wind\nyes;mid\nNA;low\n",
    "missing": "rain,wind\nyes,mid\nNA,low\n",
    "NaN": "rain,wind\nyes,mid\nnan,low\n",
    "numbers": "1;1\n-1;0\n",
}


@pytest.mark.parametrize("name", CSV)
def test_csv_files_of_other_programs(name, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(CSV[name], encoding="utf-8")
    answers = cmpe.solve(PROBLEM, cmpe.read_evidence(path, PROBLEM))
    assert [dict(a) for a in answers] == [
        {"rain": "yes", "wind": "mid"},
        {"rain": "yes", "wind": "low"},
    ]


def test_na_is_a_state_where_a_state_has_that_name():
    named = NET.named(["rain", "wind"], [["no", "NA"], ["low", "mid", "high"]])
    assert cmpe.solve(Problem(named), {"rain": "NA"}).observed.tolist() == [[True, False]]


def test_a_bif_list_without_commas_is_refused(tmp_path):
    text = "variable A {{ type discrete [ 2 ] {{ {} }}; }}\nprobability ( A ) {{ table 0.3 0.7; }}"
    path = tmp_path / "a.bif"
    path.write_text(text.format("very high"))
    refused(lambda: cmpe.read_model(path), "commas between the states of 'A'", FormatError)
    path.write_text(text.format('"very high" "low"'))  # as JavaBayes writes it
    assert cmpe.read_model(path).states == (("very high", "low"),)


def test_notebooks_draw_fronts_lists_and_pictures():
    pytest.importorskip("matplotlib")
    fronts = cmpe.front(PROBLEM, [{}] * 7)
    assert isinstance(fronts, list)
    assert "2 more rows" in fronts._repr_html_()
    assert fronts[:1][0]._repr_html_() in cmpe.front(PROBLEM)._repr_html_()
    assert "row 0" not in cmpe.best(PROBLEM)._repr_html_()
    assert "calm (days)" in cmpe.sensitivity(PROBLEM)._repr_html_()
    figure = fronts[0].plot()
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert figure.axes[0].get_xlabel() == "limit: calm (days) >= q"


def test_answers_mark_what_was_observed():
    assert "observed" in cmpe.solve(PROBLEM, {"rain": "no"})[0]._repr_html_()
    assert "observed" not in cmpe.solve(PROBLEM)[0]._repr_html_()
