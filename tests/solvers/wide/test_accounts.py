"""Shares of time follow what was earned, and nobody is left out."""

import pytest

from cmpe.solvers.wide.accounts import LEAST, LONGER, Account, next_of


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
    assert bad.played / good.played == pytest.approx(LEAST, rel=0.1)
    assert good.rate > 1.0 > bad.rate


def test_earning_next_to_nothing_counts_as_nothing():
    slow, none = Account(Idle()), Account(Idle())
    for _ in range(100):
        account = next_of([slow, none], 1.0)
        account.note(1e-6 if account is slow else 0.0, 1.0, 1.0)
    assert slow.played == pytest.approx(none.played, abs=1.0)


def test_turns_become_longer_and_a_split_is_not_charged_with_all_it_takes():
    account = Account(Idle())
    account.note(0.0, 10.0, 1.0)
    assert account.played == 2.0
    assert account.paces == pytest.approx(LONGER)
