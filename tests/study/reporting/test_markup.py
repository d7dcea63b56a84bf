from __future__ import annotations

import csv
import io

from study.reporting.markup import latex, spans, to_csv, to_latex, to_markdown
from study.reporting.study import Measured
from study.reporting.tables import Column, Entry, Row, Table, number, words

TABLE = Table(
    "t",
    "A | B",
    "50 % of A_1",
    (Column("method", words=True), Column("ours", over="X"), Column("paper", over="X")),
    (
        Row(
            (words("=1+1"), Entry("0.1 ± 0.2", 0.1, Measured(0.1, 0.2, 0.03), best=True), words(""))
        ),
        Row((words("a|b\n<i>"), Entry("–", note="too long"), Entry("0.5", 0.5, flagged=True))),
    ),
    "S",
)


def test_markdown():
    lines = to_markdown(TABLE).splitlines()
    assert lines[0] == r"### A \| B"
    assert "| method | X: ours | X: paper |" in lines
    assert "| --- | ---: | ---: |" in lines
    assert r"| a\|b \<i\> | – (1) | <u>0.5</u> |" in lines
    assert any("**0.1 ± 0.2**" in line for line in lines)
    assert lines[-1] == "1. too long"


def test_latex():
    text = to_latex(TABLE)
    assert r"\caption{A \textbar{} B. 50 \% of A\_1 No figure: (1) too long.}" in text
    assert r" & \multicolumn{2}{c}{X} \\" in text
    assert r"\textbf{0.1 $\pm$ 0.2}" in text
    assert r"\underline{0.5}" in text
    assert text.count("{") == text.count("}")
    assert latex("\\input{x} $&~^") == (
        r"\textbackslash{}input\{x\} \$\&\textasciitilde{}\textasciicircum{}"
    )


def test_csv_has_plain_numbers_and_no_formulas():
    rows = list(csv.reader(io.StringIO(to_csv(TABLE))))
    assert rows[0] == [
        "method", "X: ours", "X: ours (std over rows)", "X: ours (std over seeds)",
        "X: ours (mark)", "X: paper", "X: paper (mark)",
    ]  # fmt: skip
    assert rows[1] == ["'=1+1", "0.1", "0.2", "0.03", "best", "", ""]
    assert rows[2] == ["a|b\n<i>", "", "", "", "missing: too long", "0.5", "violations above 0.15"]


def test_spans():
    assert spans(TABLE.columns) == [("", 1), ("X", 2)]
    assert number(None, note="x").note == "x"
