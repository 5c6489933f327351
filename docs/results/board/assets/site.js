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
    textContent: "python -c \"from reports.charts.drawing import script; open('assets/vega.js', 'w', encoding='utf-8').write(script())\"",
  });
  said.textContent = "These charts are drawn without Vega, which is not kept beside this page: no values at the pointer. In the site's folder this puts it there:";
  first.closest(".gallery").before(said, code);
}

"use strict";
// Tables sort by any heading: best first, then the other way round.
function sortBy(head, way) {
  const table = head.closest("table"), body = table.tBodies[0];
  const column = [...head.parentNode.children].indexOf(head), number = "better" in head.dataset;
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
  const key = (row) => {
    const cell = row.children[column];
    return number ? parseFloat(cell.dataset.value ?? cell.textContent) : cell.textContent.trim();
  };
  const rows = [...body.rows].map((row) => [key(row), row]);
  const empty = (value) => number && Number.isNaN(value);
  rows.sort(([a], [b]) => empty(a) || empty(b) ? empty(a) - empty(b) : way * (number ? a - b : a.localeCompare(b)));
  body.append(...rows.map(([, row]) => row));
}
function onHead(event) {
  const head = event.target.closest?.(".sortable thead th:not([data-fixed])");
  if (!head || (event.type === "keydown" && event.key !== "Enter" && event.key !== " ")) return;
  event.preventDefault();
  const first = "better" in head.dataset ? -Number(head.dataset.better) : 1;
  const now = { ascending: 1, descending: -1 }[head.getAttribute("aria-sort")];
  sortBy(head, now ? -now : first);
}
function focusable() {
  for (const head of document.querySelectorAll(".sortable thead th:not([data-fixed])")) head.tabIndex = 0;
}
focusable();
addEventListener("click", onHead);
addEventListener("keydown", onHead);

// Rows that have all words of the filter stay.
const filter = document.getElementById("filter"), shown = document.getElementById("shown");
filter?.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const item of document.querySelectorAll("[data-text]"))
    item.hidden = !words.every((word) => item.dataset.text.includes(word));
  for (const group of document.querySelectorAll("article.group"))
    group.hidden = !group.querySelector("tbody tr:not([hidden])");
  const rows = [...document.querySelectorAll("article.group tbody tr")];
  const left = rows.filter((row) => !row.hidden).length;
  shown.textContent = words.length ? `${left} of ${rows.length} rows` : "";
});

// Charts are drawn by Vega from the specification that stands beside them.
const WIDEST = 860;
const views = new Map();
const hidden = new Set();
let scope = "leaders";
const visible = (spec) => spec.params.find((p) => p.name === "shown")?.value.filter((name) => !hidden.has(name));
const inScope = (spec) => {
  const spans = spec.params.find((p) => p.name === "spans")?.value;
  return spans && (spans[scope] ? scope : Object.keys(spans)[0]);
};
function fitted(figure, spec) {
  if (typeof spec.width === "number" && !figure.classList.contains("natural")) {
    spec.autosize = { type: "fit", contains: "padding" };
    spec.width = Math.min(figure.clientWidth, WIDEST);
    spec.height += 56; // what axis and title take of it
  }
  const plots = spec.vconcat?.[0];
  if (plots?.hconcat) {
    plots.columns = Math.max(1, Math.floor((figure.clientWidth - 60) / 160));
    plots.concat = plots.hconcat;
    delete plots.hconcat;
  }
  return spec;
}
// Lines may come as rows of numbers by algorithm, a quarter of the size.
function unpacked(spec) {
  const lines = spec.datasets?.points;
  if (!lines || Array.isArray(lines)) return spec;
  const said = (y, low, high) => y.toFixed(4) + (high > low ? ` ± ${((high - low) / 2).toFixed(4)}` : "");
  spec.datasets.points = Object.entries(lines).flatMap(([algorithm, rows]) => rows.map(
    ([x, y, low = y, high = y]) => ({ algorithm, trial: "", x, y, low, high, said: said(y, low, high) })));
  return spec;
}
async function draw(figure) {
  const text = figure.querySelector("script").textContent, known = views.get(figure.dataset.chart);
  if (known?.figure === figure && known.text === text && known.width === figure.clientWidth) return;
  const spec = fitted(figure, unpacked(JSON.parse(text))), params = Object.fromEntries((spec.params ?? []).map((p) => [p.name, p]));
  if (params.shown) params.shown.value = visible(spec);
  if (params.spans) params.scope.value = inScope(spec);
  known?.finalize();
  const entry = { figure, text, width: figure.clientWidth, spec: JSON.parse(text), finalize() {} };
  views.set(figure.dataset.chart, entry);
  const options = {
    renderer: "svg", actions: { export: { svg: true, png: false }, source: false, compiled: false, editor: false },
    downloadFileName: figure.dataset.chart, tooltip: { theme: "page" },
  };
  const made = await vegaEmbed(figure.querySelector(".view"), spec, options);
  entry.view = made.view;
  entry.finalize = () => made.finalize();
  figure.dataset.drawn = "";
}
const folded = (figure) => figure.closest("details:not([open])");
async function drawAll() {
  const way = window.vegaEmbed ? draw : window.plain;
  if (way) for (const figure of document.querySelectorAll("figure.chart")) if (!folded(figure)) await way(figure);
}
addEventListener("toggle", () => drawAll(), true);
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(drawAll, 200); });
function signals() {
  if (!window.vegaEmbed) drawAll();
  for (const { view, spec } of views.values()) {
    if (!view || !spec.params) continue;
    if (visible(spec)) view.signal("shown", visible(spec));
    if (inScope(spec)) view.signal("scope", inScope(spec));
    view.runAsync();
  }
}
addEventListener("click", (event) => {
  const chip = event.target.closest?.(".chip"), button = event.target.closest?.("[data-scope]");
  if (chip) {
    const name = chip.dataset.name;
    hidden.has(name) ? hidden.delete(name) : hidden.add(name);
    chip.setAttribute("aria-pressed", !hidden.has(name));
  } else if (button) {
    scope = button.dataset.scope;
    for (const other of button.parentNode.children) other.setAttribute("aria-pressed", other === button);
  } else return;
  signals();
});
drawAll();

