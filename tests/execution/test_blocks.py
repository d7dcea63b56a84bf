import pytest

from cmpe.errors import BackendError, InputError
from cmpe.execution import Workplace
from cmpe.execution.blocks import map_blocks
from cmpe.execution.local import InProcess, LocalProcesses
from cmpe.execution.settings import EXECUTION
from tests.execution.work import refuse, square, wait_for_the_last


@pytest.mark.parametrize("make", [InProcess, lambda: LocalProcesses(2)], ids=["here", "two"])
def test_every_block_is_done_once(make):
    work = make()
    found = list(map_blocks(work, square, ((k, (k,)) for k in range(9))))
    work.close()
    assert sorted(found) == [(k, k * k) for k in range(9)]


def test_blocks_are_read_when_there_is_room_for_them():
    read = []

    def blocks():
        for k in range(9):
            read.append(k)
            yield k, (k,)

    found = map_blocks(InProcess(), square, blocks())
    for done in range(4):
        next(found)
        assert len(read) == done + EXECUTION.ahead


def test_a_free_process_takes_what_a_slow_one_leaves(tmp_path):
    work = LocalProcesses(2)
    blocks = ((k, (k, 8, str(tmp_path / "flag"))) for k in range(9))
    found = [number for number, _ in map_blocks(work, wait_for_the_last, blocks)]
    work.close()
    assert sorted(found) == list(range(9))
    assert found.index(0) >= 7, "block 0 waited for the others"


def test_an_error_says_whose_fault_it_is():
    with pytest.raises(InputError, match="odd: 1"):
        list(map_blocks(InProcess(), refuse, [(0, (1,))]))
    with pytest.raises(BackendError, match="TypeError"):
        list(map_blocks(InProcess(), square, [(0, ("text",))]))


def test_a_workplace_makes_its_executor():
    assert isinstance(Workplace().executor(), InProcess)
    work = Workplace(workers=2, threads=3).executor()
    assert work.capacity == 2
    work.close()


def test_a_cluster_is_kept_between_calls(monkeypatch):
    asked = []
    monkeypatch.setattr("cmpe.execution.connected", lambda *what: asked.append(what))
    with Workplace(workers=2).kept():
        assert not asked
    Workplace("ray", 2, 3, "there:1").kept()
    assert asked == [("there:1", 6)]
