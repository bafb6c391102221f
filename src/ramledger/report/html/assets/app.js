// Puts the sections together, keeps the state of the page, and follows a run that still goes on.
const POLL_SECONDS = 2;

const section = (id, title, ...children) => h("section", { id, "aria-label": title }, h("h2", {}, title), ...children);

class App {
  constructor(payload) {
    this.live = payload.live;
    this.runs = payload.runs.map((data) => new Run(data));
    this.state = { run: 0, view: TREE, hover: null, a: null, b: null, zoom: null, log: false, reserved: false, overlay: payload.runs.length > 1, off: new Set(), chosen: null, unfolded: false, growth: false, cell: null, allGrowth: false };
    this.state.growth = this.runs.some((run) => run.leak !== null);
    this.readLink();
    this.root = document.getElementById("page");
    this.chart = new Chart(this);
    this.panel = h("div", { class: "panel" });
    this.build();
    let width = 0;
    new ResizeObserver(() => { if (this.chart.svg.clientWidth !== width) { width = this.chart.svg.clientWidth; this.chart.draw(); } }).observe(this.chart.svg);
    window.addEventListener("hashchange", () => { this.readLink(); this.update(); });
    if (this.live) this.follow();
  }

  get run() { return this.runs[this.state.run]; }
  get other() { return this.runs[1 - this.state.run]; }

  peakSnapshot() {
    const snapshots = this.run.snapshotsOf(this.state.view);
    return snapshots.reduce((most, snapshot) => (snapshot.rss > most.rss ? snapshot : most), snapshots[0] || { t: this.run.data.peak.t, rss: 0 });
  }

  snapshotNear(t) {
    return this.run.snapshotsOf(this.state.view).reduce((best, snapshot) => (Math.abs(snapshot.t - t) < Math.abs(best.t - t) ? snapshot : best));
  }

  build() {
    this.slots = { header: h("header"), compare: h("div"), verdict: h("div"), advice: h("div"), memory: h("div"), growth: h("div"), owners: h("div"), objects: h("div"), workers: h("div"), findings: h("div"), footer: h("footer") };
    this.legend = h("div", { class: "legend", role: "group", "aria-label": "accounts shown" });
    this.tools = h("div", { class: "tools" });
    this.phaseKeys = h("div", { class: "legend phase-keys" });
    this.about = h("p", { class: "legend-line", id: "about-chart" });
    this.slots.memory.append(section("memory", "Memory over time", this.tools, this.about, h("div", { class: "with-panel" }, h("div", { class: "plot" }, this.chart.svg, this.legend, this.phaseKeys), this.panel)));
    this.root.replaceChildren(...Object.values(this.slots));
    this.update();
  }

  update() {
    const put = (slot, content) => this.slots[slot].replaceChildren(...[content].flat().filter(Boolean));
    put("header", this.header());
    put("verdict", verdictSection(this));
    put("advice", adviceSection(this));
    put("compare", compareSection(this));
    put("growth", [growthTableSection(this), growthSection(this)]);
    put("objects", objectsSection(this));
    put("workers", workersSection(this));
    put("findings", findingsSection(this));
    put("footer", this.footer());
    this.redraw();
  }

  // A renewed page keeps what its reader had open, chosen and focused.
  renew() {
    const open = new Set([...this.root.querySelectorAll("details[open] summary")].map((summary) => summary.textContent));
    const closed = new Set([...this.root.querySelectorAll("details:not([open]) summary")].map((summary) => summary.textContent));
    const slot = Object.values(this.slots).find((one) => one.contains(document.activeElement));
    const at = slot ? [...slot.querySelectorAll("button, summary, select")].indexOf(document.activeElement) : -1;
    this.update();
    for (const summary of this.root.querySelectorAll("summary")) {
      if (open.has(summary.textContent)) summary.parentNode.open = true;
      if (closed.has(summary.textContent)) summary.parentNode.open = false;
    }
    const again = at >= 0 ? [...slot.querySelectorAll("button, summary, select")][at] : null;
    if (again) again.focus({ preventScroll: true });
  }

  redraw() {
    this.drawTools();
    this.drawLegend();
    this.drawPhaseKeys();
    this.chart.draw();
    this.panel.replaceChildren(statementPanel(this));
    this.slots.owners.replaceChildren(...[ownersSection(this)].filter(Boolean));
  }

  hover(t) {
    if (t === this.state.hover) return;
    this.state.hover = t;
    this.chart.drawCursor();
    this.panel.replaceChildren(statementPanel(this));
  }

  pin(which, t) {
    if (t === null) return;
    this.state[which] = t;
    this.writeLink();
    this.redraw();
  }