// The matrix shows the columns that the filters leave, at one cost, and ranks over them.
const filters = document.getElementById("filters"), matrix = document.getElementById("matrix");
const KEYS = ["dataset", "level", "model", "budget"];
function ranked(line, shown, at, show) {
  let sum = 0, count = 0, firsts = 0, seen = 0;
  for (const [i, cell] of line.numbers.entries()) {
    cell.hidden = !shown[i];
    const now = line.at[i]?.[at];
    if (!now) continue;
    const [text, rank, best, near, , , tied] = now;
    cell.firstChild.textContent = show === "rank" ? rank ?? "–" : text;
    cell.classList.toggle("best", best);
    cell.style.setProperty("--near", near);
    if (!shown[i]) continue;
    seen += 1;
    if (rank) { sum += tied; count += 1; firsts += rank === 1; }
  }
  return { mean: count ? sum / count : NaN, count, firsts, seen };
}
function filtered() {
  const want = Object.fromEntries(new FormData(filters)), heads = [...matrix.querySelectorAll("th.cell")];
  const fits = (item) => KEYS.every((key) => !want[key] || item.dataset[key] === want[key]);
  const shown = heads.map(fits), most = shown.filter(Boolean).length;
  heads.forEach((head, i) => { head.hidden = !shown[i]; });
  for (const row of document.querySelectorAll("#cells tbody tr")) row.hidden = !fits(row);
  for (const line of lines) {
    const found = ranked(line, shown, want.at, want.show), whole = found.count === most;
    const [mean, first] = line.means;
    line.row.hidden = !found.seen;
    mean.textContent = found.count ? (whole ? found.mean.toFixed(2) : `(${found.mean.toFixed(2)})`) : "–";
    mean.dataset.value = found.count ? found.mean + (whole ? 0 : 1000) : 9999;
    first.textContent = found.firsts || "–";
    first.dataset.value = found.firsts;
  }
  document.getElementById("left").textContent = most === heads.length ? "" : `${most} of ${heads.length} cells`;
  sortBy(matrix.tHead.rows[0].cells[1], 1);
  const asked = new URLSearchParams([...new FormData(filters)].filter(([, value]) => value && !["rounds", "score"].includes(value)));
  history.replaceState(null, "", `${asked}` ? `#${asked}` : location.hash.includes("=") ? location.pathname : location.href);
}
let lines = [];
if (matrix) {
  lines = [...matrix.tBodies[0].rows].map((row) => {
    const numbers = [...row.cells].slice(3);
    return { row, numbers, means: [row.cells[1], row.cells[2]], at: numbers.map((cell) => cell.dataset.at && JSON.parse(cell.dataset.at)) };
  });
  for (const [key, value] of new URLSearchParams(location.hash.slice(1)))
    if (filters.elements[key]) filters.elements[key].value = value;
  filters.addEventListener("change", filtered);
  filtered();
}

// A number tells how it came about; without a script its link leads to its row.
const dialog = document.getElementById("number");
matrix?.addEventListener("click", (event) => {
  const link = event.target.closest("td.n a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const { how, spec, options } = link.dataset, cell = link.parentNode;
  const { place, metric } = matrix.tHead.rows[0].cells[cell.cellIndex].dataset;
  const [, rank, , , score, behind] = JSON.parse(cell.dataset.at)[new FormData(filters).get("at")];
  dialog.querySelector(".eyebrow").textContent = `${cell.parentNode.cells[0].textContent} on ${place}`;
  dialog.querySelector("h2").textContent = `${score} ${metric}, ${rank ? `rank ${rank}` : "not ranked"}`;
  dialog.querySelector(".how").textContent = how + (behind ? ` Behind the best: ${behind}.` : "");
  dialog.querySelector(".whole").href = link.href;
  dialog.querySelector(".spec").href = spec;
  dialog.querySelector("pre").textContent = `suite run '${spec}' ${options}`;
  for (const part of dialog.querySelectorAll(".spec, .again, pre, .copy")) part.hidden = !spec;
  dialog.showModal();
});
dialog?.querySelector(".copy").addEventListener("click", (event) => {
  navigator.clipboard?.writeText(dialog.querySelector("pre").textContent);
  event.target.textContent = "Copied";
  setTimeout(() => { event.target.textContent = "Copy"; }, 1500);
});
document.getElementById(location.hash.slice(1))?.querySelector("details")?.setAttribute("open", "");
