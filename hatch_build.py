"""The README as a package index shows it: without pictures and links into this repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r'^(!\[[^\]]*\]\(|<img src=")(?!https?://).*[)>]\n\n?', re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\((?!https?://)[^)]*\)")
# In parentheses nothing but such links: "(more)" says nothing to a reader who cannot follow it.
ASIDE = re.compile(rf"\s*\({LINK.pattern}(?:,\s+{LINK.pattern})*\)")
MARK = re.compile(r"^<!--.*-->\n", re.MULTILINE)


def for_an_index(text: str) -> str:
    """Relative links become their words, or go; a reader of an index page has no repository."""
    return MARK.sub("", LINK.sub(r"\1", ASIDE.sub("", PICTURE.sub("", text))))


class CustomMetadataHook(MetadataHookInterface):
    """Called by hatchling when it builds or installs the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field `readme`."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_an_index(text)}
