"""The trainer: stacks against single members, determinism, every loss on every kind of problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from cmpe import Constraint, Factor, LogLinearModel, Problem
from cmpe.errors import MethodError
from cmpe.learning.losses.losses import LOSSES
from cmpe.learning.settings import TRAINING
from cmpe.learning.training.config import MEMBER_FIELDS
from cmpe.learning.training.data import folds, prepare, split
from cmpe.learning.training.trainer import Trainer
from tests.learning.cases import (
    mixed_problem,
    one_choice,
    quick,
    small_grid,
    trained,
    trainer_for,
    weights,
)


def run(data, configs, splits):
    trainer = Trainer(data, configs, splits)
    epochs = list(trainer.epochs())
    return trainer, epochs


MEMBERS = (
    {"seed": 0, "learning_rate": 1e-2, "beta": 5.0, "rho": 0.1, "plateau_factor": 0.5},
    {"seed": 3, "learning_rate": 3e-3, "beta": 20.0, "rho": 10.0, "penalty_start": 0.5},
    {"seed": 7, "learning_rate": 3e-2, "beta": 0.5, "rho": 1.0, "gamma": 0.1},
)


def unequal(count, parts):
    """Folds of which the first ones train on one row less where they do not come out even."""
    whole = np.arange(count)
    return [(np.setdiff1d(whole, own), own) for own in np.array_split(whole, parts)]


def check_stack(loss, parts, tolerance=1e-4, **changes):
    """Three members together, then each alone: weights, losses, lambda and p_upper agree."""
    base = quick(loss, plateau_patience=1, **changes)
    configs = [replace(base, **member) for member in MEMBERS]
    whole = small_grid(samples=60)
    count = sum(map(len, parts[0]))
    rows = np.concatenate([whole.train, whole.test])[:count]
    data = prepare(whole.problem.given(rows), base, measured=np.arange(count))
    stack, together = run(data, configs, parts)
    for k, (config, part) in enumerate(zip(configs, parts, strict=True)):
        single, alone = run(data, [config], [part])
        torch.testing.assert_close(weights(stack, k), weights(single), rtol=0, atol=tolerance)
        mine, theirs = (t.program.examples for t in (single, stack))
        seen = part[0]  # one margin: an example is a row
        for a, b in ((mine.p_upper, theirs.p_upper), (mine.penalty, theirs.penalty)):
            torch.testing.assert_close(b[k, seen], a[0, seen], rtol=1e-3, atol=1e-3, equal_nan=True)
        for a, b in zip(alone, together, strict=True):
            assert b.measures["loss"][k] == pytest.approx(a.measures["loss"][0], rel=1e-3)
            assert b.rates[k] == pytest.approx(a.rates[0])
            assert b.look.score[k] == pytest.approx(a.look.score[0], abs=1e-3)


@pytest.mark.parametrize("loss", ["ss_cmpe", "ss_cmpe_pen", "ssl_pen", "distill"])
def test_members_of_a_stack_end_where_they_end_alone(loss):
    check_stack(loss, folds(60, 3, 0), epochs=4)


def test_the_same_for_both_phases_of_pdl():
    check_stack("pdl", folds(60, 3, 0), epochs=11)


@pytest.mark.parametrize("loss", ["ss_cmpe", "ssl_pen"])
@pytest.mark.parametrize("batch_size", [16, 128])
def test_the_same_for_folds_of_different_sizes(loss, batch_size):
    """33, 33 and 34 rows: a batch of 34 is filled up with a row that it has already."""
    check_stack(loss, unequal(50, 3), epochs=4, batch_size=batch_size)


def test_one_batch_more_is_refused():
    """An empty batch would still move the weights, by Adam's momentum."""
    with pytest.raises(MethodError, match="equally many batches"):
        check_stack("ss_cmpe", unequal(49, 3))  # 32, 33 and 33 rows: 2, 3 and 3 batches


