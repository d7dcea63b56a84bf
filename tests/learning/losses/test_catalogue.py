"""The one list of losses."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cmpe.errors import MethodError
from cmpe.learning.losses.catalogue import (
    LOSS_KINDS,
    PAPER_LOSSES,
    Family,
    loss_kind,
    losses_of,
)


def test_the_papers_losses_and_ours():
    assert PAPER_LOSSES == (
        "mse", "mae", "mse_pen", "mae_pen", "ssl_pen", "pdl", "ss_cmpe", "ss_cmpe_pen"
    )  # fmt: skip
    assert set(LOSS_KINDS) - set(PAPER_LOSSES) == {"distill"}


def test_families_share_out_the_losses():
    assert sorted(n for family in Family for n in losses_of(family)) == sorted(LOSS_KINDS)
    assert losses_of(Family.consistent) == ("ss_cmpe", "ss_cmpe_pen")
    labelled = {name for name, kind in LOSS_KINDS.items() if kind.labels}
    assert labelled == {*losses_of(Family.supervised), *losses_of(Family.distilled)}


def test_unknown_losses_are_refused():
    with pytest.raises(MethodError, match=r"a loss is one of mse, .*; found 'huber'"):
        loss_kind("huber")


def test_the_list_needs_no_torch():
    code = "import sys, cmpe.learning.losses.catalogue; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