  zoom(range) {
    this.state.zoom = range;
    this.redraw();
    if (range && this.live) this.detail(range);
  }

  view(view) {
    Object.assign(this.state, { view, off: new Set(), chosen: null, hover: null });
    this.writeLink();
    this.update();
    this.toChart();
  }

  toChart() {
    this.slots.memory.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }

  // One account stands out in the chart; choosing it again, or nothing, ends that.
  choose(account) {
    const { state } = this;
    if (state.view !== TREE && account) this.view(TREE);
    if (account && this.run.constants(TREE).has(account)) this.setFold(true);
    const band = account ? this.run.bandName(TREE, account) : null;
    state.chosen = band;
    state.off.delete(band);
    this.redraw();
    if (account) this.toChart();
  }

  goTo(t) {
    const start = this.chart.start;
    if (start && t < start.t) this.state.growth = false;
    this.pin("a", this.run.nearest(this.state.view, t).t);
    this.toChart();
  }

  setFold(unfolded) {
    this.state.unfolded = unfolded;
    for (const run of this.runs) run.unfolded = unfolded;
  }

  unfold(unfolded) {
    this.setFold(unfolded);
    this.redraw();
  }

  header() {
    const { runs, state } = this;
    const tabs = runs.length < 2 ? null : h("div", { class: "tabs", role: "group", "aria-label": "run shown" }, runs.map((run, at) =>
      h("button", { type: "button", "aria-pressed": String(at === state.run), onclick: () => { Object.assign(state, { run: at, view: TREE, off: new Set(), chosen: null, a: null, b: null, hover: null, zoom: null, cell: null }); this.update(); } }, RUN_NAMES[at] + ": " + shortPath(run.data.recording, 30))));
    const started = this.run.data.started_at ? moment(this.run.data.started_at) : "";
    this.status = h("span", { class: "status", role: "status" }, this.live ? (this.run.data.is_over ? "the run is over" : "live") : "");
    return [h("span", { class: "brand" }, "ramledger"), tabs || h("span", { class: "file" }, this.run.data.recording), h("span", { class: "dim started" }, started), this.status,
      h("button", { type: "button", id: "theme", onclick: () => this.theme(), title: "light or dark" }, "◐ theme")];
  }

  theme() {
    const dark = document.documentElement.dataset.theme === "dark"
      || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  }

  drawTools() {
    const { run, state } = this;
    const toggle = (name, key, available) => available === false ? null : h("button", { type: "button", "aria-pressed": String(state[key]), "data-tool": key, onclick: () => { state[key] = !state[key]; this.redraw(); } }, name);
    const options = [h("option", { value: TREE, selected: state.view === TREE }, run.pids.length > 1 ? "whole run (" + run.pids.length + " processes)" : "whole run"),
      ...run.pids.map((pid) => h("option", { value: pid, selected: state.view === pid }, "pid " + pid + (pid === run.main ? ", trains" : "")))];
    this.tools.replaceChildren(...[
      run.pids.length > 1 ? h("label", {}, h("span", { class: "offscreen" }, "process"), h("select", { onchange: (event) => this.view(event.target.value === TREE ? TREE : Number(event.target.value)) }, options)) : null,
      toggle("growth only", "growth"), toggle("log scale", "log", !state.growth), toggle("reserved", "reserved", !state.growth && run.snapshotsOf(state.view).length > 0), toggle("with the run " + RUN_NAMES[1 - state.run], "overlay", this.runs.length > 1),
      h("button", { type: "button", "data-tool": "zoom-out", disabled: state.zoom === null && !state.chosen, onclick: () => { state.chosen = null; this.zoom(null); } }, "show all"),
      h("span", { class: "dim hint" }, "drag to zoom · click sets instant A, shift-click B · arrow keys move · dots are detailed snapshots")].filter(Boolean));
    this.about.replaceChildren(this.aboutChart());
  }

  // What the chart counts, in words.
  aboutChart() {
    const { run } = this, start = this.chart.start;
    const note = run.culprit === "shared memory" ? " The leak is in /dev/shm, which is no memory of a process: it is not in this chart." : "";
    if (!start) return "All memory of the run." + note;
    const place = run.placeAt(start.t);
    return "Growth since " + seconds(start.t) + (place ? ", " + place : "") + ": the " + bytes(start.rss) + " that were there are subtracted." + note;
  }

