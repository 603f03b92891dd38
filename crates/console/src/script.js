// Everything works without this: it chooses the theme, keeps parts of pages fresh, and asks before small
// removals. Larger ones are asked for by pages of their own.
"use strict";

const THEME = "mayfly-theme";
const REFRESH_MS = 5000;

function isDark() {
  const chosen = localStorage.getItem(THEME);
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function applyTheme() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
}

applyTheme();

// Parts that a person is in the middle of are left alone.
async function refresh() {
  const parts = document.querySelectorAll("[data-refresh]");
  if (parts.length === 0 || document.hidden) return;
  try {
    const answer = await fetch(location.href, { signal: AbortSignal.timeout(10000), redirect: "error" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of parts) {
      const next = fresh.getElementById(part.id);
      if (next && !part.contains(document.activeElement)) part.replaceChildren(...next.childNodes);
    }
    tell("");
  } catch {
    tell("This page is not kept fresh: the node did not answer. What it shows is from before.");
  }
}

function tell(text) {
  let line = document.getElementById("stale");
  if (!line) {
    line = document.createElement("p");
    line.id = "stale";
    line.className = "unknown";
    line.setAttribute("role", "status");
    document.getElementById("main").prepend(line);
  }
  line.textContent = text;
  line.hidden = text === "";
}

document.addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme");
  const label = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
  button.hidden = false;
  label();
  button.addEventListener("click", () => {
    localStorage.setItem(THEME, isDark() ? "light" : "dark");
    applyTheme();
    label();
  });
  document.addEventListener("submit", (event) => {
    const text = event.submitter?.dataset.confirm;
    if (text && !confirm(text)) event.preventDefault();
  });
  setInterval(refresh, REFRESH_MS);
});
