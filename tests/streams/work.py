"""A job over pieces, at the top of a module so that other processes find it, and its questions."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Problem
from cmpe.streams.folder import AnswerPart, StreamQuestion

NAMES, STATES = ("a", "b", "c"), (("no", "yes"), ("low", "high", "top"), ())


def named_problem() -> Problem:
    """Three variables of 2, 3 and 2 values with names; the first two are observed."""
    model = LogLinearModel((2, 3, 2), (Factor((0, 1, 2), np.zeros((2, 3, 2))),), NAMES, STATES)
    return Problem(model, evidence_variables=("a", "b"))


@dataclass(frozen=True)
class SumJob:
    """A line with the sum of each row; waits or dies where it is told to."""

    problem: Problem
    slow: float = 0.0
    dies_at: int = -1
    flag: str = ""

    def __call__(self, first, piece):
        rows = piece.read(self.problem).states[:, list(self.problem.evidence_variables)]
        if first == self.dies_at and not Path(self.flag).exists():
            Path(self.flag).touch()
            os._exit(1)
        time.sleep(self.slow)
        lines = [json.dumps({"index": first + i, "sum": int(r.sum())}) for i, r in enumerate(rows)]
        data = "".join(f"{line}\n" for line in lines).encode()
        return AnswerPart(data, len(rows), Counter(fine=len(rows)), 0.5)


def question(block=4, **asked):
    return StreamQuestion({"method": "sum", **asked}, block, "jsonl")


def lines_in(folder):
    """All lines of all parts, in order."""
    files = sorted(folder.glob("part-*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
