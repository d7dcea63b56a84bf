import numpy as np
import torch

from cmpe import Constraint, Factor, LogLinearModel, Problem
from cmpe.tensor.moves import SingleMoves, walked
from cmpe.tensor.tables import WideTables
from tests.tensor.cases import random_starts, score, wide_instances


def test_a_step_is_one_move_a_row():
    instances = wide_instances(6)
    wide = WideTables(instances, "cpu")
    moves, z = SingleMoves(wide), wide.starts(random_starts(instances, 1))
    state = moves.begin(slice(0, 6), z)
    after = moves.step(state, 1)
    assert ((after.z != z).sum(0) == 1).all()
    assert not after.done.any()
    assert torch.equal(state.take(torch.tensor([4, 2])).z, z[:, [4, 2]])


def test_no_steps_change_nothing_and_more_steps_are_no_worse():
    instances = wide_instances(12)
    wide, problem = WideTables(instances, "cpu"), instances.problem
    start = random_starts(instances, 2)
    scores = [score(problem, walked(wide, start, steps)) for steps in (0, 1, 20)]
    assert np.array_equal(scores[0], score(problem, start))
    assert (np.diff(scores[1:], axis=0) >= 0).all()


def test_broken_constraints_are_mended_at_the_least_loss():
    h = LogLinearModel((2, 2), (Factor((0,), [0.0, 5.0]), Factor((1,), [0.0, 3.0])))
    t = LogLinearModel((2, 2), (Factor((0,), [0.0, 1.0]), Factor((1,), [0.0, 1.0])))
    instances = Problem(h, (Constraint(t, 1.0),)).given()
    found = walked(WideTables(instances, "cpu"), np.array([[1, 1]], dtype=np.int32), 20)
    assert found.tolist() == [[1, 0]]


def test_dead_ends_are_left_by_barring_the_way_back():
    """Every single move from (0, 0) is as bad; only both together satisfy the constraint."""
    h = LogLinearModel((2, 2))
    t = LogLinearModel((2, 2), (Factor((0, 1), [[1.0, 2.0], [2.0, 0.0]]),))
    instances = Problem(h, (Constraint(t, 0.5),)).given()
    found = walked(WideTables(instances, "cpu"), np.array([[0, 0]], dtype=np.int32), 20)
    assert found.tolist() == [[1, 1]]
