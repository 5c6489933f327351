"use strict";
for (const head of document.querySelectorAll(".sortable thead th")) {
  head.tabIndex = 0;
  const sort = () => {
    const table = head.closest("table"), body = table.tBodies[0];
    const column = [...head.parentNode.children].indexOf(head);
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const number = head.dataset.kind === "number";
    const key = (row) => {
      const cell = row.children[column];
      return number ? parseFloat(cell.dataset.value ?? cell.textContent) : cell.textContent.trim();
    };
    const rows = [...body.rows].map((row) => [key(row), row]);
    const empty = (value) => number && Number.isNaN(value);
    rows.sort(([a], [b]) => {
      if (empty(a) || empty(b)) return empty(a) - empty(b);
      const order = number ? a - b : a.localeCompare(b);
      return up ? order : -order;
    });
    body.append(...rows.map(([, row]) => row));
  };
  head.addEventListener("click", sort);
  head.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); }
  });
}
const filter = document.getElementById("filter"), shown = document.getElementById("shown");
filter.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const items = [...document.querySelectorAll("[data-text]")];
  for (const item of items) item.hidden = !words.every((word) => item.dataset.text.includes(word));
  for (const group of document.querySelectorAll("article.group"))
    group.hidden = !group.querySelector("tbody tr:not([hidden])");
  const rows = [...document.querySelectorAll("article.group tbody tr")];
  const left = rows.filter((row) => !row.hidden).length;
  shown.textContent = words.length ? `${left} of ${rows.length} rows` : "";
});
for (const chip of document.querySelectorAll(".chip"))
  chip.addEventListener("click", () => {
    const on = chip.getAttribute("aria-pressed") !== "true";
    chip.setAttribute("aria-pressed", on);
    for (const line of document.getElementsByClassName("s-" + chip.dataset.slug))
      line.classList.toggle("off", !on);
  });
const closed = new Set();
addEventListener("beforeprint", () => {
  for (const box of document.querySelectorAll("details:not([open])")) { closed.add(box); box.open = true; }
});
addEventListener("afterprint", () => { for (const box of closed) box.open = false; closed.clear(); });
