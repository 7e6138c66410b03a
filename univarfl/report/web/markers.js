// What a number looks like, and what a style looks like: colours, dashes, and the shapes of dots.
"use strict";

const Markers = (() => {
  const COLOURS = 8;
  const DASHES = [[], [10, 5], [3, 4], [12, 4, 3, 4], [2, 8]];
  const SVG = "http://www.w3.org/2000/svg";
  // Each shape is a path around a point, of about one unit to each side.
  const SHAPES = [
    "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0z",
    "M-.9-.9h1.8v1.8h-1.8z",
    "M0-1.15L1.1.85h-2.2z",
    "M0-1.3L1 0L0 1.3L-1 0z",
    "M-1.1-.85h2.2L0 1.15z",
  ];

  // Return a number as short text.
  function brief(value) {
    if (value === null || value === undefined) return "no value";
    if (value === 0 || (Math.abs(value) >= 0.001 && Math.abs(value) < 1e6)) {
      return String(Number(value.toPrecision(4)));
    }
    return value.toExponential(2);
  }

  const variable = (style) => `--curve-${style % COLOURS}`;
  const colourOf = (style) => Theme.colour(variable(style));
  const dashOf = (style) => DASHES[style % DASHES.length];

  // Return an element of a picture.
  function element(name, attributes) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  // Return the picture of a style for a legend: a line, or a dot.
  function swatch(style, dots) {
    const picture = element("svg", { width: dots ? 14 : 34, height: dots ? 14 : 10, "aria-hidden": "true" });
    const mark = dots
      ? element("path", { d: SHAPES[style % SHAPES.length], transform: "translate(7 7) scale(5)" })
      : element("line", { x1: 1, x2: 33, y1: 5, y2: 5, "stroke-width": 3, "stroke-dasharray": dashOf(style).join(" ") });
    mark.style[dots ? "fill" : "stroke"] = `var(${variable(style)})`;
    picture.append(mark);
    return picture;
  }

  // Return what uPlot asks of a series of dots: their shapes at their places.
  function shapesOf(style, radius) {
    const shape = new Path2D(SHAPES[style % SHAPES.length]);
    return (plot, series) => {
      const fill = new Path2D();
      const size = radius * devicePixelRatio;
      plot.data[series].forEach((y, at) => {
        if (y === null) return;
        const x = plot.valToPos(plot.data[0][at], "x", true);
        fill.addPath(shape, new DOMMatrix([size, 0, 0, size, x, plot.valToPos(y, "y", true)]));
      });
      return { fill, stroke: null };
    };
  }

  return { brief, variable, colourOf, dashOf, element, swatch, shapesOf };
})();
