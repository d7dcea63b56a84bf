"""The documentation site: `make docs` builds it, without the network, warnings as errors.

CMPE_DOCS_QUICK=1 runs the gallery in its quick form; CMPE_DOCS_PLAIN=1 leaves it out.
"""

import os
import re
import sys
import tomllib
from pathlib import Path

from sphinx.util.inspect import TypeAliasForwardRef

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
if "CMPE_DOCS_QUICK" in os.environ:
    os.environ["CMPE_QUICK"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "cmpe"
author = "The cmpe developers"
copyright = "2026, the cmpe developers"
release = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["version"]
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "commands",
    "docstrings",
    "mathml",
    "tree",
]
exclude_patterns = ["build", "_ext", "figures", "gallery/*.md5", "gallery/*.ipynb"]
# The attribute `bytes` of two classes is no better answer to the type `bytes` than none.
suppress_warnings = ["ref.python"]
default_role = "code"
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4

autodoc_default_options = {"members": True, "member-order": "bysource", "show-inheritance": False}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
# By these names, which the head of the reference explains, not by what they stand for.
ARRAYS = ("ArrayLike", "Assignments", "Floats", "Indices", "Integers", "NDArray", "Values")
autodoc_type_aliases = {name: name for name in (*ARRAYS, "Evidence")}
TypeAliasForwardRef.__getitem__ = lambda self, item: self  # NDArray[np.bool_] is shown as NDArray
TypeAliasForwardRef.__repr__ = lambda self: self.name  # inside of unions and tuples
python_maximum_signature_line_length = 70
python_display_short_literal_types = True
add_module_names = False
toc_object_entries = False

if "CMPE_DOCS_PLAIN" not in os.environ:
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": "../gallery",
        "gallery_dirs": "gallery",
        "filename_pattern": re.escape(os.sep),  # every script is run
        "within_subsection_order": "ladder.Ladder",
        "download_all_examples": False,
        "remove_config_comments": True,
        "show_memory": False,
        "show_signature": False,
        "min_reported_time": 0,
        "capture_repr": (),
        "copyfile_regex": r"^$",
        "abort_on_example_error": True,
        "write_computation_times": False,
        "default_thumb_file": str(HERE / "figures" / "thumbnail.png"),
    }

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = f"cmpe {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "icon_links": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_context = {"default_mode": "auto"}
html_sidebars = {"index": []}
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True


def setup(app):
    """Pages link to files of the repository that the site holds under another name."""
    app.connect("source-read", _inside)


def _inside(app, page, source):
    source[0] = source[0].replace("](../CONTRIBUTING.md", "](contributing.md")
    drawn = "sphinx_gallery.gen_gallery" in app.config.extensions
    page = r"[\1](gallery/\2.rst)" if drawn else r"\1"
    source[0] = re.sub(r"\[([^\]]*)\]\(\.\./gallery/(\w+)\.py\)", page, source[0])
    if not drawn:
        source[0] = source[0].replace(":link: gallery/index", ":link: learn")
        source[0] = source[0].replace("\ngallery/index\n", "\n")
