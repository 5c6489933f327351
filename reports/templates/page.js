"use strict";
// A click on a heading sorts the table by that column: best first, then the other way round.
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
  // Blocks wider than the page can be focused, so that keys scroll them too.
  for (const wide of document.querySelectorAll(".scroll, pre"))
    if (wide.scrollWidth > wide.clientWidth && !wide.querySelector("a, button, summary, [tabindex]")) wide.tabIndex = 0;
  for (const wide of document.querySelectorAll(MOVED)) faded(wide);
}
// A block that continues to the right fades out there.
const MOVED = ".scroll, .chips, nav";
function faded(wide) { wide.toggleAttribute("data-more", wide.scrollLeft + wide.clientWidth < wide.scrollWidth - 1); }
addEventListener("scroll", ({ target }) => target.matches?.(MOVED) && faded(target), true);
focusable();
addEventListener("click", onHead);
addEventListener("keydown", onHead);

// The filter keeps the rows whose text has all of its words.
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

// If the page contains Vega, it draws each chart from the specification beside it; otherwise the still picture stays,
// and no lines can be switched on or off.
document.documentElement.classList.toggle("drawn", Boolean(window.vegaEmbed));
const WIDEST = 860;
const views = new Map();
const hidden = new Set();
const visible = (spec) => spec.params.find((p) => p.name === "shown").value.filter((name) => !hidden.has(name));
function fitted(figure, spec) {
  if (typeof spec.width === "number") {
    spec.autosize = { type: "fit", contains: "padding" };
    spec.width = Math.min(figure.clientWidth, WIDEST);
    const legend = spec.config.legend, names = spec.params?.find((p) => p.name === "shown")?.value ?? [];
    legend.columns = Math.max(1, Math.floor(spec.width / 120));
    // The height that axis, title and legend take.
    spec.height += 56 + (names.length ? 12 + 18 * Math.ceil(names.length / legend.columns) : 0);
  }
  return spec;
}
async function draw(figure) {
  const text = figure.querySelector("script").textContent, known = views.get(figure.dataset.chart);
  if (known?.figure === figure && known.text === text && known.width === figure.clientWidth) return;
  const spec = fitted(figure, JSON.parse(text)), chosen = spec.params?.find((p) => p.name === "shown");
  if (chosen) chosen.value = visible(spec);
  known?.finalize();
  const entry = { figure, text, width: figure.clientWidth, spec: JSON.parse(text), finalize() {} };
  views.set(figure.dataset.chart, entry);
  const options = {
    renderer: "svg", actions: { export: { svg: true, png: false }, source: false, compiled: false, editor: false },
    downloadFileName: figure.dataset.chart, tooltip: { theme: "page" },
  };
  const made = await vegaEmbed(figure.querySelector(".view"), spec, options);
  figure.querySelector("summary")?.setAttribute("aria-label", "Save this chart");
  entry.view = made.view;
  entry.finalize = () => made.finalize();
  figure.dataset.drawn = "";
}
const folded = (figure) => figure.closest("details:not([open])");
async function drawAll() {
  if (!window.vegaEmbed) return;
  for (const figure of document.querySelectorAll("figure.chart")) if (!folded(figure)) await draw(figure);
}
addEventListener("toggle", () => { focusable(); drawAll(); }, true);
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => { focusable(); drawAll(); }, 200); });
addEventListener("click", (event) => {
  const chip = event.target.closest?.(".chip");
  if (!chip) return;
  const name = chip.dataset.name;
  hidden.has(name) ? hidden.delete(name) : hidden.add(name);
  chip.setAttribute("aria-pressed", !hidden.has(name));
  for (const { view, spec } of views.values())
    if (view && spec.params) view.signal("shown", visible(spec)).runAsync();
});
drawAll();
