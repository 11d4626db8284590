"""Write formulas as MathML, which browsers draw by themselves: no script and nothing to load."""

import re
from xml.etree import ElementTree

NAMED = "{http://www.w3.org/1998/Math/MathML}"
ElementTree.register_namespace("", NAMED[1:-1])
REPLACED = {
    r"\lVert": r"\|",
    r"\rVert": r"\|",
    r"\lvert": "|",
    r"\rvert": "|",
    r"\tfrac": r"\frac",
    r"\dfrac": r"\frac",
    r"\bm": r"\mathbf",
    r"\_": "_",
}
_OPENING, _CLOSING, _ANY = (
    re.compile(rf"\\[bB]igg?{side}(?![A-Za-z])") for side in ("l", "r", "[lrm]?")
)
"""Commands for the size of brackets, which MathML stretches by itself."""


def mathml(latex, display):
    """Return a formula as MathML; lines of a display are aligned."""
    from latex2mathml.converter import convert  # noqa: PLC0415 - needed to build, not to test

    plain = latex.strip()
    if len(_OPENING.findall(plain)) == len(_CLOSING.findall(plain)):
        plain = _CLOSING.sub(r"\\right", _OPENING.sub(r"\\left", plain))
    plain = _ANY.sub("", plain)
    for given, known in REPLACED.items():
        end = r"(?![A-Za-z])" if given[-1].isalpha() else ""
        plain = re.sub(re.escape(given) + end, lambda _, known=known: known, plain)
    # Operators stand apart from what is before and behind them, as in TeX
    plain = re.sub(r"(?<=[\w)}|])\s*\\(log|exp|max|min)(?![A-Za-z])", r"\\,\\\1", plain)
    plain = re.sub(r"\\(log|max|min)\s+(?=[A-Za-z\\])", r"\\\1\\,", plain)
    if display and "\\\\" in plain and "\\begin" not in plain:
        plain = "\\begin{align*}" + plain + "\\end{align*}"
    elif display and "&" in plain and "\\begin" not in plain:
        plain = plain.replace("&", "")
    return spaced(convert(plain, display="block" if display else "inline"), display)


def spaced(text, display):
    """Set bars close to what they enclose, and what is maximised over below the operator."""
    tree = ElementTree.fromstring(text)
    for node in tree.iter():
        if node.tag == NAMED + "mo" and node.text in ("|", "\u2016"):
            node.attrib |= {"lspace": "0", "rspace": "0"}
        of_operator = node.tag == NAMED + "msub" and node[0].text in ("max", "min")
        if of_operator and display:
            node.tag = NAMED + "munder"
    return ElementTree.tostring(tree, encoding="unicode")


def visit_inline(self, node):
    """Write a formula in a line."""
    self.body.append(f'<span class="math">{mathml(node.astext(), display=False)}</span>')
    skip()


def visit_block(self, node):
    """Write a formula of its own, with its number."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(f'<div class="formula">{mathml(node.astext(), display=True)}</div>')
    if node["number"]:
        self.body.append(f'<span class="eqno">({node["number"]})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>")
    skip()


def skip():
    """Go on after the formula."""
    from docutils.nodes import SkipNode  # noqa: PLC0415 - needed to build, not to test

    raise SkipNode


def setup(app):
    """Offer the renderer to Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
