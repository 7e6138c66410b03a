// The report: its tables can be sorted and filtered, and its charts are drawn when they are seen.
"use strict";

(() => {
  const MANY = 8; // rows from which a filter helps
  const FIRST = 6; // charts of a section that are shown at first
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const waiting = new Map();

  for (const table of document.querySelectorAll("table[data-title]")) {
    Tables.enhance(table, table.tBodies[0].rows.length > MANY ? table.dataset.title : null);
  }

  function draw(figure) {
    const spec = waiting.get(figure);
    if (!spec) return;
    waiting.delete(figure);
    const place = figure.querySelector("div");
    if (spec.kind === "bars") Bars.bars(place, spec);
    else if (spec.kind === "cells") Bars.cells(place, spec);
    else Curves.chart(place).update(spec);
  }

  const seen = new IntersectionObserver((entries) => {
    entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      seen.unobserve(entry.target);
      draw(entry.target);
    });
  }, { rootMargin: "400px" });

  function figureOf(section, spec) {
    const figure = document.createElement("figure");
    figure.dataset.chart = spec.title ? `${section}, ${spec.title}` : section;
    figure.className = spec.kind;
    const caption = document.createElement("figcaption");
    caption.textContent = spec.title;
    caption.hidden = !spec.title;
    figure.append(caption, document.createElement("div"));
    waiting.set(figure, { ...spec, title: figure.dataset.chart });
    seen.observe(figure);
    return figure;
  }

  // Fill the place of a section; with many charts, only some are shown until they are asked for.
  function fill(place) {
    const section = place.dataset.charts;
    const figures = charts[section].map((spec) => figureOf(section, spec));
    place.append(...figures);
    if (figures.length > FIRST) Tables.filtered(place, () => figures, `Filter the charts ${section}`, FIRST, "chart");
  }

  document.querySelectorAll("[data-charts]").forEach(fill);
  addEventListener("beforeprint", () => {
    [...waiting.keys()].filter((figure) => !figure.hidden).forEach(draw);
  });
  document.body.dataset.ready = "yes";
})();
