"""fit and predict as scikit-learn has them."""

import numpy as np
import pytest

from cmpe import Explainer, TrainingConfig, solve
from cmpe.errors import MethodError, ModelError
from tests.problems import worked_example
from tests.refusals import refused

PROBLEM = worked_example()
ROWS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])


def test_predictions_are_the_answers_of_solve():
    rows = ROWS[1::2]
    explainer = Explainer(PROBLEM).fit(rows)
    expected = solve(PROBLEM, rows)
    np.testing.assert_array_equal(explainer.predict(rows), expected.assignments[:, 2:])
    assert explainer.n_features_in_ == 2
    assert explainer.score(rows) == pytest.approx(expected.objective.mean())
    assert explainer.score(ROWS) == -np.inf  # the other rows are infeasible
    assert explainer.solve(rows).labels == ["optimal"] * 2


def test_a_trained_network():
    explainer = Explainer(PROBLEM, method="trained", config=TrainingConfig(epochs=1))
    predicted = explainer.fit(np.tile(ROWS, (3, 1))).predict(ROWS)
    assert predicted.shape == (4, 2)
    assert set(np.unique(predicted[1::2])) <= {0, 1}
    assert set(np.unique(predicted)) <= {-1, 0, 1}  # -1: proved to be without an answer


def test_scikit_learn_can_clone_and_search_it():
    base = pytest.importorskip("sklearn.base")
    explainer = Explainer(PROBLEM, method="milp", seed=3)
    again = base.clone(explainer, safe=False)
    assert again is not explainer
    assert again.get_params()["method"] == "milp"
    assert again.set_params(method="exact", seed=1).method == "exact"
    assert repr(again).startswith("Explainer(Problem(4 variables")


class Coarse(Explainer):
    """Takes any matrix: what is above 0 in its first and last column is evidence."""

    def fit(self, rows, y=None):
        super().fit(self._evidence(rows))
        self.n_features_in_ = np.shape(rows)[1]
        return self

    def solve(self, rows):
        return super().solve(self._evidence(rows) if hasattr(self, "solver_") else rows)

    def _evidence(self, rows):
        return (np.asarray(rows, dtype=float)[:, [0, -1]] > 0).astype(int)


@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn():
    """Those that feed no matrix as it is, the others with any matrix made evidence."""
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    known = {"check_estimators_unfitted", "check_estimator_sparse_tag"}
    known |= {"check_estimator_sparse_array", "check_estimator_sparse_matrix"}
    found = checks.check_estimator(Coarse(PROBLEM), on_fail=None, on_skip=None)
    failed = {one["check_name"] for one in found if one["status"] == "failed"}
    assert failed <= known
    assert len(found) > 25
    checks.check_get_params_invariance("Explainer", Explainer(PROBLEM))
    checks.check_estimator_cloneable("Explainer", Explainer(PROBLEM))
    checks.check_no_attributes_set_in_init("Explainer", Explainer(PROBLEM))


def test_mistakes():
    refused(lambda: Explainer(PROBLEM).predict(ROWS), "call fit", MethodError)
    refused(lambda: Explainer().fit(ROWS), "Explainer needs a Problem", ModelError)
    refused(lambda: Explainer().set_params(metod="x"), "found 'metod'", MethodError)
