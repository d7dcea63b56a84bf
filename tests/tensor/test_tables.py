import numpy as np
import pytest
from hypothesis import given

from cmpe import Constraint, Factor, LogLinearModel, Problem
from cmpe.bounds.base import Work, row_tables
from cmpe.bounds.splitting import by_size
from cmpe.errors import TooLarge
from cmpe.tensor import tables as wide_tables
from cmpe.tensor.split import split_bounds
from cmpe.tensor.tables import WideTables
from tests.problems import random_problem, seeds
from tests.tensor.cases import wide_instances

WORK = Work(steps=10)


def split_upper(instances):
    return split_bounds(instances, by_size(instances.conditioning, WORK), WORK, "cpu").upper


@given(seed=seeds)
def test_the_tables_are_those_of_the_compiled_bounds(seed):
    problem, evidence = random_problem(seed)
    instances = problem.given(evidence)
    here = WideTables(instances, "cpu").row_tables(slice(None))
    for row, there in enumerate(row_tables(instances, slice(0, len(evidence)))):
        assert np.allclose(here.h[:, row], there.h, rtol=0, atol=1e-12)
        assert np.allclose(here.t[:, :, row], there.t, rtol=0, atol=1e-12)
        assert np.isclose(here.least[row], there.least, rtol=0, atol=1e-12)
        assert np.allclose(here.units[:, row], there.units)


def test_rows_go_in_chunks_where_memory_is_short(monkeypatch):
    instances = wide_instances(6)
    whole = split_upper(instances)
    monkeypatch.setattr(wide_tables, "MEMORY_LIMIT", 1 << 19)
    sizes = [s.stop - s.start for s in WideTables(instances, "cpu").chunks(10_000)]
    assert len(sizes) > 1
    assert np.allclose(split_upper(instances), whole)


def test_a_row_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(wide_tables, "MEMORY_LIMIT", 1000)
    with pytest.raises(TooLarge, match="one row needs"):
        split_upper(wide_instances(2))


def test_constants_and_single_values():
    model = LogLinearModel((1, 3), (Factor((), np.array(2.0)), Factor((0, 1), np.eye(3)[:1])))
    problem = Problem(model, (Constraint(model, 5.0),))
    found = split_upper(problem.given())
    assert np.allclose(found, [3.0])
