"""Charts drawn as files and for pages, by vl-convert, which runs Vega-Lite without a browser."""

import json
import re
import struct
import zlib
from collections.abc import Iterable
from functools import cache

import vl_convert

from reports.charts.style import FAINT, INK, PAPER, WIDTH, Chart, Spec, slug

SIGN = "made by suite-fl"
"""The text in every page and figure that the project writes, by which its files are recognised."""
VEGA_LITE = "6.4"
FORMS = ("svg", "png", "pdf")
SCRIPT = "window.vegaEmbed = vegaEmbed;"
"""The code for which the page's script bundles the libraries."""
STILL = 320
"""The width in pixels of a plot without script: narrow, so that its text stays readable on a telephone."""
UNUSED = re.compile(
    r' (?:aria-\w+|role|class|pointer-events|font-family|stroke-miterlimit|version|xmlns(?::\w+)?)="[^"]*"'
    r'| opacity="1"'
    r'|<path [^>]*(?:d=""|d="M0,0h0v0h0Z")[^>]*/>|<desc>.*?</desc>|<rect [^>]*/>(?=<g)'
)
"""Attributes and elements of an SVG, such as its background, that a picture within a page does not need."""


def files(charts: Iterable[Chart], forms: Iterable[str] = FORMS) -> dict[str, bytes]:
    """Draw charts in these forms (`svg`, `png`, `pdf`), and return each file's content by file name."""
    wanted, content = list(forms), dict[str, bytes]()
    for chart in charts if wanted else ():
        text = svg(chart.spec)
        content |= {f"{chart.name}.{form}": drawn(text, form) for form in wanted}
    return content


def svg(spec: Spec) -> str:
    """Draw a Vega-Lite specification as SVG text, without the parts that appear only under the pointer."""
    text = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    # Vega numbers clip paths on from chart to chart; numbered anew, a chart's file is the same in any order.
    for i, name in enumerate(dict.fromkeys(re.findall(r"clip\d+", text))):
        text = re.sub(rf"{name}\b", f"c{i}", text)
    text = re.sub(r'<path [^>]*opacity="0"[^>]*/>', "", text)
    return text.replace("<rect", f"<desc>{SIGN}</desc><rect", 1)


def drawn(text: str, form: str) -> bytes:
    """Return an SVG text as the content of an `svg`, `png` or `pdf` file. PNG and PDF files also name this project as maker."""
    if form == "svg":
        return text.encode()
    if form == "pdf":
        return vl_convert.svg_to_pdf(text) + f"% {SIGN}\n".encode()
    # A PNG names the software in a text chunk, which is inserted before the last chunk (12 bytes).
    png, body = vl_convert.svg_to_png(text, scale=1.5), b"tEXtSoftware\0" + SIGN.encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return png[:-12] + chunk + png[-12:]


def inlined(charts: Iterable[Chart]) -> list[dict[str, str]]:
    """Return each chart's name, title, description (`alt`), specification (`spec`) and SVG picture (`still`) for a page. The
    page shows the picture until its script has drawn the specification, or always if no script runs.
    """
    content = []
    for chart in charts:
        about = {"name": chart.name, "title": chart.title, "alt": chart.alt}
        text = json.dumps(chart.spec, separators=(",", ":"), allow_nan=False)
        spec = _themed(text).replace("<", "\\u003c")
        narrow = chart.spec | ({"width": STILL} if chart.spec.get("width") == WIDTH else {})
        still = UNUSED.sub("", svg(narrow))
        # Tenths of a pixel are enough.
        still = re.sub(r"-?\d+\.\d{2,}", lambda digits: f"{float(digits[0]):.1f}", still)
        # Ids must be unique on the page, so each chart's clip paths are prefixed with its name.
        still = re.sub(r'(?<=[#"])(c\d+)(?=[")])', rf"{slug(chart.name)}-\1", still)
        size = r'<svg aria-hidden="true" style="max-width:\1px"'
        still = _themed(re.sub(r'^<svg width="(\d+)" height="\d+"', size, still))
        content.append({**about, "spec": spec, "still": still})
    return content


def _themed(text: str) -> str:
    """Return a drawing or specification with the page's CSS variables in place of the colours of text, grids and background."""
    for colour, name in ((INK, "ink"), (FAINT, "faint"), (PAPER, "paper")):
        text = text.replace(colour, f"var(--{name})")
    return text


@cache
def script() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script; bundling takes a second, so the result is cached."""
    bundle = vl_convert.javascript_bundle(SCRIPT, vl_version=VEGA_LITE)
    return bundle.replace("</script", "<\\/script")
