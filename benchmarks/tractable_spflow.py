"""SPFlow's `learn_cnet` on one data set, for `benchmarks.tractable`; runs in another environment.

    PYTHON tractable_spflow.py FOLDER/NAME naive_mle|random MINIMUM_ROWS

PYTHON has SPFlow 0.0.48 with numpy 1.26 and networkx 2.8; nothing of this project is imported.
"""

from __future__ import annotations

import gzip
import json
import sys
import time

import numpy as np

for kind in (bool, float, int):
    setattr(np, kind.__name__, kind)  # SPFlow still uses the names that numpy 1.24 removed

from spn.algorithms.Inference import log_likelihood  # noqa: E402
from spn.algorithms.LearningWrappers import learn_cnet  # noqa: E402
from spn.structure.Base import Context  # noqa: E402
from spn.structure.leaves.cltree.Inference import add_cltree_inference_support  # noqa: E402
from spn.structure.leaves.parametric.Parametric import Bernoulli  # noqa: E402


def read(path: str) -> np.ndarray:
    with gzip.open(path, "rt") as stream:
        return np.loadtxt(stream, delimiter=",", dtype=int)


def main() -> None:
    add_cltree_inference_support()
    name, split, minimum_rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
    train, valid, test = (read(f"{name}.{part}.data.gz") for part in ("train", "valid", "test"))
    context = Context(parametric_types=[Bernoulli] * train.shape[1]).add_domains(train)
    begin = time.process_time()
    network = learn_cnet(train, context, cond=split, min_instances_slice=minimum_rows)
    seconds = time.process_time() - begin
    scores = {
        part: float(log_likelihood(network, rows).mean())
        for part, rows in (("valid", valid), ("test", test))
    }
    print(json.dumps({"s": seconds, **scores}))


if __name__ == "__main__":
    main()
