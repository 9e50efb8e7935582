"""How the documentation site is built: ``make docs``. Nothing is fetched, nothing is executed."""

from rcb_bayes import __version__

project = "rcb_bayes"
author = "The rcb_bayes developers"
copyright = "2026, the rcb_bayes developers"
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",
]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}
templates_path = ["_templates"]
myst_enable_extensions = ["dollarmath", "deflist", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the notebooks carry the outputs of a real run
nb_merge_streams = True

autosummary_generate = True
autodoc_typehints = "none"  # docstrings have the types
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Applicability"]

html_theme = "pydata_sphinx_theme"
html_title = "rcb_bayes"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
