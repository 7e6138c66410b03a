// Curves: uPlot draws them; legend, readout and keys are added here.
"use strict";

const Curves = (() => {
  const HEIGHT = 300;
  const NEAR = 24; // pixels from the mouse within which a dot is named
  const { brief, colourOf, dashOf, shapesOf, swatch } = Markers;
  const drawn = new Set();

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

  // Return groups of dots as uPlot wants them: each point has a column entry of its own.
  function scattered(series) {
    const points = series.flatMap((one, place) => one.x.map((x, at) => [x, one.y[at], place]));
    points.sort((one, other) => one[0] - other[0]);
    const columns = series.map((_, place) => points.map((point) => (point[2] === place ? point[1] : null)));
    return [points.map((point) => point[0]), ...columns];
  }

  // Return the places of a logarithmic axis that are labelled: few and equal to those of points.
  function placesOf(xs) {
    return xs.length <= 8 ? xs : xs.filter((_, at) => at % Math.ceil(xs.length / 8) === 0);
  }

  // Return a chart in a container: `update` draws a specification of
  // {title, x, y, log, logX, dots, series: [{name, style, x, y, low, high}]}.
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

    // Name the dot nearest to the cursor; without one, say how many each group has.
    function showDot(at) {
      const { left, top } = plot?.cursor ?? {};
      let best = null;
      if (at !== null && at !== undefined && left >= 0) {
        data[0].forEach((x, index) => spec.series.forEach((one, place) => {
          const y = data[1 + place][index];
          if (y === null || hidden.has(one.name)) return;
          const away = Math.hypot(plot.valToPos(x, "x") - left, plot.valToPos(y, "y") - top);
          if (away < NEAR && away < (best?.away ?? Infinity)) best = { away, name: one.name };
        }));
      }
      readout.textContent = best?.name ?? "";
      values.forEach((value, place) => {
        const count = spec.series[place].x.length;
        value.textContent = `${count} image${count === 1 ? "" : "s"}`;
      });
    }

    function show(at) {
      if (spec.dots) {
        showDot(at);
        return;
      }
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
        if (spec.dots) {
          const points = { show: true, fill: () => colourOf(one.style), paths: shapesOf(one.style, 3) };
          series.push({ label: one.name, show: !hidden.has(one.name), paths: () => null, points });
          continue;
        }
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
        cursor: { y: Boolean(spec.dots), points: { show: !spec.dots }, drag: { x: true, y: false } },
        scales: { x: { time: false, distr: spec.logX ? 3 : 1, ...(spec.dots && { range: padded }) }, y: { distr: spec.log ? 3 : 1 } },
        axes: spec.dots ? [{ show: false }, { show: false }] : [
          { ...axis, label: spec.x, size: 36, labelSize: 24, values: texts, ...(spec.logX && {
            splits: () => placesOf(data[0]), filter: (_, ticks) => ticks,
          }) },
          { ...axis, label: spec.y, size: 58, values: texts },
        ],
        series,
        bands,
        hooks: { setCursor: [(of) => show(of.cursor.idx)] },
      };
    }

    // Return limits that leave room for the shapes of the outermost dots.
    function padded(_, low, high) {
      const room = 0.03 * (high - low || 1);
      return [low - room, high + room];
    }

    function texts(_, ticks) {
      return ticks.map((tick) => (tick === null ? "" : brief(tick)));
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
        button.append(swatch(one.style, spec.dots), name, value);
        button.addEventListener("click", () => toggle(place, button));
        const item = document.createElement("li");
        item.append(button);
        return item;
      }));
    }

    function describe() {
      const ends = spec.series.map((one, place) => `${one.name} ${brief(last(place))}`).join("; ");
      if (spec.dots) {
        box.setAttribute("aria-label", `${spec.title}. A map of dots in ${spec.series.length} groups.`);
        return;
      }
      box.setAttribute("aria-label", `${spec.title}. Last values: ${ends || "none"}. Arrow keys read single values.`);
    }

    function update(next) {
      spec = next;
      // A logarithm needs positive numbers.
      const positive = (column) => column.map((value) => (value === null || value > 0 ? value : null));
      data = spec.dots ? scattered(spec.series) : joined(spec.series);
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
      if (!step || !plot || spec.dots) return;
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
  return { chart };
})();
