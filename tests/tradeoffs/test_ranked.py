"""Lists of answers in order."""

import numpy as np

import cmpe
from cmpe.tradeoffs.ranked import ranked_of
from tests.problems import worked_example


def test_the_first_is_optimal_and_the_others_say_how_far_off_they_are():
    ranked = cmpe.best(worked_example(), [[1, 1]], 3)[0]
    assert ranked.objective.tolist() == [11.0, 8.0]
    assert ranked.answers.labels == ["optimal", "feasible"]
    assert ranked[1].gap == 3.0
    assert ranked[1].free == {2: 1, 3: 1}
    assert "2 answers, proved to be all there are" in repr(ranked)
    assert "rank" in ranked._repr_html_()
    assert ranked.to_frame()["objective"].tolist() == [11.0, 8.0]


def test_a_shorter_list_says_what_it_left_out():
    problem = worked_example()
    rows = cmpe.best(problem, [[1, 1]], 3)[0].assignments
    whole = ranked_of(problem, rows[::-1].copy(), complete=True, bound=-np.inf)
    assert whole.objective.tolist() == [11.0, 8.0]
    first = ranked_of(problem, rows[::-1].copy(), 1, complete=True, bound=-np.inf)
    assert first.bound == 8.0
    assert first.objective.tolist() == [11.0]
