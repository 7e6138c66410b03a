// Tables that can be sorted and filtered; without this file they are plain tables.
"use strict";

const Tables = (() => {
  const NUMBER = /^[+\-−]?\d+(\.\d+)?(e[+-]?\d+)?(?=$|[\s%(±;])/i;
  const FIRST = 200; // rows that are shown at first; a browser takes seconds to lay out a thousand
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  // Return the number that a text begins with, as in "76.9 ± 1.2"; null if it is no number.
  function numberIn(text) {
    const found = NUMBER.exec(text);
    return found ? parseFloat(found[0].replace("−", "-")) : null;
  }

  // Compare two cells: numbers first, then text; empty cells are last in both directions.
  function compare(one, other, direction) {
    if (!one || !other) return (one ? 0 : 1) - (other ? 0 : 1);
    const [a, b] = [numberIn(one), numberIn(other)];
    if (a !== null && b !== null && a !== b) return direction * (a - b);
    if ((a === null) !== (b === null)) return a === null ? 1 : -1;
    return direction * collator.compare(one, other);
  }

  // Put a bar before a box that filters its items by words, and shows only the first at first.
  // Returns `refresh` for items that have changed, and `showAll`.
  function filtered(box, itemsOf, label, first, noun) {
    let limit = first;
    const bar = document.createElement("div");
    bar.className = "filter";
    const wrapper = document.createElement("label");
    const input = document.createElement("input");
    input.type = "search";
    input.placeholder = `words of a ${noun}`;
    input.setAttribute("aria-label", label);
    wrapper.append("Filter ", input);
    const count = document.createElement("span");
    count.className = "soft";
    count.setAttribute("role", "status");
    const more = document.createElement("button");
    more.type = "button";
    more.textContent = "Show all";
    bar.append(wrapper, count, more);
    box.before(bar);

    function refresh() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const items = itemsOf();
      let found = 0;
      for (const item of items) {
        const text = words.length ? textOf(item) : "";
        const matches = words.every((word) => text.includes(word));
        found += matches ? 1 : 0;
        item.hidden = !matches || found > limit;
      }
      more.hidden = found <= limit;
      const part = found === items.length ? "" : `${found} of `;
      const cut = found > limit ? `, the first ${limit} shown` : "";
      const text = `${part}${items.length} ${noun}${items.length === 1 ? "" : "s"}${cut}`;
      if (count.textContent !== text) count.textContent = text;
    }

    function showAll() {
      limit = Infinity;
      refresh();
    }

    input.addEventListener("input", refresh);
    more.addEventListener("click", showAll);
    refresh();
    return { refresh, showAll };
  }

  // Return the words by which an item is found: the cells of a row, or the caption of a chart.
  function textOf(item) {
    const parts = item.cells ? [...item.cells] : [item.querySelector("figcaption")];
    return parts.map((part) => part.textContent).join(" ").toLowerCase();
  }

  // Make a table sortable, and filterable if it has a label for the filter.
  function enhance(table, label) {
    let column = -1;
    let direction = 1;
    let filter = null;

    if (label) {
      const box = table.closest(".wide, .bounded") || table;
      filter = filtered(box, () => [...table.tBodies[0].rows], `Filter the table ${label}`, FIRST, "row");
      addEventListener("beforeprint", filter.showAll);
    }

    function headings() {
      return [...table.tHead.rows[0].cells];
    }

    // Give each heading a button once; headings can be added later.
    function prepare() {
      headings().forEach((cell, place) => {
        if (cell.dataset.plain !== undefined || cell.querySelector("button")) return;
        cell.scope = "col";
        const button = document.createElement("button");
        button.type = "button";
        button.className = "sort";
        button.append(...cell.childNodes);
        cell.append(button);
        button.addEventListener("click", () => {
          direction = column === place ? -direction : 1;
          column = place;
          refresh();
        });
      });
    }

    function sort() {
      headings().forEach((cell, place) => {
        if (place === column) cell.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
        else cell.removeAttribute("aria-sort");
      });
      if (column < 0) return;
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [(row.cells[column]?.textContent || "").trim(), row]);
      const before = rows.map(([, row]) => row);
      rows.sort(([one], [other]) => compare(one, other, direction));
      if (rows.some(([, row], place) => row !== before[place])) {
        const focused = document.activeElement;
        body.append(...rows.map(([, row]) => row));
        if (body.contains(focused)) focused.focus({ preventScroll: true });
      }
    }

    function refresh() {
      prepare();
      sort();
      filter?.refresh();
    }

    refresh();
    return { refresh, reset: () => { column = -1; } };
  }

  // Return a new table; every cell is text.
  function build(headings, rows) {
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const heading of headings) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = heading;
      head.append(cell);
    }
    const body = table.createTBody();
    for (const values of rows) {
      const row = body.insertRow();
      for (const value of values) row.insertCell().textContent = value === null ? "" : String(value);
    }
    return table;
  }

  return { build, enhance, filtered };
})();
