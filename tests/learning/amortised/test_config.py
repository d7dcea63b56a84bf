"""Settings: checked, written and read."""

from __future__ import annotations

import json

import pytest

from cmpe.learning.amortised.config import AmortisedConfig, QuestionRange
from tests.refusals import refused


def test_settings_survive_a_file():
    config = AmortisedConfig(
        steps=8, seconds=3, questions=QuestionRange(((0.2, 0.4),), limits=(1,), observed=(0, 2))
    )
    again = AmortisedConfig.from_json(json.loads(json.dumps(config.to_json())))
    assert again == config
    assert again.questions.has_rate(0.3)
    assert not again.questions.has_rate(0.5)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"generations": 0}, "generations must be at least 1"),
        ({"floor": -1}, "floor must be finite and at least 0"),
        ({"seconds": "long"}, "seconds"),
        ({"depth": 4}, "no setting 'depth'"),
        ({"questions": {"share": 1}}, "no setting 'share'"),
        ({"questions": 4}, "questions must be an object"),
        ({"questions": {"rates": []}}, "intervals as in"),
        ({"questions": {"rates": [0.1]}}, "intervals as in"),
        ({"questions": {"rates": [[0.9, 0.1]]}}, "must lie from 0 to 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(values, match):
    refused(lambda: AmortisedConfig.from_json(values), match)


def test_settings_are_an_object():
    refused(lambda: AmortisedConfig.from_json([1]), "is an object")  # type: ignore[arg-type]
