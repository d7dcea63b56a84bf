from __future__ import annotations

import statistics

import pytest

from study.reporting.names import by_rank, family_of, natural, slug_of
from study.reporting.study import NOT_RUN, Study
from tests.study.reporting import synthetic


def test_a_figure_is_the_mean_over_seeds_with_two_spreads(study):
    found = study.figure(("Grids_17", 80.0, "pdl"), "gap")
    seeds = [synthetic.metrics("Grids_17", 80, "pdl", seed) for seed in (0, 1)]
    means = [s["gap"] for s in seeds]
    assert found.mean == pytest.approx(sum(means) / 2)
    assert found.seeds_std == pytest.approx(statistics.stdev(means))
    pooled = (sum(s["gap_std"] ** 2 for s in seeds) / 2) ** 0.5
    assert found.rows_std == pytest.approx(pooled)
    assert found.seeds == 2


def test_one_seed_has_no_spread_over_seeds(study):
    found = study.figure(("dna", 80.0, "exact"), "seconds")
    assert found.seeds_std is None
    assert found.rows_std is not None


def test_what_is_missing_has_a_reason(study):
    dataset, q, method = synthetic.MISSING
    key = (dataset, float(q), method)
    assert study.figure(key, "gap") is None
    assert study.reason(key) == synthetic.REASON
    assert study.reason(("dna", 33.0, "pdl")) == NOT_RUN
    assert "not in the results" in study.reason(
        ("dna", 80.0, "pdl")
    )  # measured, but no such figure


def test_order(study):
    assert study.datasets() == ["Grids_17", "Segmentation_12", "dna", "Grids_17_10"]
    assert study.datasets("wide") == ["Grids_17_10"]
    assert study.qs("dna") == [10.0, 80.0]
    assert by_rank(["zeta", "exact", "ilp", "alpha", "pdl"]) == [
        *("ilp", "pdl", "exact", "alpha", "zeta")
    ]
    assert sorted(["g_10", "g_9", "G_11"], key=natural) == ["g_9", "g_10", "G_11"]
    assert family_of("Grids_17", "uai") == "Grids"
    assert family_of("Grids_17", "wide") == "Wide problems"


def test_slugs_are_safe_file_names():
    assert slug_of("../../etc/passwd") == "etc-passwd"
    assert slug_of("<script>") == "script"
    assert slug_of("///") == "x"
    assert len(slug_of("a" * 500)) == 60


def test_the_optimum_comes_from_most_rows(results):
    few, many = results.cells[0], results.cells[1]
    from dataclasses import replace

    cells = (
        replace(few, method="ilp", seed=0, mean_reference=-1.0, every={"rows": 5.0}),
        replace(many, method="exact", seed=0, mean_reference=-2.0, every={"rows": 900.0}),
    )
    found = Study(replace(results, cells=cells)).optimum(few.dataset, few.q)
    assert found.mean == -2.0
