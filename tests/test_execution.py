import os

import pytest

from cmpe.errors import BackendError
from cmpe.execution import map_rows


def square(row):
    return row * row


def die(row):
    if row == 3:
        os._exit(1)
    return row


@pytest.mark.parametrize("workers", [1, 2])
def test_every_row_comes_back_once(workers):
    assert dict(map_rows(square, 20, workers=workers)) == {r: r * r for r in range(20)}


def test_a_dead_worker_is_said():
    with pytest.raises(BackendError, match="worker process died"):
        list(map_rows(die, 20, workers=2))


def test_stopping_early_ends_the_workers():
    rows = map_rows(square, 1000, workers=2)
    next(rows)
    rows.close()
