import itertools

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe.bounds import Work
from cmpe.bounds.descent import minimise
from cmpe.bounds.relaxation import Relaxation
from cmpe.bounds.settings import SETTINGS
from cmpe.bounds.splitting import Cut
from cmpe.core.copies import CARD, COPIES, SIZE, VALUES
from cmpe.errors import TooLarge
from cmpe.generation import grid
from tests.bounds.checks import AWKWARD
from tests.problems import random_problem, seeds


def chain():
    """x0 - x1 - x2, and a relaxation that gives x1 a copy in each table."""
    model = cmpe.LogLinearModel.from_tables(
        [2, 2, 2], [((0, 1), [[0, 3], [1, 0]]), ((1, 2), [[2, 0], [0, 1]]), ((1,), [0, 4])]
    )
    structure = cmpe.Problem(model).conditioning
    renamed = {(0, 1): (0, 1), (1, 2): (3, 2)}
    scopes = [renamed.get(scope, scope) for scope in structure.scopes]
    return structure, Relaxation(structure, (0, 1, 2, 1), scopes, (0, 2, 1, 3))


def test_a_variable_that_is_split_has_one_copy_per_piece():
    structure, relaxation = chain()
    assert relaxation.copies == 1
    assert relaxation.groups == [((1,), [(1,), (3,)])]
    assert relaxation.width == 1
    compiled = relaxation.compiled
    assert compiled.groups[0, [COPIES, VALUES]].tolist() == [2, 2]
    assert compiled.numbers == compiled.entries + 4
    assert sorted(relaxation.decided) == [0, 1, 1, 2]
    assert relaxation.fits(structure)
    assert not relaxation.fits(cmpe.Problem(grid(2, 2, seed=1)).conditioning)


@settings(max_examples=60)
@given(seeds)
def test_every_bucket_reads_numbers_that_are_there_before_it(seed):
    problem, _ = random_problem(seed, AWKWARD)
    compiled = Cut("leaves", 1, 0).relaxation(problem.conditioning).compiled
    for card, size, message, index, inputs, *_ in compiled.buckets.tolist():
        places = compiled.places[index : index + size * card * inputs]
        assert (places < message).all()
    ends = compiled.buckets[:, 2] + compiled.buckets[:, SIZE]
    assert ends[-1] == compiled.total if len(ends) else compiled.total == compiled.numbers
    assert (compiled.buckets[:, CARD] > 0).all()


def test_pairs_that_meet_in_several_pieces_have_joint_multipliers():
    structure = cmpe.Problem(grid(6, 6, seed=2)).conditioning
    plain, tied = (Cut("layers", 2, 0, t).relaxation(structure) for t in (1, 2))
    joint = [variables for variables, _ in tied.groups if len(variables) > 1]
    assert joint
    assert len(tied.groups) >= len(plain.groups)
    for variables, copies in tied.groups:
        assert len(copies) > 1
        for copy in copies:
            assert tuple(tied.origin[c] for c in copy) == variables


def test_what_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr("cmpe.bounds.relaxation.SETTINGS", SETTINGS._replace(bucket_entries=4))
    with pytest.raises(TooLarge, match="have 12 entries; the limit is 4: try a smaller width"):
        chain()


def test_the_maximum_over_copies_is_no_less_than_over_assignments():
    _, relaxation = chain()
    model = cmpe.LogLinearModel.from_tables(
        [2, 2, 2], [((0, 1), [[0, 3], [1, 0]]), ((1, 2), [[2, 0], [0, 1]]), ((1,), [0, 4])]
    )
    rows = np.array(list(itertools.product(range(2), repeat=3)))
    found = minimise(cmpe.Problem(model).given(), relaxation, Work(steps=200)).upper[0]
    assert model.value(rows).max() <= found <= model.value(rows).max() + 0.05
