// The statement at an instant: rows that sum to RSS, as a table, as text, as CSV.
const STATEMENT_ROWS = 14;

function statementPanel(app) {
  const { run, state } = app;
  const t = state.hover ?? state.a ?? run.data.peak.t;
  const found = run.statementAt(state.view, t);
  const constants = run.constants(state.view);
  const still = found.rows.filter((row) => constants.has(row.name)), isFolded = !state.unfolded && still.length > 1;
  const moving = isFolded ? found.rows.filter((row) => !constants.has(row.name)) : found.rows;
  const rows = moving.slice(0, STATEMENT_ROWS), rest = moving.slice(STATEMENT_ROWS);
  const total = (some) => some.reduce((sum, row) => sum + row.resident, 0);
  const line = (row, kind, name) => h("tr", { class: kind || "", "data-bytes": row.resident },
    h("td", {}, kind === "rest" ? null : h("span", { class: "swatch " + run.color(state.view, row.name) }),
      name || h("span", { class: "path", title: row.note || row.name }, row.name),
      row.fill !== null && row.fill !== undefined ? h("small", {}, " " + Math.round(row.fill * 100) + "% filled") : null,
      run.meaning(row.name) ? h("small", { class: "meaning" }, run.meaning(row.name)) : null),
    h("td", { class: "number" }, bytes(row.resident)),
    h("td", { class: "number dim" }, share(row.resident, found.rss)));
  const place = run.placeAt(found.t);
  return h("div", { class: "statement" },
    h("h3", {}, "Statement at " + seconds(found.t), place ? h("small", {}, " " + place) : null),
    h("p", { class: "dim basis" }, basis(found)),
    h("div", { class: "scroll tall" }, h("table", { id: "statement" },
      h("tbody", {}, rows.map((row) => line(row)),
        rest.length ? line({ name: rest.length + " smaller accounts", resident: total(rest), fill: null }, "rest") : null,
        isFolded ? line({ name: CONSTANT, resident: total(still), fill: null }, "folded", foldButton(app, constants.size)) : null),
      h("tfoot", {}, h("tr", { "data-rss": found.rss }, h("th", { scope: "row" }, state.view === TREE && run.pids.length > 1 ? "RSS, shared pages once" : "RSS"),
        h("td", { class: "number" }, bytes(found.rss)), h("td", { class: "number dim" }, "100%"))))),
    state.unfolded && still.length > 1 ? h("p", {}, foldButton(app, constants.size)) : null);
}

function foldButton(app, number) {
  const { state } = app;
  return h("button", { type: "button", class: "link fold", "aria-expanded": String(state.unfolded), onclick: () => app.unfold(!state.unfolded) },
    state.unfolded ? "fold the " + number + " constant accounts" : "… " + number + " constant accounts");
}

function basis(found) {
  if (found.exact) return "a detailed snapshot: measured inside the process at this instant";
  if (!found.around) return "seen from outside: no snapshot was taken in this process";
  const { before, after } = found.around;
  if (!before) return "before the first snapshot, at " + seconds(after.t);
  if (!after) return "accounts as of the last snapshot, at " + seconds(before.t);
  return "RSS is measured; accounts are interpolated between the snapshots at " + seconds(before.t) + " and " + seconds(after.t);
}

function statementText(app) {
  const { run, state } = app;
  const found = run.statementAt(state.view, state.hover ?? state.a ?? run.data.peak.t);
  const width = Math.max(11, ...found.rows.map((row) => row.name.length));
  const lines = found.rows.map((row) => row.name.padEnd(width) + bytes(row.resident).padStart(12) + share(row.resident, found.rss).padStart(8)
    + (row.reserved > row.resident ? "  of " + bytes(row.reserved) + " reserved" : ""));
  const where = run.placeAt(found.t);
  return [run.data.command, "at " + seconds(found.t) + (where ? " (" + where + ")" : "") + ", " + basis(found), ...lines,
    "RSS".padEnd(width) + bytes(found.rss).padStart(12) + "100.0%".padStart(8), ""].join("\n");
}

// Cells that a spreadsheet would take for a formula are quoted as text.
function csvCell(value) {
  const text = String(value ?? "");
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? "'" + text : text;
  return /[",\n\r]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
}

function seriesCsv(app) {
  const { run, state } = app;
  const bands = run.bands(state.view);
  const rows = run.points(state.view).map((point, i) => [point.t, point.rss, ...bands.map((band) => Math.round(band.values[i]))]);
  return [["seconds", "rss_bytes", ...bands.map((band) => band.name)], ...rows].map((row) => row.map(csvCell).join(",")).join("\n") + "\n";
}

async function copy(text, button) {
  const was = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "offscreen" }, text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "copied";
  setTimeout(() => { button.textContent = was; }, 1200);
}

function save(name, type, text) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 5000);
}
