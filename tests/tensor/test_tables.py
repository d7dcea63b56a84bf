import numpy as np
import pytest
import torch
from hypothesis import given

from cmpe import Constraint, Factor, LogLinearModel, Problem
from cmpe.bounds.base import Work, row_tables
from cmpe.bounds.splitting import by_size
from cmpe.errors import TooLarge
from cmpe.tensor import tables as wide_tables
from cmpe.tensor.answers import improved
from cmpe.tensor.max_product import max_product
from cmpe.tensor.messages import message_bounds
from cmpe.tensor.split import split_bounds
from cmpe.tensor.tables import Runs, WideTables
from tests.problems import random_problem, seeds
from tests.tensor.cases import wide_instances

WORK = Work(steps=10)


def split_upper(instances):
    return split_bounds(instances, by_size(instances.conditioning, WORK), WORK, "cpu").upper


EVERYTHING = [
    lambda instances: improved(instances, device="cpu"),
    lambda instances: max_product(instances, "cpu"),
    lambda instances: message_bounds(instances, WORK, "cpu").upper,
    split_upper,
]


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


def test_runs_find_the_first_maximum():
    runs = Runs(np.array([0, 2, 5]), np.array([2, 3, 2]), torch.device("cpu"))
    numbers = torch.tensor([[1.0], [1.0], [0.0], [4.0], [4.0], [-torch.inf], [-torch.inf]])
    most, place = runs.max(numbers)
    assert most[:, 0].tolist() == [1.0, 4.0, -np.inf]
    assert place[:, 0].tolist() == [0, 1, 0]


@pytest.mark.parametrize("call", EVERYTHING)
def test_rows_go_in_chunks_where_memory_is_short(call, monkeypatch):
    instances = wide_instances(6)
    whole = call(instances)
    monkeypatch.setattr(wide_tables, "MEMORY_LIMIT", 1 << 19)
    sizes = [s.stop - s.start for s in WideTables(instances, "cpu").chunks(10_000)]
    assert len(sizes) > 1
    assert np.allclose(call(instances), whole)


@pytest.mark.parametrize("call", EVERYTHING)
def test_a_row_that_does_not_fit_is_refused(call, monkeypatch):
    monkeypatch.setattr(wide_tables, "MEMORY_LIMIT", 1000)
    with pytest.raises(TooLarge, match="one row needs"):
        call(wide_instances(2))


@pytest.mark.parametrize("call", EVERYTHING)
def test_constants_and_single_values(call):
    model = LogLinearModel((1, 3), (Factor((), np.array(2.0)), Factor((0, 1), np.eye(3)[:1])))
    problem = Problem(model, (Constraint(model, 5.0),))
    found = call(problem.given())
    assert found.tolist() == [[0, 0]] if found.ndim == 2 else np.allclose(found, [3.0])