def test_a_stack_raises_no_warning(recwarn):
    base = quick()
    data = prepare(small_grid().problem.given(small_grid().train), base)
    run(data, [base, replace(base, seed=1)], [split(len(data), base)] * 2)
    assert [str(w.message) for w in recwarn] == []


@pytest.mark.parametrize(
    "change",
    [{"hidden": (9,)}, {"loss": "ssl_pen"}, {"epochs": 9}, {"batch_size": 8}, {"skip": True},
     {"patience": 4}, {"margins": (0.0, 1.0)}],
)  # fmt: skip
def test_members_must_have_one_shape(change):
    base = quick()
    data = prepare(small_grid().problem.given(small_grid().train), base)
    parts = [split(len(data), base)] * 2
    with pytest.raises(MethodError, match="members of one stack may differ only in beta, contrast"):
        Trainer(data, [base, replace(base, **change)], parts)
    assert not set(change) & MEMBER_FIELDS


def test_smooth_and_piecewise_members_are_not_mixed():
    base = quick()
    data = prepare(small_grid().problem.given(small_grid().train), base)
    parts = [split(len(data), base)] * 2
    with pytest.raises(MethodError, match=r"all piecewise .* or all smooth"):
        Trainer(data, [base, replace(base, beta=2.0)], parts)


def test_data_of_other_margins_are_refused():
    data = prepare(small_grid().problem.given(small_grid().train), quick())
    config = quick(margins=(0.0, 1.0))
    with pytest.raises(MethodError, match="margins"):
        Trainer(data, [config], [split(len(data), config)])


def test_a_stack_needs_members_and_rows():
    base = quick()
    data = prepare(small_grid().problem.given(small_grid().train), base)
    with pytest.raises(MethodError, match="at least one config"):
        Trainer(data, [], [])
    with pytest.raises(MethodError, match="at least one row to train on"):
        Trainer(data, [base], [(np.zeros(0, dtype=np.intp), np.arange(3))])


# Determinism.


@pytest.mark.parametrize("loss", ["ss_cmpe", "pdl"])
def test_one_seed_one_result(loss):
    one = small_grid()
    first, again, other = (
        trained(one.problem, one.train, quick(loss, seed=seed, epochs=10)) for seed in (4, 4, 5)
    )
    for name, value in first.state().items():
        assert torch.equal(value.nan_to_num(), again.state()[name].nan_to_num()), name
    assert not torch.allclose(weights(first), weights(other))


