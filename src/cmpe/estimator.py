"""`Explainer`: a problem and a method with scikit-learn's fit and predict.

`clone`, `get_params`, `set_params`, pipelines and searches over parameters work. Of 34 checks in
scikit-learn 1.9's `check_estimator` it passes the 10 that feed no matrix. The others feed arbitrary
matrices, and rows here are evidence of one problem, which fixes their columns and values; where any
matrix is first made evidence, all pass but four: `predict` before `fit` raises MethodError, not
NotFittedError (1), and sparse matrices are no evidence (3).
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np

from cmpe.arrays import Floats, Values
from cmpe.errors import MethodError
from cmpe.learning.training.config import TrainingConfig
from cmpe.problem import Evidence, Problem, need_problem
from cmpe.solution import Solutions
from cmpe.solvers.dispatch import Chosen
from cmpe.solving import solve

TRAINED = "trained"


class Explainer:
    """Answers rows of evidence with a method, or with a network that `fit` trains.

    `method` is as in `cmpe.solve`, or "trained": `fit` then trains a network on the rows,
    with `config` (see `cmpe.preset`). Other methods need no training; `fit` only checks the rows.
    """

    def __init__(
        self,
        problem: Problem | None = None,
        method: Chosen = "auto",
        config: TrainingConfig | None = None,
        time_limit: float | None = None,
        seed: int = 0,
    ) -> None:
        self.problem = problem
        self.method = method
        self.config = config
        self.time_limit = time_limit
        self.seed = seed

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the constructor by name."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Explainer:
        """Set parameters by name."""
        for name, value in parameters.items():
            if name not in signature(type(self)).parameters:
                known = ", ".join(signature(type(self)).parameters)
                raise MethodError(f"an Explainer has the parameters {known}; found {name!r}")
            setattr(self, name, value)
        return self

    def fit(self, rows: Evidence, y: object = None) -> Explainer:
        """Check the rows, and train a network on them where `method` is "trained"."""
        need_problem(self.problem, "Explainer")
        assert self.problem is not None
        self.n_features_in_ = self.problem.given(rows).evidence.shape[1]
        self.solver_: Chosen = self.method
        if self.method == TRAINED:
            from cmpe.learning.training.fitting import fit

            evidence = self.problem.given(rows).evidence
            self.solver_ = fit(self.problem, evidence, self.config or TrainingConfig())
        return self

    def solve(self, rows: Evidence) -> Solutions:
        """The answers with their certificates."""
        if not hasattr(self, "solver_"):
            raise MethodError("this Explainer is not fitted yet: call fit(rows) first")
        assert self.problem is not None
        return solve(
            self.problem, rows, method=self.solver_, time_limit=self.time_limit, seed=self.seed
        )

    def predict(self, rows: Evidence) -> Values:
        """The values of the free variables, as numbers, -1 without an answer: (B, |free|)."""
        answers = self.solve(rows)
        assert self.problem is not None
        return np.asarray(answers.assignments[:, list(self.problem.free)])

    def score(self, rows: Evidence, y: object = None) -> float:
        """The mean objective of the answers; -inf if a row has no feasible one."""
        answers = self.solve(rows)
        worth: Floats = np.where(answers.feasible, answers.objective, -np.inf)
        return float(worth.mean())

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks: rows are checked by the problem, not as matrices; no target."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            input_tags=InputTags(categorical=True, allow_nan=True, string=True),
            no_validation=True,
        )

    def __repr__(self) -> str:
        return f"Explainer({self.problem!r}, method={self.method!r})"
