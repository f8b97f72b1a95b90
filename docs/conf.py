"""Sphinx builds the documentation site with this file: `make docs` writes build/docs.

The source folder is the repository, so that pages below docs/ link to CHANGELOG.md and to results of benchmarks as on a
code host.
"""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

from dragoman.version import REPOSITORY, __version__

_DOCS = Path(__file__).parent
sys.path.insert(0, str(_DOCS / "_extensions"))

project = "Dragoman"
author = "The Dragoman authors"
project_copyright = "The Dragoman authors"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",
    "section_search",
    "settings_reference",
    "command_reference",
]
root_doc = "docs/index"
include_patterns = ["docs/**", "benchmarks/results/*.md", "[A-Z]*.md"]
exclude_patterns = [
    ".*",
    "build",
    "README.md",
    "benchmarks/results/*.card.md",
    "docs/_*",
    "docs/README.md",
    "docs/log/*",  # only on the code host
    "docs/images/README.md",
    # Pages with cells are shown as their notebooks, which have the results.
    *(f"docs/{path.parent.name}/{path.stem}.md" for path in _DOCS.glob("*/*.ipynb")),
]
nb_execution_mode = "off"
autodoc_preserve_defaults = True
default_role = "py:obj"  # docstrings name parameters and classes in single backticks
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
numpydoc_show_class_members = False
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4

html_theme = "pydata_sphinx_theme"
html_title = "Dragoman"
html_favicon = "_static/logo.svg"
html_theme_options = {
    "logo": {"text": f"Dragoman {version}", "image_light": "_static/logo.svg", "image_dark": "_static/logo.svg"},
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 8,
    "navigation_with_keys": False,
    "pygments_dark_style": "a11y-high-contrast-dark",
    "show_toc_level": 2,
}
html_context = {"default_mode": "auto"}
if REPOSITORY:  # a page of a notebook is edited as its Markdown
    html_theme_options["use_edit_page_button"] = True
    html_context["edit_page_url_template"] = f"{REPOSITORY}/edit/main/{{{{ file_name|replace('.ipynb', '.md') }}}}"
html_sidebars: dict[str, list[str]] = {"docs/index": [], "docs/faq": []}
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_extra"]
templates_path = [str(_DOCS / "_templates")]  # autosummary looks from the source folder
html_copy_source = False
html_show_sourcelink = False


def _link_to_log_as_file(app: Sphinx, docname: str, source: list[str]) -> None:
    """Let links to the log, which is no page of the site, lead to a copy of its file."""
    source[0] = re.sub(r"\]\((?=[\w./]*\blog/\d{4}\.md)", "](path:", source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _link_to_log_as_file)
