// Curves: uPlot draws them; legend, readout and keys are added here.
"use strict";

const Curves = (() => {
  const DASHES = [[], [10, 5], [3, 4], [12, 4, 3, 4], [2, 8]];
  const COLOURS = 8;
  const HEIGHT = 300;
  const SVG = "http://www.w3.org/2000/svg";
  const drawn = new Set();

  const colourOf = (place) => Theme.colour(`--curve-${place % COLOURS}`);
  const dashOf = (place) => DASHES[place % DASHES.length];

  // Return a number as short text.
  function brief(value) {
    if (value === null || value === undefined) return "no value";
    if (value === 0 || (Math.abs(value) >= 0.001 && Math.abs(value) < 1e6)) {
      return String(Number(value.toPrecision(4)));
    }
    return value.toExponential(2);
  }

  // Return the series over all their x values, as uPlot wants them: mean, then low and high.
  function joined(series) {
    const xs = [...new Set(series.flatMap((one) => one.x))].sort((a, b) => a - b);
    const place = new Map(xs.map((x, at) => [x, at]));
    const spread = (one, values) => {
      const column = new Array(xs.length).fill(null);
      one.x.forEach((x, at) => { column[place.get(x)] = values[at]; });
      return column;
    };
    const columns = series.flatMap((one) =>
      [one.y, ...(one.low ? [one.low, one.high] : [])].map((values) => spread(one, values)));
    return [xs, ...columns];
  }

  function swatch(style) {
    const picture = document.createElementNS(SVG, "svg");
    picture.setAttribute("width", "34");
    picture.setAttribute("height", "10");
    picture.setAttribute("aria-hidden", "true");
    const line = document.createElementNS(SVG, "line");
    for (const [name, value] of Object.entries({ x1: 1, x2: 33, y1: 5, y2: 5 })) line.setAttribute(name, value);
    line.setAttribute("stroke-width", "3");
    line.setAttribute("stroke-dasharray", dashOf(style).join(" "));
    line.style.stroke = `var(--curve-${style % COLOURS})`;
    picture.append(line);
    return picture;
  }

  // Return a chart in a container: `update` draws a specification of
  // {title, x, y, log, series: [{name, style, x, y, low, high}]}.
  function chart(container) {
    const hidden = new Set();
    let plot = null;
    let shape = "";
    let spec = null;
    let data = null;
    let values = [];
    container.replaceChildren();
    const box = document.createElement("div");
    box.className = "plot";
    box.tabIndex = 0;
    box.setAttribute("role", "img");
    const readout = document.createElement("p");
    readout.className = "soft readout";
    readout.setAttribute("role", "status");
    const legend = document.createElement("ul");
    legend.className = "legend";
    container.append(box, readout, legend);

    const columnOf = (place) => 1 + spec.series.slice(0, place).reduce((sum, one) => sum + (one.low ? 3 : 1), 0);

    function last(place) {
      const column = data[columnOf(place)];
      for (let at = column.length - 1; at >= 0; at -= 1) if (column[at] !== null) return column[at];
      return null;
    }

    function show(at) {
      const here = at === null || at === undefined ? null : data[0][at];
      readout.textContent = here === null ? "" : `${spec.x} ${brief(here)}`;
      values.forEach((value, place) => {
        const found = here === null ? last(place) : data[columnOf(place)][at];
        value.textContent = here !== null && found === null ? "" : brief(found);
      });
    }

    function options() {
      const series = [{ label: spec.x }];
      const bands = [];
      for (const one of spec.series) {
        const line = { width: 2, dash: dashOf(one.style), stroke: () => colourOf(one.style) };
        const show_ = !hidden.has(one.name);
        const points = { size: 5, fill: () => colourOf(one.style), show: one.x.length < 40 };
        series.push({ ...line, label: one.name, spanGaps: true, show: show_, points });
        if (one.low) {
          const edge = { width: 0, spanGaps: true, show: show_, points: { show: false }, stroke: "transparent" };
          bands.push({ series: [series.length + 1, series.length], fill: () => `${colourOf(one.style)}26` });
          series.push({ ...edge, label: `${one.name} low` }, { ...edge, label: `${one.name} high` });
        }
      }
      const axis = {
        stroke: () => Theme.colour("--ink"),
        grid: { stroke: () => Theme.colour("--grid"), width: 1 },
        ticks: { stroke: () => Theme.colour("--rule"), width: 1 },
      };
      return {
        width: Math.max(box.clientWidth, 200),
        height: HEIGHT,
        legend: { show: false },
        cursor: { y: false, drag: { x: true, y: false } },
        scales: { x: { time: false }, y: { distr: spec.log ? 3 : 1 } },
        axes: [
          { ...axis, label: spec.x, values: (_, ticks) => ticks.map((tick) => tick === null ? "" : brief(tick)) },
          { ...axis, label: spec.y, size: 58, values: (_, ticks) => ticks.map((tick) => tick === null ? "" : brief(tick)) },
        ],
        series,
        bands,
        hooks: { setCursor: [(of) => show(of.cursor.idx)] },
      };
    }

    function toggle(place, button) {
      const { name, low } = spec.series[place];
      const on = hidden.has(name);
      if (on) hidden.delete(name);
      else hidden.add(name);
      button.setAttribute("aria-pressed", String(on));
      for (let part = 0; part < (low ? 3 : 1); part += 1) {
        plot.setSeries(columnOf(place) + part, { show: on });
      }
    }

    function drawLegend() {
      values = [];
      legend.replaceChildren(...spec.series.map((one, place) => {
        const button = document.createElement("button");
        button.type = "button";
        button.setAttribute("aria-pressed", String(!hidden.has(one.name)));
        const name = document.createElement("span");
        name.textContent = one.name;
        const value = document.createElement("span");
        value.className = "value";
        values.push(value);
        button.append(swatch(one.style), name, value);
        button.addEventListener("click", () => toggle(place, button));
        const item = document.createElement("li");
        item.append(button);
        return item;
      }));
    }

    function describe() {
      const ends = spec.series.map((one, place) => `${one.name} ${brief(last(place))}`).join("; ");
      box.setAttribute("aria-label", `${spec.title}. Last values: ${ends || "none"}. Arrow keys read single values.`);
    }

    function update(next) {
      spec = next;
      // A logarithm needs positive numbers.
      const positive = (column) => column.map((value) => (value === null || value > 0 ? value : null));
      data = joined(spec.series);
      if (spec.log) data = [data[0], ...data.slice(1).map(positive)];
      const now = JSON.stringify([spec.x, spec.y, spec.log, spec.series.map((one) => [one.name, one.style, Boolean(one.low), one.x.length < 40])]);
      if (plot && now === shape) {
        plot.setData(data);
      } else {
        plot?.destroy();
        shape = now;
        drawLegend();
        plot = spec.series.length ? new uPlot(options(), data, box) : null;
        box.hidden = !plot;
      }
      describe();
      show(plot?.cursor.idx ?? null);
    }

    box.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !plot) return;
      event.preventDefault();
      const before = plot.cursor.idx ?? (step > 0 ? -1 : data[0].length);
      const at = Math.min(Math.max(before + step, 0), data[0].length - 1);
      plot.setCursor({ left: plot.valToPos(data[0][at], "x"), top: 10 });
    });
    new ResizeObserver(() => {
      if (plot && box.clientWidth > 0) plot.setSize({ width: box.clientWidth, height: HEIGHT });
    }).observe(container);
    drawn.add(() => plot?.redraw(false));
    return { update };
  }

  Theme.onChange(() => drawn.forEach((redraw) => redraw()));
  return { brief, chart };
})();