def test_the_order_of_an_epoch_covers_every_row_once():
    one = small_grid()
    trainer = trainer_for(one.problem, one.train, quick(margins=(-2.0, -1.0, 0.0)))
    train = trainer.splits[0][0]
    asked = []
    for epoch in range(3):
        trainer.epoch = epoch
        ids, shares = trainer.order()
        real = ids[shares > 0].numpy()
        assert sorted(real // 3) == sorted(train)
        asked.append(dict(zip((real // 3).tolist(), (real % 3).tolist(), strict=True)))
        batches = shares.reshape(trainer.steps, -1)
        torch.testing.assert_close(batches.sum(1), torch.ones(trainer.steps))
    assert asked[0] != asked[1]
    assert len({tuple(a) for a in asked}) == 3  # another order every time


def test_a_state_continues_to_the_same_weights():
    one = small_grid()
    whole = trained(one.problem, one.train, quick("pdl", epochs=12, learning_rate=1e-2))
    first = trainer_for(one.problem, one.train, quick("pdl", epochs=12, learning_rate=1e-2))
    calls = iter(range(10_000))
    list(first.epochs(lambda: next(calls) >= 3 * 8 + 2))  # in the middle of the first dual epoch
    assert (first.epoch, first.position) == (8, 2)
    second = trainer_for(one.problem, one.train, quick("pdl", epochs=12, learning_rate=1e-2))
    second.load_state(first.state())
    rest = list(second.epochs())
    assert [e.number for e in rest] == [9, 10, 11, 12]
    for name, value in whole.state().items():
        assert torch.equal(value.nan_to_num(), second.state()[name].nan_to_num()), name


def test_a_state_of_another_network_is_refused():
    one = small_grid()
    state = trainer_for(one.problem, one.train, quick()).state()
    for config in (quick(hidden=(9,)), quick("pdl")):
        with pytest.raises(MethodError, match="of another network, problem or set of rows"):
            trainer_for(one.problem, one.train, config).load_state(state)


# Every loss, every kind of problem.


def check_trains(problem, evidence, config):
    trainer = trainer_for(problem, evidence, config)
    start = weights(trainer)
    epochs = list(trainer.epochs())
    assert len(epochs) == config.epochs
    assert weights(trainer).isfinite().all()
    assert all(np.isfinite(e.measures["loss"]).all() for e in epochs)
    if start.numel():
        assert not torch.equal(start, weights(trainer))
    return trainer, epochs


def rows_of(problem, count=20, seed=0):
    rng = np.random.default_rng(seed)
    cards = [problem.objective.cardinalities[v] for v in problem.evidence_variables]
    columns = [rng.integers(0, k, count) for k in cards]
    return np.stack(columns, axis=1) if columns else np.zeros((count, 0), dtype=int)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_on_mixed_cardinalities_and_arities(loss):
    problem = mixed_problem()
    config = quick(loss, beta=5.0, epochs=11, batch_size=8)
    check_trains(problem, rows_of(problem), config)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_with_potentials_of_zero(loss):
    problem = mixed_problem(zeros=True)
    check_trains(problem, rows_of(problem), quick(loss))


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_without_constraints(loss):
    problem = Problem(mixed_problem().objective, (), (0, 4))
    check_trains(problem, rows_of(problem), quick(loss, predict_multiplier=True))


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_with_one_variable_and_no_evidence(loss):
    problem = one_choice(2.0, slope=10.0)  # relaxed, y <= 0.2, which rounds to the only answer
    evidence = np.zeros((3, 0), dtype=int)
    config = quick(loss, epochs=60, learning_rate=0.1, rho=3.0, penalty_start=20.0)
    _, epochs = check_trains(problem, evidence, config)
    assert epochs[-1].look.violation[0] == 0.0
    assert epochs[-1].look.regret[0] == pytest.approx(0.0, abs=1e-5)


def test_all_variables_observed():
    whole = small_grid().problem
    problem = Problem(
        whole.objective, (Constraint(whole.constraints[0].function, 100.0),), tuple(range(9))
    )
    trainer = trainer_for(problem, rows_of(problem, 6), quick())
    epochs = list(trainer.epochs())
    assert epochs[-1].look.regret[0] == pytest.approx(0.0, abs=1e-4)


def test_entropy_terms_margins_and_factors_of_lambda():
    one = small_grid()
    check_trains(one.problem, one.train, quick(gamma=0.5, temperature=2.0, epochs=5))
    check_trains(one.problem, one.train, quick(margins=(-1.0, 0.0, 2.0)))
    config = quick("ssl_pen", penalty_factor=2.0, penalty_limit=3.0, epochs=4)
    trainer, _ = check_trains(one.problem, one.train, config)
    penalty = trainer.program.examples.penalty
    assert set(penalty.unique().tolist()) <= {1.0, 2.0, 3.0}
    assert penalty.max() > 1.0


def test_the_entropy_bonus_cools_to_nothing():
    trainer = trainer_for(
        small_grid().problem, small_grid().train, quick(temperature=4.0, cooling=0.5, epochs=8)
    )
    found = []
    for epoch in range(8):
        trainer.epoch = epoch
        found.append(float(trainer.temperatures()[0, 0]))
    assert found[0] > 0
    shares = [value / found[0] for value in found]
    assert shares == pytest.approx([1.0, 0.75, 0.5, 0.25, 0.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("loss", "changes"),
    [
        ("ss_cmpe", {"beta": 1.0, "contrast": 5.0, "temperature": 1.0}),
        ("ssl_pen", {"rho": 1.0}),
        ("pdl", {"epochs": 40}),
        ("distill", {}),
        ("mse", {}),
        ("mae_pen", {}),
    ],
)
def test_training_lowers_the_validation_score(loss, changes):
    one = small_grid(4, samples=200, percentile=60)
    usual = {"hidden": (32,), "skip": True, "epochs": 25, "batch_size": 32, "learning_rate": 1e-2}
    config = quick(loss, **(usual | changes))
    trainer = trainer_for(one.problem, one.train, config)
    before = trainer.look(0.0).score[0]
    for _ in trainer.epochs():
        pass
    trainer.finish()
    after = trainer.look(0.0).score[0]
    assert after < 0.5 * before


def test_the_best_weights_are_kept_where_asked():
    one = small_grid(4, samples=120, percentile=60)
    for keep in (True, False):
        config = quick("mse", epochs=12, learning_rate=0.3, keep_best=keep)
        trainer = trainer_for(one.problem, one.train, config)
        scores = [e.look.score[0] for e in trainer.epochs()]
        trainer.finish()
        wanted = min(scores) if keep else scores[-1]
        assert trainer.look(0.0).score[0] == pytest.approx(wanted)
    assert min(scores) < scores[-1]  # so that the two differ


def test_training_stops_when_it_no_longer_improves():
    one = small_grid()
    config = quick("mse", epochs=50, learning_rate=0.0, patience=3, evaluate_every=2)
    epochs = list(trainer_for(one.problem, one.train, config).epochs())
    assert len(epochs) == 2 + 3 * 2  # the first look, then three that are no better
    assert [e.number for e in epochs if e.look is not None] == [2, 4, 6, 8]


def test_looks_are_what_enumeration_says():
    """Regret and violations of the rounded answers, computed again from the problem."""
    one = small_grid()
    trainer = trained(one.problem, one.train, quick("ssl_pen", epochs=2))
    held = trainer.splits[0][1]
    look = trainer.look(0.0)
    program = trainer.program
    with torch.no_grad():
        rows = torch.as_tensor(held).unsqueeze(0)
        points = program.forward(program.adam.parameters, rows, torch.zeros(rows.shape)).points
    values = program.relaxation.coordinates.assignments(points[0])
    problem = one.problem
    full = problem.given(one.train[held]).complete(values)
    feasible = problem.is_feasible(full)
    assert look.violation[0] == pytest.approx(1.0 - feasible.mean())
    best = trainer.data.reference[held]
    regret = best - problem.objective.value(full)
    assert look.regret[0] == pytest.approx(regret[feasible].mean(), abs=1e-4)
    price = TRAINING.violation_price * (problem.shift - best).mean()
    wanted = np.where(feasible, regret, 0.0).mean() + price * (~feasible).mean()
    assert look.score[0] == pytest.approx(wanted, abs=1e-4)
    assert look.distinct[0] == len(np.unique(values, axis=0))


def forbidden_is_tempting():
    """h forbids y = 1; raised by 20 nats it looks better (f = 21) than y = 0 (f = 51)."""
    h = LogLinearModel((2,), (Factor((0,), [-50.0, 0.0]), Factor((0,), [0.0, -np.inf])))
    t = LogLinearModel((2,), (Factor((0,), [0.0, 0.0]),))
    problem = Problem(h, (Constraint(t, 1.0),))
    config = quick(epochs=20, hidden=(), learning_rate=1.0, validation_share=0.5, floor=20.0)
    return trained(problem, np.zeros((4, 0), dtype=int), config)


def test_forbidden_answers_do_not_lower_p_upper():
    trainer = forbidden_is_tempting()
    assert (trainer.program.examples.p_upper >= 51.0).all()


def test_forbidden_answers_are_not_reported_as_feasible():
    trainer = forbidden_is_tempting()
    trainer.program.adam.parameters["bias0"].data.fill_(5.0)  # y = 1
    look = trainer.look(0.0)
    assert look.violation[0] == 1.0
    assert np.isnan(look.regret[0])
