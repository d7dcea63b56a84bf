"""`cmpe sensitivity`: the numbers of `cmpe.sensitivity`, as a paragraph or an object a row."""

import cmpe
from tests.cli.commands import output, rows_of


def test_json_has_the_numbers_of_the_function(models):
    words = ["sensitivity", *models, "--evidence", "e.evid"]
    rows = rows_of(output(*words, "--format", "json"))
    h, t = cmpe.read_model("h.uai"), cmpe.read_model("t.uai")
    found = cmpe.sensitivity(cmpe.Problem(h, [t <= 8.0]), [{0: 1}, {0: 0}])
    for row, each in zip(rows, found, strict=True):
        assert row["status"] == "optimal"
        assert row["objective"] == each.answer.objective
        radii = {tuple(entry["variables"]): entry["radius"] for entry in row["radius"]}
        for scope, radius in each.radius.items():
            assert radii[tuple(map(str, scope))] == (radius if radius < float("inf") else None)
    text = output(*words)
    assert text.startswith("row 0: optimal, objective ")
    assert "another value costs" in text
    assert "may change by" in text
