import numpy as np
import pytest

from cmpe.errors import EvidenceError
from cmpe.problem.groups import by_observed
from tests.problems import worked_example


def test_one_set_of_observed_variables_is_one_group():
    problem = worked_example()
    ((instances, numbers),) = by_observed(problem, [[1, 1], [0, 1]])
    assert instances.problem is problem
    assert numbers.tolist() == [0, 1]
    ((alone, _),) = by_observed(problem.observing(()))
    assert len(alone) == 1


def test_a_mapping_observes_its_keys():
    ((instances, numbers),) = by_observed(worked_example(), {3: [0, 1], 0: 1})
    assert instances.problem.evidence_variables == (0, 3)
    assert instances.evidence.tolist() == [[1, 0], [1, 1]]
    assert numbers.tolist() == [0, 1]


def test_full_rows_are_grouped_by_what_they_observe():
    rows = np.array([[1, -1, -1, 0], [-1, -1, 1, -1], [0, -1, -1, 1]])
    groups = by_observed(worked_example(), rows)
    found = {part.problem.evidence_variables: numbers.tolist() for part, numbers in groups}
    assert found == {(0, 3): [0, 2], (2,): [1]}


def test_wrong_widths_are_refused():
    with pytest.raises(EvidenceError, match="evidence must have 2 columns"):
        by_observed(worked_example(), [[1, 1, 1]])
