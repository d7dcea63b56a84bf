"""Formulas as MathML, which browsers draw themselves: no script and no network are needed."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml, pick_math_environment


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (displayed, None))
    return {"parallel_read_safe": True}


def inline(translator: Any, node: nodes.math) -> None:
    """A formula in a sentence."""
    translator.body.append(str(latex2mathml.tex2mathml(known(node.astext()))))
    raise nodes.SkipNode


def displayed(translator: Any, node: nodes.math_block) -> None:
    """A formula on a line of its own."""
    text = known(node.astext())
    if pick_math_environment(text) == "align*":
        text = rf"\begin{{align*}}{text}\end{{align*}}"
    markup = latex2mathml.tex2mathml(text, as_block=True)
    translator.body.append(f'<div class="math">{markup}</div>\n')
    raise nodes.SkipNode


def known(text: str) -> str:
    """The formula without the commands that docutils does not know."""
    return re.sub(r"\\(Big|big)[lrg]?(?![a-z])", "", text.replace(r"\dots", r"\ldots"))
