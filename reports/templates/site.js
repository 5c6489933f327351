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
  const want = Object.fromEntries(new FormData(filters)), heads = [...matrix.querySelectorAll("th.scenario")];
  const fits = (item) => KEYS.every((key) => !want[key] || item.dataset[key] === want[key]);
  const shown = heads.map(fits), most = shown.filter(Boolean).length;
  heads.forEach((head, i) => { head.hidden = !shown[i]; });
  for (const row of document.querySelectorAll("#scenarios tbody tr")) row.hidden = !fits(row);
  for (const line of lines) {
    const found = ranked(line, shown, want.at, want.show), whole = found.count === most;
    const [mean, first] = line.means;
    line.row.hidden = !found.seen;
    mean.textContent = found.count ? (whole ? found.mean.toFixed(2) : `(${found.mean.toFixed(2)})`) : "–";
    mean.dataset.value = found.count ? found.mean + (whole ? 0 : 1000) : 9999;
    first.textContent = found.firsts || "–";
    first.dataset.value = found.firsts;
  }
  document.getElementById("left").textContent = most === heads.length ? "" : `${most} of ${heads.length} scenarios`;
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
  dialog.querySelector("pre").textContent = `suite run ${spec} ${options}`;
  for (const part of dialog.querySelectorAll(".spec, .again, pre, .copy")) part.hidden = !spec;
  dialog.showModal();
});
dialog?.querySelector(".copy").addEventListener("click", (event) => {
  navigator.clipboard?.writeText(dialog.querySelector("pre").textContent);
  event.target.textContent = "Copied";
  setTimeout(() => { event.target.textContent = "Copy"; }, 1500);
});
document.getElementById(location.hash.slice(1))?.querySelector("details")?.setAttribute("open", "");
