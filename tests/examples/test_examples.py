"""Models that come with the package."""

from __future__ import annotations

import pytest

import cmpe


def test_alarm_is_a_network_of_37_variables_with_names():
    net = cmpe.read_model(cmpe.example("alarm"))
    assert net.variables == 37
    assert net.domain.states_of(net.domain.variable("HRBP")) == ("LOW", "NORMAL", "HIGH")
    assert cmpe.solve(cmpe.Problem(net), {"HRBP": "HIGH"})[0].status is cmpe.Status.OPTIMAL


def test_an_unknown_name_is_refused():
    with pytest.raises(cmpe.CmpeError, match="an example is one of alarm, found 'alarms'"):
        cmpe.example("alarms")
