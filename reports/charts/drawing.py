"""Charts as files and as part of a page, by vl-convert: Vega and Vega-Lite without a browser."""

import json
import re
import struct
import zlib
from collections.abc import Iterable
from functools import cache

import vl_convert

from reports.charts.style import FAINT, INK, PAPER, WIDTH, Chart, Spec, slug

SIGN = "made by suite-fl"
"""The text in every page and figure written as a file, by which it is recognised."""
VEGA_LITE = "6.4"
FORMS = ("svg", "png", "pdf")
SCRIPT = "window.vegaEmbed = vegaEmbed;"
"""The parts of the libraries that a page uses."""
STILL = 320
"""Pixels of a plot in a still picture: on a telephone its text is not much smaller than a page's."""
UNUSED = re.compile(
    r' (?:aria-\w+|role|class|pointer-events|font-family|stroke-miterlimit|version|xmlns(?::\w+)?)="[^"]*"'
    r'| opacity="1"'
    r'|<path [^>]*(?:d=""|d="M0,0h0v0h0Z")[^>]*/>|<desc>.*?</desc>|<rect [^>]*/>(?=<g)'
)
"""The attributes and elements that a still picture does not need in a page, its background among them."""


def files(charts: Iterable[Chart], forms: Iterable[str] = FORMS) -> dict[str, bytes]:
    """Return the charts drawn in these forms by file name, each with `SIGN` in it."""
    wanted, content = list(forms), dict[str, bytes]()
    for chart in charts if wanted else ():
        text = svg(chart.spec)
        content |= {f"{chart.name}.{form}": drawn(text, form) for form in wanted}
    return content


def svg(spec: Spec) -> str:
    """Return the specification drawn as SVG, without what only the pointer makes visible."""
    text = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    # Vega counts its clip paths on from chart to chart.
    for i, name in enumerate(dict.fromkeys(re.findall(r"clip\d+", text))):
        text = re.sub(rf"{name}\b", f"c{i}", text)
    text = re.sub(r'<path [^>]*opacity="0"[^>]*/>', "", text)
    return text.replace("<rect", f"<desc>{SIGN}</desc><rect", 1)


def drawn(text: str, form: str) -> bytes:
    """Return an SVG as `svg`, `png` or `pdf`."""
    if form == "svg":
        return text.encode()
    if form == "pdf":
        return vl_convert.svg_to_pdf(text) + f"% {SIGN}\n".encode()
    # A PNG names its maker in a text chunk before its last, empty one.
    png, body = vl_convert.svg_to_png(text, scale=1.5), b"tEXtSoftware\0" + SIGN.encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return png[:-12] + chunk + png[-12:]


def inlined(charts: Iterable[Chart]) -> list[dict[str, str]]:
    """Return charts as a page holds them, in its colours: a specification for its script, and a still picture that is
    seen until the script draws, or where none runs.
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
        # Ids are of the whole page: each chart's clip paths have its name before theirs.
        still = re.sub(r'(?<=[#"])(c\d+)(?=[")])', rf"{slug(chart.name)}-\1", still)
        size = r'<svg aria-hidden="true" style="max-width:\1px"'
        still = _themed(re.sub(r'^<svg width="(\d+)" height="\d+"', size, still))
        content.append({**about, "spec": spec, "still": still})
    return content


def _themed(text: str) -> str:
    """Return a drawing or specification in the colours of a page."""
    for colour, name in ((INK, "ink"), (FAINT, "faint"), (PAPER, "paper")):
        text = text.replace(colour, f"var(--{name})")
    return text


@cache
def script() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, which takes a second to make."""
    bundle = vl_convert.javascript_bundle(SCRIPT, vl_version=VEGA_LITE)
    return bundle.replace("</script", "<\\/script")
