"""Short lists and tables."""

from cmpe.display import html_table, number_text, shortened


def test_lists_are_shortened():
    assert shortened([], 10) == ""
    assert shortened(["a", "b"], 10) == "a, b"
    assert shortened(["a" * 20, "b"], 10) == "a" * 20 + ", ... 1 more"
    assert shortened(list("abcdef"), 5, " ") == "a b c ... 3 more"


def test_numbers():
    assert [number_text(x) for x in (float("nan"), 1 / 3, float("-inf"))] == [
        "-",
        "0.333333",
        "-inf",
    ]


def test_tables_are_escaped_and_have_no_colours():
    text = html_table("<b>", ["x & y"], [["<script>", "1"]])
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "x &amp; y" in text
    assert "color" not in text
