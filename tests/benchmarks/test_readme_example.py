"""The example that the type checker reads is the one in the README."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_is_that_of_the_readme():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    example = page.split("```python\n", 1)[1].split("```", 1)[0]
    kept = (ROOT / "benchmarks" / "readme_example.py").read_text(encoding="utf-8")
    assert kept.endswith(example)
