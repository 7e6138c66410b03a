// The dashboard: it asks for what has changed, and shows it. All text of a record is set as text.
"use strict";

(() => {
  const PAUSE = 2000; // milliseconds between two looks
  const MOST_CHOSEN = 12;
  const FIRST_CHOSEN = 3;
  const get = (id) => document.getElementById(id);
  const table = get("runs");
  const sortable = Tables.enhance(table, "Runs");
  const curve = Curves.chart(get("curve"));
  const rows = new Map(); // by name of the run
  const details = new Map(); // the chosen runs and the one whose details are shown
  const styles = new Map(); // a run keeps its colour and dash while it is chosen
  let columns = null;
  let tag = null;
  let chosen = [];
  let shown = null;
  let wishes = new URLSearchParams(location.hash.slice(1));

  async function fetched(address) {
    const answer = await fetch(address, { signal: AbortSignal.timeout(20000) });
    if (!answer.ok) throw new Error(answer.status === 401 ? "it asks for the token" : `it answers ${answer.status}`);
    return answer;
  }

  function keep() {
    const hash = new URLSearchParams(chosen.map((name) => ["run", name]));
    if (shown) hash.set("show", shown);
    hash.set("metric", get("metric").value);
    hash.set("axis", get("axis").value);
    history.replaceState(null, "", `#${hash}`);
  }

  function drawHeadings(next) {
    columns = next;
    const names = ["run", ...columns].map((name) => {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = name;
      return cell;
    });
    const first = document.createElement("th");
    first.dataset.plain = "";
    first.textContent = "chosen";
    table.tHead.rows[0].replaceChildren(first, ...names);
    table.tBodies[0].replaceChildren();
    rows.clear();
    sortable.reset();
  }

  function newRow(name) {
    const row = document.createElement("tr");
    row.dataset.run = name;
    const box = document.createElement("input");
    box.type = "checkbox";
    box.setAttribute("aria-label", `Choose ${name}`);
    box.addEventListener("change", () => choose(name, box.checked));
    row.insertCell().append(box);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "link";
    button.textContent = name;
    button.addEventListener("click", () => {
      shown = name;
      keep();
      look().then(() => get("details-heading").scrollIntoView({ block: "start" }));
    });
    row.insertCell().append(button);
    columns.forEach((column) => { row.insertCell().className = column === "status" ? "status" : ""; });
    return row;
  }

  function drawRuns(found) {
    get("place").textContent = `${found.runs.length} run${found.runs.length === 1 ? "" : "s"} in ${found.directory}`
      + (found.runs.length >= found.most ? `; only the last ${found.most} are shown` : "");
    if (JSON.stringify(columns) !== JSON.stringify(found.columns)) drawHeadings(found.columns);
    const present = new Set(found.runs.map((run) => run.name));
    for (const [name, row] of rows) {
      if (!present.has(name)) {
        row.remove();
        rows.delete(name);
      }
    }
    const fresh = document.createDocumentFragment();
    for (const run of found.runs) {
      let row = rows.get(run.name);
      if (!row) {
        row = newRow(run.name);
        rows.set(run.name, row);
        fresh.prepend(row);
      }
      run.cells.forEach((text, place) => {
        const cell = row.cells[place + 2];
        if (cell.textContent !== text) cell.textContent = text;
      });
      row.dataset.status = run.cells[0].split(" ")[0];
    }
    table.tBodies[0].prepend(fresh);
    chosen = chosen.filter((name) => present.has(name));
    if (wishes) {
      const wanted = wishes.getAll("run").filter((name) => present.has(name));
      const newest = found.runs.slice(-FIRST_CHOSEN).map((run) => run.name);
      chosen = (wishes.has("metric") ? wanted : newest).slice(0, MOST_CHOSEN);
      shown = present.has(wishes.get("show")) ? wishes.get("show") : null;
    }
    sortable.refresh();
    tick();
  }

  function tick() {
    for (const [name, row] of rows) row.cells[0].firstChild.checked = chosen.includes(name);
  }

  function choose(name, on) {
    chosen = chosen.filter((other) => other !== name);
    if (on) chosen.push(name);
    if (chosen.length > MOST_CHOSEN) chosen.shift();
    tick();
    keep();
    look();
  }

  function styleOf(name) {
    for (const known of styles.keys()) if (!chosen.includes(known)) styles.delete(known);
    if (!styles.has(name)) {
      let place = 0;
      while ([...styles.values()].includes(place)) place += 1;
      styles.set(name, place);
    }
    return styles.get(name);
  }

  function drawCurves(found) {
    const metric = get("metric");
    const labels = new Map(found.flatMap((run) => Object.entries(run.series).map(([name, one]) => [name, one.label])));
    const names = [...labels.keys()].sort();
    const before = metric.value || wishes?.get("metric");
    if (JSON.stringify(names) !== JSON.stringify([...metric.options].map((option) => option.value))) {
      metric.replaceChildren(...names.map((name) => new Option(labels.get(name), name)));
    }
    metric.value = [before, "test accuracy", "validation accuracy", names[0]].find((name) => names.includes(name)) || "";
    if (wishes?.get("axis")) get("axis").value = wishes.get("axis");
    const axis = get("axis").value || "round";
    const place = { round: 0, seconds: 1, megabytes: 2 }[axis];
    const missing = [];
    const series = [];
    for (const run of found) {
      const points = run.series[metric.value];
      const at = new Map(run.elapsed.map((row) => [row[0], row[place]]));
      const pairs = (points?.round || [])
        .map((round, index) => [place ? at.get(round) : round, points.value[index]])
        .filter(([x]) => x !== null && x !== undefined);
      if (!pairs.length) missing.push(run.name);
      const x = pairs.map((pair) => pair[0]);
      series.push({ name: run.name, style: styleOf(run.name), x, y: pairs.map((pair) => pair[1]) });
    }
    const metricLabel = labels.get(metric.value) || "";
    const title = `${metricLabel} of ${found.length} run${found.length === 1 ? "" : "s"} over ${axis}`;
    const label = axis === "megabytes" ? "megabytes (MB)" : axis === "seconds" ? "seconds in rounds" : "round";
    curve.update({ title, x: label, y: metricLabel, log: get("log").checked, series: series.filter((one) => one.x.length) });
    const notes = [];
    if (!chosen.length) notes.push("No run is chosen.");
    if (missing.length) notes.push(`Without these values: ${missing.join(", ")}.`);
    if (axis === "megabytes") notes.push("Megabytes are computed from the sizes of a request and a reply. A record of an older version has the reply's size alone, or none. In simulation nothing is sent over a network.");
    if (axis === "seconds") notes.push("Runs that shared a machine took longer.");
    get("curve-note").textContent = notes.join(" ");
  }

  function drawDifferences(found) {
    const section = get("differences");
    const keys = [...new Set(found.flatMap((run) => Object.keys(run.settings)))]
      .filter((key) => new Set(found.map((run) => run.settings[key])).size > 1);
    section.hidden = found.length < 2;
    const rowsOf = keys.map((key) => [key, ...found.map((run) => run.settings[key] ?? "-")]);
    const next = keys.length
      ? Tables.build(["setting", ...found.map((run) => run.name)], rowsOf)
      : Tables.build(["setting"], [["none"]]);
    replace(section.querySelector("table"), next);
  }

  // Replace a table only if it has changed, so that a selection in it survives.
  function replace(table_, next) {
    if (table_.innerHTML !== next.innerHTML) table_.replaceChildren(...next.childNodes);
  }

  const COUNTS = ["updates", "failures", "images in all rounds", "seconds per update", "last failure"];
  const TABLES = [
    ["sites", "Sites", ["site", "clients", ...COUNTS]],
    ["clients", "Clients", ["client", "site", ...COUNTS]],
    ["failures", "Failures (the last 200)", ["round", "client", "site", "reason"]],
    ["events", "Events (the last 200)", ["time", "round", "site", "event"]],
  ];
  const drawnTables = new Map();

  function drawDetails(run) {
    get("details").hidden = !run;
    if (!run) return;
    get("details-heading").textContent = run.name;
    get("details-status").textContent = `${run.status}${run.started ? `; started ${run.started}` : ""}`;
    const problems = get("details-problems");
    problems.hidden = !run.problems.length;
    problems.replaceChildren(...run.problems.map((text) => {
      const item = document.createElement("li");
      item.textContent = text;
      return item;
    }));
    const place = get("details-tables");
    if (place.dataset.run !== run.name) {
      place.dataset.run = run.name;
      place.replaceChildren();
      drawnTables.clear();
    }
    for (const [key, title, headings] of TABLES) {
      const count = run.counts[key] || 0;
      const part = count > run[key].length ? ` (the first ${run[key].length} of ${count})` : "";
      drawTable(place, key, title + part, headings, run[key]);
    }
    const settings = Object.entries(run.settings);
    drawTable(place, "settings", "Settings that decide the result", ["setting", "value"], settings);
  }

  function drawTable(place, key, title, headings, values) {
    const text = JSON.stringify([title, values]);
    const known = drawnTables.get(key);
    if (known?.text === text) return;
    const section = known?.section || document.createElement("section");
    drawnTables.set(key, { text, section });
    if (!known) place.append(section);
    const filter = section.querySelector("input")?.value || "";
    section.hidden = !values.length;
    const heading = document.createElement("h3");
    heading.textContent = title;
    const box = document.createElement("div");
    box.className = "bounded";
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", title);
    const built = Tables.build(headings, values);
    for (const row of built.tBodies[0].rows) row.lastElementChild.className = "long";
    box.append(built);
    section.replaceChildren(heading, box);
    const made = Tables.enhance(built, values.length > 8 ? title : null);
    const input = section.querySelector("input");
    if (filter && input) {
      input.value = filter;
      made.refresh();
    }
  }

  let looking = null;

  // Look once more; a look that is under way is waited for.
  async function look() {
    await looking;
    looking = lookNow();
    await looking;
  }

  async function lookNow() {
    try {
      const answer = await fetched("api/runs");
      if (answer.headers.get("ETag") !== tag) {
        drawRuns(await answer.json());
        tag = answer.headers.get("ETag");
      }
      const wanted = [...new Set([...chosen, ...(shown ? [shown] : [])])];
      await Promise.all(wanted.map(async (name) => {
        const found = await fetched(`api/runs/${encodeURIComponent(name)}`);
        if (details.get(name)?.tag !== found.headers.get("ETag")) {
          details.set(name, { tag: found.headers.get("ETag"), run: await found.json() });
        }
      }));
      for (const name of details.keys()) if (!wanted.includes(name)) details.delete(name);
      const found = chosen.map((name) => details.get(name)?.run).filter(Boolean);
      drawCurves(found);
      drawDifferences(found);
      drawDetails(details.get(shown)?.run);
      wishes = null;
      get("trouble").hidden = true;
      document.body.dataset.ready = "yes";
    } catch (error) {
      get("trouble").textContent = `The dashboard cannot be asked (${error.message}); trying again. What is shown may be old.`;
      get("trouble").hidden = false;
    }
  }

  async function follow() {
    if (!document.hidden) await look();
    setTimeout(follow, PAUSE);
  }

  for (const id of ["metric", "axis", "log"]) {
    get(id).addEventListener("change", () => {
      keep();
      look();
    });
  }
  get("none").addEventListener("click", () => {
    chosen = [];
    tick();
    keep();
    look();
  });
  follow();
})();