  drawLegend() {
    const { run, state } = this;
    const number = run.constants(state.view).size;
    const key = (band) => h("button", { type: "button", class: "key" + (state.chosen === band.name ? " chosen" : ""), "data-band": band.name, "aria-pressed": String(!state.off.has(band.name)), title: run.meaning(band.name),
      onclick: () => { if (!state.off.delete(band.name)) state.off.add(band.name); this.redraw(); } }, h("span", { class: "swatch " + band.color }), band.name === CONSTANT && state.unfolded ? "other " + CONSTANT : band.name);
    const shown = [...run.bands(state.view)].reverse();
    const folded = (band) => h("span", { class: "key", "data-band": CONSTANT }, h("span", { class: "swatch " + band.color }), foldButton(this, number));
    this.legend.replaceChildren(...shown.map((band) => (band.name === CONSTANT && !state.unfolded ? folded(band) : key(band))), ...(state.unfolded && number > 1 ? [foldButton(this, number)] : []));
  }

  drawPhaseKeys() {
    const { run } = this;
    const order = [...new Set(run.data.growth.bands.map((band) => band[2]))].slice(0, 12);
    this.phaseKeys.replaceChildren(...(order.length ? [h("span", { class: "dim" }, "phases, below the chart:"), ...order.map((name, at) =>
      h("span", { class: "key" }, s("svg", { width: 11, height: 11, "aria-hidden": "true" }, s("rect", { class: run.names[name] === run.culpritPhase ? "p-culprit" : "p" + (at % 6), width: 11, height: 11 })), " " + run.names[name]))] : []));
  }

  footer() {
    const run = this.run;
    const button = (name, action) => h("button", { type: "button", onclick: (event) => action(event.currentTarget) }, name);
    const stem = run.data.recording.replace(/\.ledger\.jsonl$/, "") || "run";
    return [h("div", { class: "tools" }, button("copy statement", (b) => copy(statementText(this), b)), button("copy link to this instant", (b) => { this.writeLink(true); copy(location.href, b); }),
      button("data as CSV", () => save(stem + ".csv", "text/csv", seriesCsv(this))), button("data as JSON", () => save(stem + ".page.json", "application/json", JSON.stringify(run.data)))),
    h("p", { class: "dim" }, [run.data.host.system, run.data.host.python ? "Python " + run.data.host.python : "", run.data.host.cores ? run.data.host.cores + " cores" : "",
      run.data.host.ram_bytes ? bytes(run.data.host.ram_bytes) + " RAM" : "", run.data.directory, "ramledger " + run.data.ramledger].filter(Boolean).join(" · "))];
  }

  // ---- links to an instant ----
  readLink() {
    const found = new URLSearchParams(location.hash.slice(1));
    const number = (name) => (found.has(name) && Number.isFinite(Number(found.get(name))) ? Number(found.get(name)) : null);
    this.state.a = number("a") ?? this.state.a;
    this.state.b = number("b") ?? this.state.b;
    const pid = number("pid");
    if (pid !== null && this.run.pids.includes(pid)) this.state.view = pid;
  }

  writeLink(always) {
    const { a, b, view, hover } = this.state;
    const found = new URLSearchParams();
    const first = a ?? (always ? hover ?? this.run.data.peak.t : null);
    if (first !== null) found.set("a", first);
    if (b !== null) found.set("b", b);
    if (view !== TREE) found.set("pid", view);
    history.replaceState(null, "", "#" + found);
  }

  // ---- live ----
  async follow() {
    let tag = "";
    for (;;) {
      await new Promise((done) => setTimeout(done, POLL_SECONDS * 1000));
      if (document.hidden) continue;
      try {
        const answer = await fetch("data", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
        if (answer.status === 304) { this.say(this.run.data.is_over ? "the run is over" : "live"); continue; }
        if (!answer.ok) throw new Error(String(answer.status));
        tag = answer.headers.get("ETag") || "";
        this.runs = (await answer.json()).runs.map((data) => new Run(data));
        this.setFold(this.state.unfolded);
        if (this.state.view !== TREE && !this.run.pids.includes(this.state.view)) this.state.view = TREE;
        this.renew();
        if (this.state.zoom) this.detail(this.state.zoom);
      } catch {
        this.say("the server is gone: this is what was seen last");
      }
    }
  }

  say(text) { this.status.textContent = text; }

  async detail([from, to]) {
    try {
      const answer = await fetch("detail?" + new URLSearchParams({ run: this.state.run, from, to }), { cache: "no-store" });
      if (!answer.ok || !this.state.zoom || this.state.zoom[0] !== from) return;
      this.run.refine(await answer.json());
      this.redraw();
    } catch { /* the coarse series stays */ }
  }
}

new App(JSON.parse(document.getElementById("data").textContent));
