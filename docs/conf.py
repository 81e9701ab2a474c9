"""Sphinx: MyST pages, numpydoc docstrings, equations as MathML.  Nothing here needs the network."""

import inspect
import re
from importlib.metadata import version as installed_version
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml

project = "polinfer"
author = "the polinfer authors"
project_copyright = "the polinfer authors"
version = release = installed_version("polinfer")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
# Tutorials are notebooks in MyST Markdown: the build runs them, and a cell that fails fails the build.
nb_execution_mode = "auto"
nb_execution_timeout = 600  # of a cell, on a machine that does other things, too
nb_execution_raise_on_error = True
nb_merge_streams = True

# Docstrings write names in single backticks; nothing is looked up for them.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "sphinx_book_theme"
html_title = "polinfer"
html_static_path = ["_static"]
html_css_files = ["polinfer.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "navbar_persistent": [],  # The search field stands in the side bar already.
}
html_math_renderer = "mathml"

_ARRAY = re.compile(
    r"~?(?:numpy\.)?ndarray\[tuple\[~?(?:typing\.)?Any, \.\.\.\], "
    r"~?(?:numpy\.)?dtype\[~?(?:numpy\.)?(\w+)\]\]"
)
_FIELD = re.compile(r"^    (\w+): ([^=#]+?)(?: = [^#]+?)?(?:  # (.+))?$", re.MULTILINE)


def _add_fields(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """List the fields of a record with the comments beside them, which open with the field's shape."""
    if what != "class" or not _is_record(obj):
        return
    found = [match.groups() for match in _FIELD.finditer(inspect.getsource(obj))]
    fields = [(field, comment) for field, _, comment in found if field in obj.__annotations__]
    if not any(comment for _, comment in fields):
        return
    lines += ["", ".. rubric:: Fields", ""]
    for field, comment in fields:
        lines.append(f"- ``{field}``" + (f": {_literal(comment)}" if comment else ""))
    lines.append("")


def _is_record(obj: Any) -> bool:
    return isinstance(obj, type) and (hasattr(obj, "_fields") or hasattr(obj, "__dataclass_fields__"))


def _literal(comment: str) -> str:
    """Set the shape at the start of a comment in type, and keep the rest from being read as markup."""
    shape = re.match(r"\[[^\]]*\](?: (?:bool|float|int32|int64|uint32))?", comment)
    rest = comment[shape.end() :] if shape else comment
    return (f"``{shape[0]}``" if shape else "") + re.sub(r"([*_|\\])", r"\\\1", rest)


def _shorten_types(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Write array types as the sources do."""
    short = [None if text is None else _ARRAY.sub(r"NDArray[\1]", text) for text in (signature, returns)]
    return short[0], short[1]


def _skip_fields(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out the members of named tuples that only repeat the number of a field."""
    return True if type(obj).__name__ == "_tuplegetter" else None


def _mathml(tex: str, *, block: bool) -> str:
    text = latex2mathml.tex2mathml(tex, as_block=block)
    # Browsers set `log Z` without a space; TeX puts a thin one before what is not a bracket.
    return re.sub(r"(&ApplyFunction;</mo>)(\s*<(?!mo\b))", r'\1<mspace width="0.17em"/>\2', text)


def _inline_math(self: Any, node: nodes.math) -> None:
    self.body.append(_mathml(node.astext(), block=False))
    raise nodes.SkipNode


def _block_math(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math-block">{_mathml(node.astext(), block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    # Browsers draw MathML themselves: no script from elsewhere, and pages are whole without a network.
    app.add_html_math_renderer("mathml", (_inline_math, None), (_block_math, None))
    app.connect("autodoc-process-docstring", _add_fields)
    app.connect("autodoc-process-signature", _shorten_types)
    app.connect("autodoc-skip-member", _skip_fields)
