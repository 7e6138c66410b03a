// The report: its tables can be sorted and filtered, and its curves are drawn when they are seen.
"use strict";

(() => {
  const MANY = 8; // rows from which a filter helps

  for (const table of document.querySelectorAll("table[data-title]")) {
    Tables.enhance(table, table.tBodies[0].rows.length > MANY ? table.dataset.title : null);
  }

  const charts = JSON.parse(document.getElementById("charts").textContent);
  const waiting = new Map();
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const [section, place] = JSON.parse(figure.dataset.chart);
    waiting.set(figure, { ...charts[section][place], title: `${section}, ${charts[section][place].title}` });
  }

  function draw(figure) {
    const spec = waiting.get(figure);
    if (!spec) return;
    waiting.delete(figure);
    Curves.chart(figure.querySelector("div")).update(spec);
  }

  const seen = new IntersectionObserver((entries) => {
    entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      seen.unobserve(entry.target);
      draw(entry.target);
    });
  }, { rootMargin: "400px" });
  [...waiting.keys()].forEach((figure) => seen.observe(figure));
  addEventListener("beforeprint", () => [...waiting.keys()].forEach(draw));
  document.body.dataset.ready = "yes";
})();
