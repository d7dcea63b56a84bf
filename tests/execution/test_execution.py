import sys

import pytest

from cmpe.errors import MethodError, MissingExtra
from cmpe.execution import executor
from cmpe.execution.local import InProcess, LocalProcesses


def test_workers_decide_where_tasks_run():
    assert isinstance(executor(), InProcess)
    two = executor(workers=2)
    assert isinstance(two, LocalProcesses)
    assert two.capacity == 2
    two.close()


@pytest.mark.parametrize(
    "wrong", [{"kind": "cloud"}, {"workers": 0}, {"address": "auto"}], ids=lambda wrong: str(wrong)
)
def test_wrong_executors_are_refused(wrong):
    with pytest.raises(MethodError, match=r"executor|workers"):
        executor(**wrong)


def test_a_cluster_needs_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"cmpe\[ray\]"):
        executor("ray")
