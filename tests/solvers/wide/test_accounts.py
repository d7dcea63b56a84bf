"""Shares of time follow what was earned, and nobody is left out."""

import pytest

from cmpe.solvers.wide.accounts import Account, next_of
from cmpe.solvers.wide.settings import SETTINGS


class Idle:
    """Never finished, never any use."""

    name, finished = "idle", False

    def play(self, until):
        return until


def test_who_earns_plays_more_and_who_does_not_plays_a_fifth():
    good, bad = Account(Idle()), Account(Idle())
    for _ in range(200):
        account = next_of([good, bad], 1.0)
        account.note(2.0 if account is good else 0.0, 1.0, 1.0)
    assert bad.played / good.played == pytest.approx(SETTINGS.least, rel=0.1)
    assert good.rate > 1.0 > bad.rate


def test_earning_next_to_nothing_counts_as_nothing():
    slow, none = Account(Idle()), Account(Idle())
    for _ in range(100):
        account = next_of([slow, none], 1.0)
        account.note(1e-6 if account is slow else 0.0, 1.0, 1.0)
    assert slow.played == pytest.approx(none.played, abs=1.0)


def test_who_has_more_for_nothing_has_it_only_while_nobody_closes_the_gap():
    for rate, share in ((100.0, SETTINGS.least), (0.1, 1.0)):
        good, patient = Account(Idle()), Account(Idle(), slack=1.0)
        for _ in range(200):
            account = next_of([good, patient], 1.0)
            account.note(rate if account is good else 0.0, 1.0, 1.0)
        assert patient.played / good.played == pytest.approx(share, rel=0.1)


def test_a_split_is_not_charged_with_all_it_takes():
    account = Account(Idle())
    account.note(0.0, 10.0, 1.0)
    assert account.played == 2.0
