"""What all functions of an assignment do alike with what they are given."""

import numpy as np
import pytest

from cmpe import Distance, Factor, LogLinearModel, learn_cutset
from cmpe.errors import ModelError
from cmpe.models.neural import ClassMargin, NeuralFunction
from cmpe.models.relu import ReluNetwork


def every_kind():
    torch = pytest.importorskip("torch")
    network = ReluNetwork((np.array([[1.0, -1.0]]),), (np.array([0.5]),))
    data = np.array([[0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]])
    return [
        Distance.between((0, 1), (2, 3), 4),
        NeuralFunction(torch.nn.Linear(4, 1), (2,) * 4),
        ClassMargin(network, (0, 1), (2, 3), (2,) * 4),
        LogLinearModel((2,) * 4, (Factor((0, 3), np.eye(2)),)),
        learn_cutset(data),
    ]


def test_one_assignment_is_a_batch_of_one():
    for function in every_kind():
        assert function.variables == 4
        row = np.array([0, 1, 1, 0])
        assert function.value(row).shape == (1,)
        np.testing.assert_array_equal(function.value(row), function.value(row[np.newaxis]))


@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (1, 4, 4)])
def test_other_shapes_are_refused(shape):
    for function in every_kind():
        with pytest.raises(ModelError, match=r"assignments must be \(B, 4\), found \("):
            function.value(np.zeros(shape, dtype=int))


def test_functions_without_tables_are_finite():
    assert [function.is_finite for function in every_kind()[:3]] == [True] * 3
