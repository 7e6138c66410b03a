// Bars and tables of coloured cells: plain tables with text, so that they can be read without seeing.
"use strict";

const Bars = (() => {
  const { brief, element, variable } = Markers;
  // Cividis, which people see alike who see other colours; from dark to bright.
  const SHADES = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]];

  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const deviation = (values) =>
    Math.sqrt(values.reduce((sum, value) => sum + (value - mean(values)) ** 2, 0) / (values.length - 1));

  function cell(row, text, scope) {
    const made = document.createElement(scope ? "th" : "td");
    if (scope) made.scope = scope;
    made.textContent = text;
    row.append(made);
    return made;
  }

  function readoutIn(container) {
    const readout = document.createElement("p");
    readout.className = "soft readout";
    readout.setAttribute("role", "status");
    container.append(readout);
    return readout;
  }

  // Return a bar from 0 to 100 with its deviation and a dot for each value.
  function strip(bar, values) {
    const picture = element("svg", { height: 28, width: "100%", "aria-hidden": "true" });
    for (const at of [25, 50, 75, 100]) {
      picture.append(element("line", { x1: `${at}%`, x2: `${at}%`, y1: 0, y2: 28, class: "grid" }));
    }
    const whole = element("rect", { x: 0, y: 4, height: 20, width: `${mean(values)}%`, opacity: 0.55 });
    whole.style.fill = `var(${variable(bar.style)})`;
    picture.append(whole);
    if (values.length > 1) {
      const [from, to] = [mean(values) - deviation(values), mean(values) + deviation(values)];
      picture.append(element("line", { x1: `${Math.max(from, 0)}%`, x2: `${Math.min(to, 100)}%`, y1: 14, y2: 14, class: "deviation" }));
    }
    for (const [name, value] of bar.points) {
      const dot = element("circle", { cx: `${value}%`, cy: 19, r: 3 });
      const title = element("title", {});
      title.textContent = `${name}: ${brief(value)}`;
      dot.append(title);
      picture.append(dot);
    }
    return picture;
  }

  // Draw bars: {x, bars: [{name, style, points: [[name, value]]}]}.
  function bars(container, spec) {
    const table = document.createElement("table");
    table.className = "bars";
    const head = table.createTHead().insertRow();
    cell(head, "method", "col");
    cell(head, spec.x, "col");
    cell(head, "mean ± deviation", "col");
    const body = table.createTBody();
    container.append(table);
    const readout = readoutIn(container);
    for (const bar of spec.bars) {
      const points = bar.points.filter(([, value]) => value !== null);
      const values = points.map(([, value]) => value);
      if (!values.length) continue;
      const row = body.insertRow();
      cell(row, bar.name, "row");
      row.insertCell().append(strip({ ...bar, points }, values));
      cell(row, mean(values).toFixed(1) + (values.length > 1 ? ` ± ${deviation(values).toFixed(1)}` : ""));
      const each = points.map(([name, value]) => `${name} ${brief(value)}`).join(", ");
      row.addEventListener("mouseenter", () => { readout.textContent = `${bar.name}: ${each}`; });
      row.addEventListener("mouseleave", () => { readout.textContent = ""; });
    }
  }

  // Return the colour of a share from 0 to 1, and that of text on it.
  function shade(share) {
    const place = Math.min(Math.max(share, 0), 1) * (SHADES.length - 1);
    const first = Math.min(Math.floor(place), SHADES.length - 2);
    const rgb = SHADES[first].map((from, part) => Math.round(from + (place - first) * (SHADES[first + 1][part] - from)));
    const light = rgb.map((part) => (part / 255) ** 2.2);
    const bright = 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] > 0.18;
    return [`rgb(${rgb.join(" ")})`, bright ? "#000" : "#fff"];
  }

  // Return the colours of values: a scale with a legend.
  function scaleOf(spec) {
    const known = spec.values.flat().filter((value) => value !== null);
    const [low, high] = spec.limits ?? [Math.min(...known), Math.max(...known)];
    const at = (value) => (spec.log ? Math.log(value) : value);
    return { low, high, share: (value) => (high > low ? (at(value) - at(low)) / (at(high) - at(low)) : 1) };
  }

  function legend(container, spec, scale) {
    const line = document.createElement("p");
    line.className = "soft scale";
    const colours = document.createElement("span");
    colours.className = "colours";
    colours.style.background = `linear-gradient(to right, ${SHADES.map((rgb) => `rgb(${rgb.join(" ")})`).join(", ")})`;
    line.append(`${spec.value}: ${brief(scale.low)} `, colours, ` ${brief(scale.high)}${spec.log ? ", logarithmic" : ""}`);
    container.append(line);
  }

  // Draw a table of coloured cells: {value, row, column, rows, columns, values, limits, log, numbered}.
  function cells(container, spec) {
    const scale = scaleOf(spec);
    const table = document.createElement("table");
    table.className = spec.numbered ? "cells" : "cells small";
    const head = table.createTHead().insertRow();
    cell(head, `${spec.row} \\ ${spec.column}`, "col");
    spec.columns.forEach((name) => cell(head, name, "col"));
    const body = table.createTBody();
    spec.values.forEach((values, at) => {
      const row = body.insertRow();
      cell(row, spec.rows[at], "row");
      values.forEach((value) => {
        const made = cell(row, value === null ? "" : spec.numbered ? value.toFixed(0) : brief(value));
        if (value !== null) [made.style.background, made.style.color] = shade(scale.share(value));
      });
    });
    const box = document.createElement("div");
    box.className = "wide";
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `${spec.title}. Arrow keys read single values.`);
    box.append(table);
    container.append(box);
    const readout = readoutIn(container);
    legend(container, spec, scale);
    read(box, body, readout, spec);
  }

  // Say the value under the mouse, or the one that the arrow keys have reached.
  function read(box, body, readout, spec) {
    let [row, column] = [0, -1];
    function show(nextRow, nextColumn) {
      body.querySelector(".here")?.classList.remove("here");
      [row, column] = [nextRow, nextColumn];
      const found = column < 0 ? null : body.rows[row]?.cells[column + 1];
      found?.classList.add("here");
      const value = spec.values[row]?.[column];
      readout.textContent = found ? `${spec.rows[row]}, ${spec.columns[column]}: ${brief(value)}` : "";
    }
    body.addEventListener("mouseover", (event) => {
      const at = event.target.closest("td");
      if (at) show(at.parentNode.rowIndex - 1, at.cellIndex - 1);
    });
    body.addEventListener("mouseleave", () => show(0, -1));
    box.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!step) return;
      event.preventDefault();
      const within = (value, most) => Math.min(Math.max(value, 0), most - 1);
      show(within(row + step[0], spec.rows.length), within(column + step[1], spec.columns.length));
    });
  }

  return { bars, cells };
})();
