"""What every run over questions shares: steps, looks, a clock, files."""

from __future__ import annotations

import torch

from cmpe.learning.amortised.networks import network_of
from cmpe.learning.amortised.questions import Subject
from cmpe.learning.amortised.working import Course
from cmpe.learning.runs import read_log
from cmpe.learning.training.fitting import Session
from tests.learning.amortised.cases import config, posed
from tests.refusals import refused


class Counting(Course):
    """Steps that do nothing but count."""

    @property
    def total(self):
        return 4

    def step(self):
        self.updates += 1

    def look(self):
        return {"loss": 1.0 / self.updates}

    def weights(self):
        return dict(network_of(self.config, self.subjects[0].tables).state_dict())

    def held(self):
        rows = torch.full((2, 9), -1)
        return [(self.subjects[0], rows, torch.zeros((2, 1)))]

    def state(self):
        return {"steps": torch.tensor(self.updates)}

    def restore(self, state):
        assert int(state["steps"]) == self.updates


def _work(out, **changes):
    settings = config(looks=2, **changes)
    return Counting([Subject.of(posed(3), settings, "cpu", None)], settings, Session(out))


def test_a_run_looks_is_stopped_and_goes_on(tmp_path):
    told = []
    work = _work(tmp_path)
    work.session = Session(tmp_path, progress=told.append)
    assert not work.train(stop=lambda: work.updates == 2)
    assert [record["update"] for record in told] == [2]
    again = _work(tmp_path)
    again.resume()
    assert (again.updates, again.records) == (2, work.records)
    assert again.spent >= work.records[-1]["seconds"]
    assert again.train()
    assert [record["loss"] for record in read_log(tmp_path)] == [0.5, 0.25]
    assert again.solver().run.finished
    refused(_work(tmp_path, steps=3).resume, "of other settings")
    refused(_work(tmp_path / "none").resume, "nothing to resume")


def test_time_ends_a_run_as_steps_do():
    work = _work(None, seconds=1e-9)
    assert work.progress == 1.0
    assert work.train()
    assert work.updates == 0
