"""How Sphinx builds the documentation: MyST pages, the furo theme, mathematics as MathML. No network.

The pages work from the disk without a connection: formulas are MathML, which browsers show by themselves.
"""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

import dragoman

project = "dragoman"
author = "the dragoman authors"
copyright = "the dragoman authors, Apache License 2.0"
version = release = dragoman.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.doctest", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"dragoman {version}"
html_math_renderer = "mathml"
html_show_sphinx = False
html_copy_source = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_use_type_comments = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

# Pages with `>>>` print what they say, to the letter (tests/unit/test_concepts.py runs them alike). Sums depend on the
# number of threads in their last bits.
doctest_global_setup = "import torch; torch.set_num_threads(1)"
doctest_default_flags = 0


def inline_mathml(translator: HTML5Translator, node: nodes.math) -> None:
    """A formula within a line."""
    translator.body.append(latex2mathml.tex2mathml(node.astext()))
    raise nodes.SkipNode


def block_mathml(translator: HTML5Translator, node: nodes.math_block) -> None:
    """A formula on a line of its own."""
    translator.body.append(
        f'<div class="math">{latex2mathml.tex2mathml(node.astext(), as_block=True)}</div>\n'
    )
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Makes formulas MathML."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(inline_mathml, None), block_renderers=(block_mathml, None)
    )
