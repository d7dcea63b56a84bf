from cmpe.execution.base import TaskOutcome, attempt
from tests.execution.work import refuse, square


def test_a_result():
    assert attempt("nine", square, 3) == TaskOutcome("nine", 9)


def test_an_error_of_this_package_is_one_line_without_its_class():
    outcome = attempt("refused", refuse, 1)
    assert (outcome.result, outcome.error) == (None, "odd: 1")
    assert "EvidenceError" in outcome.trace


def test_another_error_is_named():
    outcome = attempt("broken", square, "text")
    assert outcome.error.startswith("TypeError: ")
    assert "square" in outcome.trace
