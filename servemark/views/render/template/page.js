"use strict";
const button = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const dark = () => (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
const show = () => {
  button.setAttribute("aria-pressed", String(dark()));
};
button.hidden = false;
button.addEventListener("click", () => {
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  show();
});
system.addEventListener("change", show);
show();
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const each of opened) each.open = true;
});
addEventListener("afterprint", () => {
  for (const each of opened) each.open = false;
});
