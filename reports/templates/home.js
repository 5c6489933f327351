"use strict";
// Links that MLflow's clients print (/#/experiments/...) are redirected to MLflow's pages.
const sendOn = () => { if (location.hash.startsWith("#/")) location.replace("/mlflow/" + location.hash); };
sendOn();
addEventListener("hashchange", sendOn);
// Changed sections replace the old ones; details that are open stay open, and the focus stays where it is.
const main = document.querySelector("main"), state = document.getElementById("link-state");
const seen = new Map([...main.children].map((section) => [section.id, section.outerHTML]));
function put(section) {
  const old = document.getElementById(section.id), had = old?.contains(document.activeElement) && document.activeElement.href;
  for (const fold of old?.querySelectorAll("details[open]") ?? []) if (fold.id) section.querySelector(`#${fold.id}`)?.setAttribute("open", "");
  if (old) old.replaceWith(section); else main.append(section);
  if (had) [...section.querySelectorAll("a")].find((link) => link.href === had)?.focus({ preventScroll: true });
}
async function look() {
  if (document.hidden) return;
  const answer = await fetch(location.pathname).catch(() => null);
  state.textContent = answer?.ok ? "" : answer?.status === 401 ? "suite ui was started anew: open the address that it printed" : "the server does not answer: this is the last it said";
  if (!answer?.ok) return;
  // Only the body of the answer is used: its style has another nonce than this page's policy allows.
  const fresh = new DOMParser().parseFromString(/<main>([^]*)<\/main>/.exec(await answer.text())[1], "text/html").body;
  const sections = [...fresh.children].map((section) => [section, section.outerHTML]);
  const same = sections.map(([section]) => section.id).join() === [...seen.keys()].join();
  if (!same) { main.replaceChildren(); seen.clear(); }
  for (const [section, html] of sections) {
    if (seen.get(section.id) === html) continue;
    seen.set(section.id, html);
    put(section);
  }
  focusable();
}
setInterval(look, 3000);
