// The theme: that of the system until a person chooses another one.
"use strict";

const Theme = (() => {
  const KEY = "univarfl-theme";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];

  function stored() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // a file, or a browser that keeps nothing
    }
  }

  function current() {
    return document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
  }

  function changed() {
    const button = document.getElementById("theme");
    if (button) button.textContent = current() === "dark" ? "Light theme" : "Dark theme";
    listeners.forEach((listener) => listener());
  }

  function toggle() {
    const next = current() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // the choice holds until the page is closed
    }
    changed();
  }

  if (["light", "dark"].includes(stored())) document.documentElement.dataset.theme = stored();
  dark.addEventListener("change", changed);
  matchMedia("print").addEventListener("change", changed);
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", toggle);
    changed();
  });

  return {
    // Return the value of a colour of pages.css.
    colour: (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim(),
    onChange: (listener) => listeners.push(listener),
  };
})();
