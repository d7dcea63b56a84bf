"""UAI `.query` files: `k v1 ... vk`, the variables asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cmpe.formats.text import Tokens, read_text, write_text


def read_query(path: Path | str) -> tuple[int, ...]:
    """The variables of a query."""
    tokens = Tokens(path, read_text(path))
    count = tokens.whole("the number of query variables")
    variables = tokens.wholes(count, "a query variable")
    if len(set(variables)) != count:
        found = f"{Counter(variables).most_common(1)[0][0]} twice"
        raise tokens.error("distinct query variables", found, back=count)
    tokens.finish()
    return tuple(variables)


def write_query(variables: Sequence[int], path: Path | str) -> None:
    """Write the variables of a query."""
    write_text(path, " ".join(map(str, [len(variables), *variables])) + "\n")
