import multiprocessing

import pytest

from cmpe.errors import BackendError
from cmpe.execution.rows import map_rows
from tests.execution.work import die_at_three, square


@pytest.mark.parametrize("workers", [1, 2])
def test_every_row_comes_back_once(workers):
    assert dict(map_rows(square, 20, workers=workers)) == {r: r * r for r in range(20)}


def test_a_dead_worker_is_said():
    with pytest.raises(BackendError, match="worker process died"):
        list(map_rows(die_at_three, 20, workers=2))


def test_stopping_early_ends_the_workers():
    before = set(multiprocessing.active_children())
    rows = map_rows(square, 1000, workers=2)
    row, result = next(rows)
    assert result == square(row)
    assert set(multiprocessing.active_children()) > before
    rows.close()
    assert set(multiprocessing.active_children()) <= before
