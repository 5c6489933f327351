"use strict";
// Charts of a site that has no Vega beside it: the same lines, bands and names, but nothing answers to the pointer.
function mark(parent, kind, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  parent?.append(made);
  return made;
}
const words = (parent, x, y, text, more = {}) =>
  mark(parent, "text", { x, y, fill: "var(--ink)", "font-size": 11, "dominant-baseline": "middle", ...more }, text);
const picture = (width, height, left = 0) =>
  mark(null, "svg", { width, height, viewBox: `${-left} 0 ${width} ${height}`, style: "max-width: 100%; height: auto", "aria-hidden": true });
function ticksOf([low, high], log) {
  const base = 10 ** Math.floor(Math.log10(log ? low : (high - low) / 5));
  const found = [];
  if (log) {
    for (let power = base; power <= high; power *= 10) for (const by of [1, 2, 5]) found.push(by * power);
  } else {
    const step = [1, 2, 5, 10].find((by) => by * base >= (high - low) / 5) * base;
    for (let i = Math.ceil(low / step); i * step <= high; i += 1) found.push(i * step);
  }
  return found.filter((value) => value >= low && value <= high);
}
const scaled = ([low, high], [start, end], log) => {
  const of = log ? Math.log : Number;
  return (value) => start + ((of(value) - of(low)) / (of(high) - of(low) || 1)) * (end - start);
};
function frame(svg, box, spec, x, y, [across, up], log) {
  words(svg, 0, 8, spec.title);
  for (const value of ticksOf(up)) {
    mark(svg, "path", { d: `M${box.left} ${y(value)}H${box.right}`, stroke: "var(--faint)", "stroke-width": .5 });
    words(svg, box.left - 6, y(value), +value.toPrecision(6), { "text-anchor": "end" });
  }
  for (const value of ticksOf(across, log)) words(svg, x(value), box.bottom + 12, +value.toPrecision(6), { "text-anchor": "middle" });
  words(svg, (box.left + box.right) / 2, box.bottom + 28, spec.layer[0].encoding.x.title, { "text-anchor": "middle" });
}
// Lines by algorithm: `ends` has their names, a chart without it the points of fronts, which chips name.
function plainLines(spec, width, key) {
  const { points, ends = [] } = spec.datasets, encoding = spec.layer[0].encoding;
  const named = ends.filter((end) => !hidden.has(end.algorithm)), lines = Map.groupBy(points, (point) => point.algorithm);
  const longest = Math.max(0, ...ends.map((end) => end.algorithm.length));
  const box = { left: 48, right: width - 16 - 7 * longest, top: 22, bottom: 260 };
  const ys = points.map((point) => point.y), xs = points.map((point) => point.x), log = encoding.x.scale?.type === "log";
  const span = spec.params.find((p) => p.name === "spans")?.value[inScope(spec)] ?? [Math.min(...ys), Math.max(...ys)];
  const across = [Math.min(...xs), Math.max(...xs)], [low, high] = span;
  const x = scaled(across, [box.left, box.right], log), y = scaled(span, [box.bottom, box.top]);
  const { domain, range } = encoding.color.scale, hue = (name) => range[domain.indexOf(name)];
  const dashes = spec.layer.map((layer) => layer.encoding.strokeDash?.scale).find(Boolean);
  const stepped = spec.layer.some((layer) => layer.mark.interpolate === "step-after");
  const svg = picture(width, 296), clip = mark(svg, "clipPath", { id: `clip-${key}` });
  mark(clip, "rect", { x: box.left, y: box.top - 2, width: box.right - box.left + 2, height: box.bottom - box.top + 4 });
  frame(svg, box, spec, x, y, [across, span], log);
  const plot = mark(svg, "g", { "clip-path": `url(#clip-${key})` });
  const at = (px, value) => `${x(px).toFixed(1)} ${y(value).toFixed(1)}`;
  for (const [name, mine] of lines) {
    if (hidden.has(name)) continue;
    const colour = hue(name), dash = dashes?.range[dashes.domain.indexOf(name)].join(" ") ?? "";
    if (mine.some((p) => p.high > p.low)) {
      const back = mine.toReversed().map((p) => at(p.x, p.low));
      mark(plot, "path", { d: `M${mine.map((p) => at(p.x, p.high)).join("L")}L${back.join("L")}Z`, fill: colour, "fill-opacity": .14 });
    }
    const path = mine.map((p, i) => (stepped && i ? `H${x(p.x).toFixed(1)}V${y(p.y).toFixed(1)}` : `${i ? "L" : "M"}${at(p.x, p.y)}`));
    mark(plot, "path", { d: path.join(""), fill: "none", stroke: colour, "stroke-width": 1.8, "stroke-dasharray": dash });
    for (const p of mine) if (p.role !== undefined) mark(plot, "circle", { cx: x(p.x), cy: y(p.y), r: p.role ? 6 : 3, fill: p.role ? "none" : colour, stroke: colour });
  }
  for (const end of named) {
    const label = end.at[inScope(spec)];
    if (label >= low && label <= high) words(svg, x(end.x) + 6, y(label), end.algorithm, { fill: `color-mix(in srgb,${hue(end.algorithm)} 50%,var(--ink))` });
  }
  return svg;
}
// Rules, texts and points in place: a diagram of average ranks.
function plainMarks(spec) {
  const { width, height } = spec, room = 30, svg = picture(width + 2 * room, height, room), { x: across, y: up } = spec.layer[0].encoding;
  const x = scaled(across.scale.domain, [0, width]), y = scaled(up.scale.domain, [height, 0]);
  for (const { mark: kind, data } of spec.layer)
    for (const one of data.values) {
      if (kind === "rule") mark(svg, "path", { d: `M${x(one.x)} ${y(one.y)}L${x(one.x2)} ${y(one.y2)}`, stroke: one.hue, "stroke-width": one.thick });
      else if (one.text !== undefined) words(svg, x(one.x), y(one.y), one.text, { "text-anchor": { left: "start", center: "middle", right: "end" }[one.align] });
      else mark(svg, "circle", { cx: x(one.x), cy: y(one.y), r: 3.5, fill: "var(--ink)" });
    }
  return svg;
}
function plain(figure) {
  const spec = unpacked(JSON.parse(figure.querySelector("script").textContent));
  const made = spec.datasets ? plainLines(spec, Math.min(figure.clientWidth, WIDEST), figure.dataset.chart) : plainMarks(spec);
  figure.querySelector(".view").replaceChildren(made);
  figure.dataset.drawn = "";
}
const first = window.vegaEmbed ? null : document.querySelector("figure.chart");
if (first) {
  const said = Object.assign(document.createElement("p"), { className: "legend" });
  const code = Object.assign(document.createElement("pre"), {
    textContent: "python -c \"from reports.page.drawing import script; open('assets/vega.js', 'w', encoding='utf-8').write(script())\"",
  });
  said.textContent = "These charts are drawn without Vega, which is not kept beside this page: no values at the pointer. In the site's folder this puts it there:";
  first.closest(".gallery").before(said, code);
}
