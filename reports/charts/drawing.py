"""Charts as files and as part of a page, by vl-convert: Vega and Vega-Lite without a browser."""

import json
import os
import re
import struct
import tempfile
import zlib
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import vl_convert

from reports.charts.style import (
    FAINT,
    GREY,
    HUES,
    INK,
    PAPER,
    TEXT,
    WIDTH,
    Chart,
    Spec,
    slug,
    text_hue,
)
from reports.table import visible

SIGN = "made by suite-fl"
"""In every page and figure that is written as a file, so that it is known again."""
VEGA_LITE = "6.4"
FORMS = ("svg", "png", "pdf")
SCRIPT = "window.vegaEmbed = vegaEmbed;"
"""What of the libraries a page uses."""


def files(charts: Iterable[Chart], forms: Iterable[str] = FORMS) -> dict[str, bytes]:
    """The charts as files of these forms by name, each with `SIGN` in it."""
    wanted, found = list(forms), dict[str, bytes]()
    for chart in charts if wanted else ():
        text = svg(chart.spec)
        found |= {f"{chart.name}.{form}": drawn(text, form) for form in wanted}
    return found


def svg(spec: Spec) -> str:
    """The specification drawn as SVG, without what only the pointer makes visible."""
    text = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    ids = {found: f"c{i}" for i, found in enumerate(dict.fromkeys(re.findall(r"clip\d+", text)))}
    text = re.sub(
        r"clip\d+", lambda found: ids[found[0]], text
    )  # else counted on from chart to chart
    text = re.sub(r'<path [^>]*opacity="0"[^>]*/>', "", text)
    return text.replace("<rect", f"<desc>{SIGN}</desc><rect", 1)


STILL = 320
"""Pixels of a plot in a still picture: on a telephone its text is not much smaller than a page's."""
UNUSED = re.compile(
    r' (?:aria-\w+|role|class|pointer-events|font-family|stroke-miterlimit|version|xmlns(?::\w+)?)="[^"]*"'
    r'| opacity="1"'
    r'|<path [^>]*(?:d=""|d="M0,0h0v0h0Z")[^>]*/>|<desc>.*?</desc>|<rect [^>]*/>(?=<g)'
)
"""What a still picture does not need beside the page's style, and the paper behind it."""


def still(chart: Chart) -> str:
    """The chart as SVG for a page, in its colours: what is seen until a script draws it, or where none runs."""
    spec = chart.spec | ({"width": STILL} if chart.spec.get("width") == WIDTH else {})
    text = UNUSED.sub("", svg(_visible(spec)))
    while (shorter := text.replace("<g></g>", "").replace("<g/>", "")) != text:
        text = shorter
    text = re.sub(r"-?\d+\.\d{2,}", lambda found: f"{float(found[0]):.1f}", text)
    text = re.sub(r'(?<=[#"])c\d+(?=[")])', lambda found: f"{slug(chart.name)}-{found[0]}", text)
    text = re.sub(
        r'^<svg width="(\d+)" height="\d+"', r'<svg aria-hidden="true" style="max-width:\1px"', text
    )
    return _themed(text)


def drawn(text: str, form: str) -> bytes:
    """An SVG as `svg`, `png` or `pdf`."""
    if form == "svg":
        return text.encode()
    if form == "png":
        return _signed(vl_convert.svg_to_png(text, scale=1.5))
    return vl_convert.svg_to_pdf(text) + f"% {SIGN}\n".encode()


def _signed(png: bytes) -> bytes:
    """A PNG that names its maker in a text chunk before its last, empty one."""
    body = b"tEXtSoftware\0" + SIGN.encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return png[:-12] + chunk + png[-12:]


def inline(spec: Spec) -> str:
    """The specification for a script element of a page, whose colours of ink and paper it takes."""
    text = json.dumps(_visible(spec), separators=(",", ":"), allow_nan=False)
    return _themed(text).replace("<", "\\u003c")


def _themed(text: str) -> str:
    """A drawing or specification in the colours of a page."""
    for colour, name in ((INK, "ink"), (FAINT, "faint"), (PAPER, "paper")):
        text = text.replace(colour, f"var(--{name})")
    for hue in (*HUES, GREY):
        text = text.replace(text_hue(hue), f"color-mix(in srgb,{hue} {TEXT:.0%},var(--ink))")
    return text


def _visible(value: Any) -> Any:
    """Plain data whose texts a person may be shown."""
    if isinstance(value, dict):
        return {_visible(key): _visible(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_visible(part) for part in value]
    return visible(value) if isinstance(value, str) else value


@cache
def script() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script. To make it takes seconds, so it is kept in the user's
    cache, by the library's version.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    kept = Path(home) / "suite-fl" / f"vega-{metadata.version('vl-convert-python')}.js"
    try:
        return kept.read_text(encoding="utf-8")
    except OSError:
        made = vl_convert.javascript_bundle(SCRIPT, vl_version=VEGA_LITE).replace(
            "</script", "<\\/script"
        )
        _keep(kept, made)
        return made


def _keep(path: Path, text: str) -> None:
    """Write a file at once or not at all; without a place to keep it, it is made again next time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
        Path(file.name).replace(path)
    except OSError:
        pass
