"use strict";
// The parts of the page that changed are put in place of the old ones; charts take the new data.
const parts = document.getElementById("parts"), linkState = document.getElementById("link-state");
const seen = new Map([...parts.children].map((part) => [part.dataset.part, part.outerHTML]));
const bare = (spec) => JSON.stringify({ ...spec, datasets: 0, params: spec.params?.filter((p) => p.name !== "spans") });
function feed(figure, fresh) {
  const known = views.get(figure.dataset.chart), text = fresh.querySelector("script").textContent;
  figure.querySelector("script").textContent = text;
  if (!known?.view) return;
  const spec = unpacked(JSON.parse(text));
  if (bare(spec) !== bare(known.spec)) return;
  known.text = text;
  known.spec = spec;
  for (const [name, rows] of Object.entries(spec.datasets)) known.view.data(name, rows);
  const spans = spec.params.find((p) => p.name === "spans");
  if (spans) known.view.signal("spans", spans.value).signal("scope", inScope(spec));
  return known.view.runAsync();
}
function resort(old, part) {
  const heads = [...old.querySelectorAll(".sortable thead th")], now = [...part.querySelectorAll(".sortable thead th")];
  heads.forEach((head, i) => {
    const way = { ascending: 1, descending: -1 }[head.getAttribute("aria-sort")];
    if (way && now[i]?.textContent === head.textContent) sortBy(now[i], way);
  });
}
// Where the focus was in a part it is again, with what was typed meanwhile.
function refocus(old, part) {
  const had = document.activeElement, here = old.contains(had);
  const typing = here && had.type === "search" ? [had.value, had.selectionStart] : null;
  old.replaceWith(part);
  if (!here) return;
  const links = [...part.querySelectorAll("a")], named = had.name && part.querySelector(`[name="${had.name}"]`);
  const now = named || links.find((link) => link.href === had.href) || links.find((link) => link.textContent === had.textContent);
  now?.focus({ preventScroll: true });
  if (now && typing) { [now.value] = typing; now.setSelectionRange(typing[1], typing[1]); }
}
function take(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html").body, keys = new Set(), drawn = [];
  let before = null;
  for (const part of [...fresh.children]) {
    const key = part.dataset.part, text = part.outerHTML;
    keys.add(key);
    let old = parts.querySelector(`:scope > [data-part="${key}"]`);
    if (seen.get(key) !== text || !old) {
      seen.set(key, text);
      if (old) {
        for (const figure of part.querySelectorAll("figure.chart")) {
          const same = old.querySelector(`figure[data-chart="${figure.dataset.chart}"]`);
          if (same) { drawn.push(feed(same, figure)); figure.replaceWith(same); }
        }
        resort(old, part);
        refocus(old, part);
      } else if (before) before.after(part);
      else parts.prepend(part);
      old = part;
    }
    before = old;
  }
  for (const old of [...parts.children]) if (!keys.has(old.dataset.part)) old.remove();
  focusable();
  drawAll();
  return Promise.all(drawn);
}
// It asks again after a second, or longer where an answer takes long, here or there: watching must not slow a sweep.
// Nor is anything put in place of what a person just chooses.
const asking = () => parts.querySelector("select:focus");
let etag = "", pause = 1000, lost = false;
let wait;
async function look(asked = false) {
  clearTimeout(wait);
  if (asked || (!document.hidden && !asking())) {
    const address = `${location.pathname}/parts${location.search}`;
    const answer = await fetch(address, { headers: etag ? { "If-None-Match": etag } : {} }).catch(() => null);
    if (address !== `${location.pathname}/parts${location.search}`) return; // another table was asked for meanwhile
    const said = answer?.ok || answer?.status === 304;
    const reason = answer?.status === 401 ? "suite ui was started anew: open the address that it printed" : "the server does not answer: this is the last it said";
    if (lost || !said) linkState.textContent = said ? "" : reason;
    lost = !said;
    if (lost) pause = 3000;
    if (answer?.ok) {
      etag = answer.headers.get("ETag") ?? "";
      const html = await answer.text(), began = performance.now();
      await take(html);
      const there = 1000 * Number(answer.headers.get("X-Seconds")), here = performance.now() - began;
      pause = Math.max(1000, 50 * there, Math.min(10000, 50 * here));
    }
  }
  clearTimeout(wait);
  wait = setTimeout(look, pause);
}
wait = setTimeout(look, 1000);
// The table of trials: its address says what is shown, so that it can be kept and sent.
let typed;
function show(search) {
  clearTimeout(typed);
  history.replaceState(null, "", location.pathname + search + location.hash);
  return look(true);
}
const filled = (form) => {
  const given = [...new FormData(form)].filter(([, value]) => value);
  return given.length ? `?${new URLSearchParams(given)}` : "";
};
addEventListener("input", ({ target }) => {
  const form = target.closest?.("form[data-table]");
  if (!form) return;
  clearTimeout(typed);
  typed = setTimeout(() => show(filled(form) || "?"), target.type === "search" ? 250 : 0);
});
addEventListener("submit", (event) => {
  if (!event.target.matches("form[data-table]")) return;
  event.preventDefault();
  show(filled(event.target) || "?");
});
addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-table]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  show(new URL(link.href).search || "?");
});
