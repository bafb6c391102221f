// Small multiples: one chart a process, the ones unlike the others first.
const FEW_WORKERS = 24;

function workersSection(app) {
  const { run, state } = app;
  if (run.pids.length < 2) return null;
  const about = new Map(run.data.processes.map((row) => [row.pid, row]));
  const rows = run.pids.map((pid) => {
    const points = run.points(pid);
    return { pid, points, peak: Math.max(0, ...points.map((p) => p.rss)), row: about.get(pid) || { command: "", name: "", node: "" } };
  });
  const peaks = rows.map((row) => row.peak).sort((a, b) => a - b);
  const middle = peaks[peaks.length >> 1];
  const spread = Math.max(1, [...peaks].map((p) => Math.abs(p - middle)).sort((a, b) => a - b)[peaks.length >> 1], middle * 0.02);
  for (const row of rows) row.odd = Math.abs(row.peak - middle) / spread;
  rows.sort((a, b) => (b.pid === run.main) - (a.pid === run.main) || b.odd - a.odd || b.peak - a.peak);
  const top = peaks[peaks.length - 1], to = run.data.seconds;
  const card = ({ pid, points, peak, odd, row }) => h("button", { type: "button", class: "small" + (odd > 5 && pid !== run.main ? " odd" : ""), "aria-pressed": String(state.view === pid), onclick: () => app.view(pid) },
    h("span", { class: "figcaption" }, h("b", {}, row.name || (pid === run.main ? "training process " + pid : "pid " + pid)), h("span", {}, bytes(peak))),
    sparkline(thin(points, 100).map((p) => [p.t, p.rss]), { from: 0, to, top }),
    h("small", { class: "path", title: row.command }, row.node ? "node " + row.node : shortPath(row.command || "worker", 46)), odd > 5 && pid !== run.main ? h("small", {}, peak > middle ? " unlike the others: larger" : " unlike the others: smaller") : null);
  const holder = h("div", { class: "multiples" }, rows.slice(0, FEW_WORKERS).map(card));
  const more = rows.length > FEW_WORKERS ? h("button", { type: "button", onclick: (event) => { event.target.remove(); holder.append(...rows.slice(FEW_WORKERS).map(card)); } }, "show all " + rows.length) : null;
  return section("workers", "Processes", h("p", { class: "dim" }, rows.length + " processes" + (run.series.left_out > 0 ? ", " + run.series.left_out + " smaller ones left out" : "")
    + "; all charts reach to " + bytes(top) + "; pages that processes share are in each of them. Click one to see it above."), holder, more);
}

function thin(points, most) {
  const step = Math.ceil(points.length / most);
  return points.filter((_, at) => at % step === 0 || at === points.length - 1);
}
