// Memory over time: stacked accounts, phases, generations, limit, peak, forecast.
const MARGIN = { left: 68, right: 26, top: 26, bottom: 40 };

class Chart {
  constructor(app) {
    this.app = app;
    this.svg = s("svg", { class: "chart", tabindex: "0", role: "application",
      "aria-label": "Memory over time. Arrow keys move the instant, Enter sets A, B sets B, plus and minus zoom, 0 shows all." });
    this.drag = null;
    this.svg.addEventListener("pointermove", (event) => this.moved(event));
    this.svg.addEventListener("pointerdown", (event) => this.pressed(event));
    this.svg.addEventListener("pointerup", (event) => this.released(event));
    this.svg.addEventListener("pointerleave", () => { if (!this.drag) this.app.hover(null); });
    this.svg.addEventListener("dblclick", () => this.app.zoom(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  domain() {
    const { run, state } = this.app;
    if (state.zoom) return state.zoom;
    const runs = state.overlay ? this.app.runs : [run];
    const end = Math.max(1e-3, ...runs.map((one) => one.data.seconds));
    return [0, end + this.ahead(end)];
  }

  // How much of the future fits on the page.
  ahead(end) {
    const outlook = this.app.run.data.outlook;
    if (!outlook || outlook.seconds_left === null || !outlook.draw) return 0;
    const needed = outlook.from_t - end + outlook.seconds_left * 1.1;
    return Math.max(0, needed <= end ? needed : 0.25 * end);
  }

  draw() {
    const { run, state } = this.app;
    const width = Math.max(280, this.svg.clientWidth || 800);
    const height = width < 560 ? 300 : 380;
    const [from, to] = this.domain();
    const points = run.points(state.view);
    const limit = run.data.limit;
    const shown = run.bands(state.view).filter((band) => !state.off.has(band.name));
    const inside = points.map((p, i) => i).filter((i) => points[i].t >= from - 1e-9 && points[i].t <= to + 1e-9);
    if (inside.length && inside[0] > 0) inside.unshift(inside[0] - 1);
    const stacked = inside.map((i) => shown.reduce((sum, band) => sum + band.values[i], 0));
    let top = Math.max(1, ...stacked, ...(state.reserved ? this.reserved().map((p) => p[1]) : []));
    if (!state.off.size) top = Math.max(top, ...inside.map((i) => points[i].rss), !state.zoom && state.view === TREE ? run.data.peak.bytes : 0);
    if (state.overlay) top = Math.max(top, ...this.app.other.points(TREE).map((p) => p.rss));
    const outlook = run.data.outlook;
    const reaches = outlook && outlook.draw && outlook.from_t + outlook.seconds_left <= to;
    const nearLimit = limit && (limit.bytes < 1.7 * top || reaches);
    if (nearLimit) top = Math.max(top, limit.bytes);
    top *= 1.06;
    const low = state.log ? Math.max(1 << 16, top / 4096) : 0;
    this.x = (t) => MARGIN.left + ((t - from) / (to - from)) * (width - MARGIN.left - MARGIN.right);
    this.t = (x) => from + ((x - MARGIN.left) / (width - MARGIN.left - MARGIN.right)) * (to - from);
    const floor = height - MARGIN.bottom;
    this.y = state.log
      ? (b) => floor - (Math.log(Math.max(b, low) / low) / Math.log(top / low)) * (floor - MARGIN.top)
      : (b) => floor - (b / top) * (floor - MARGIN.top);
    this.height = height; this.width = width; this.floor = floor;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.style.height = height + "px";
    this.svg.replaceChildren(
      s("defs", {}, s("clipPath", { id: "plot" }, s("rect", { x: MARGIN.left, y: 0, width: width - MARGIN.left - MARGIN.right, height: floor }))),
      this.axes(from, to, top, low), this.phases(from, to),
      s("g", { "clip-path": "url(#plot)" },
        state.log ? this.lines(shown, points, inside) : this.areas(shown, points, inside),
        this.total(points, inside, shown), this.envelope(), this.forecast(outlook, limit), this.overlay(),
        state.reserved ? s("path", { class: "reserved", d: this.path(this.reserved()) }) : null),
      nearLimit ? this.limitLine(limit) : limit ? s("g", { class: "limit" }, s("text", { x: MARGIN.left + 6, y: 12 }, "↑ limit " + bytes(limit.bytes) + " (" + limit.source + ")")) : null, this.peak(from, to), this.lookMarks(from, to),
      (this.cursor = s("g", { class: "cursor" })));
    this.drawCursor();
  }

  path(pairs) {
    return pairs.map(([t, b], at) => (at ? "L" : "M") + this.x(t).toFixed(1) + " " + this.y(b).toFixed(1)).join("");
  }

  areas(shown, points, inside) {
    const base = inside.map(() => 0);
    return shown.map((band) => {
      const under = inside.map((i, k) => [points[i].t, base[k]]);
      inside.forEach((i, k) => { base[k] += band.values[i]; });
      const over = inside.map((i, k) => [points[i].t, base[k]]);
      const d = over.length ? this.path(over) + this.path(under.reverse()).replace("M", "L") + "Z" : "";
      return s("path", { class: "band " + band.color, d, "data-band": band.name });
    });
  }

  lines(shown, points, inside) {
    return shown.map((band) => s("path", { class: "line " + band.color, "data-band": band.name,
      d: this.path(inside.filter((i) => band.values[i] > 0).map((i) => [points[i].t, band.values[i]])) }));
  }

  total(points, inside, shown) {
    if (this.app.state.off.size && !this.app.state.log) {
      return s("path", { class: "total", d: this.path(inside.map((i) => [points[i].t, shown.reduce((sum, b) => sum + b.values[i], 0)])) });
    }
    return s("path", { class: "total", d: this.path(inside.map((i) => [points[i].t, points[i].rss])) });
  }

  envelope() {
    const { run, state } = this.app;
    if (state.view !== TREE || state.off.size) return null;
    const { t, high, level } = run.series;
    const pairs = t.map((at, i) => [at, high[i]]);
    return high.some((b, i) => b > level[i] * 1.01) ? s("path", { class: "high", d: this.path(pairs) }) : null;
  }

  reserved() {
    const own = ["claim", "recognized", "path"];
    return this.app.run.looksOf(this.app.state.view).map((look) => [look.t, look.rss + look.rows.reduce((sum, row) =>
      sum + (own.includes(row.source) ? Math.max(0, row.reserved - row.resident) : 0), 0)]);
  }

  overlay() {
    const { state, other } = this.app;
    if (!state.overlay || !other) return null;
    return s("path", { class: "overlay", d: this.path(other.points(TREE).map((p) => [p.t, p.rss])) });
  }

  forecast(outlook, limit) {
    if (!outlook || !outlook.draw || outlook.seconds_left === null || this.app.state.view !== TREE || !limit) return null;
    const start = [outlook.from_t, outlook.from_bytes];
    const at = (left) => [outlook.from_t + left, limit.bytes];
    const low = outlook.low_seconds ?? outlook.seconds_left, high = outlook.high_seconds ?? outlook.seconds_left * 3;
    return s("g", {}, s("path", { class: "cone", d: this.path([start, at(low), at(high), start]) }),
      s("path", { class: "forecast", d: this.path([start, at(outlook.seconds_left)]) }));
  }

  axes(from, to, top, low) {
    const ticks = this.app.state.log
      ? [...Array(12).keys()].map((k) => Math.pow(4, k) * (1 << 16)).filter((b) => b >= low && b <= top) : byteTicks(top, 5);
    const times = timeTicks(from, to, Math.max(2, Math.floor(this.width / 90)));
    const right = this.width - MARGIN.right;
    return s("g", { class: "axes" },
      ticks.map((b) => [s("line", { x1: MARGIN.left, x2: right, y1: this.y(b), y2: this.y(b) }),
        s("text", { x: MARGIN.left - 8, y: this.y(b) + 4, "text-anchor": "end" }, b ? bytes(b).replace(".0 ", " ") : "0")]),
      times.map((t) => [s("line", { class: "tick", x1: this.x(t), x2: this.x(t), y1: this.floor + 14, y2: this.floor + 18 }),
        s("text", { x: this.x(t), y: this.floor + 31, "text-anchor": "middle" }, clock(t, to - from))]));
  }

  // A strip below the plot: phases, with ticks where generations end.
  phases(from, to) {
    const { run } = this.app;
    const { bands, generations } = run.data.growth;
    const order = [...new Set(bands.map((band) => band[2]))];
    const clip = (t) => Math.min(this.width - MARGIN.right, Math.max(MARGIN.left, this.x(t)));
    const group = s("g", { class: "phases" });
    for (const [begin, end, name] of bands) {
      if (end < from || begin > to) continue;
      const x = clip(begin), w = clip(end) - x;
      group.append(s("rect", { class: "p" + (order.indexOf(name) % 6), x, y: this.floor + 1, width: Math.max(0.5, w - 0.5), height: 12 },
        s("title", {}, run.names[name])));
      if (w > 7 * run.names[name].length + 4) group.append(s("text", { x: x + w / 2, y: this.floor + 10.5, "text-anchor": "middle" }, run.names[name]));
    }
    const visible = generations.filter((row) => row[1] >= from && row[1] <= to);
    const every = Math.ceil(visible.length / Math.max(1, this.width / 12));
    visible.forEach((row, at) => { if (at % every === 0) group.append(s("line", { class: "generation", x1: clip(row[1]), x2: clip(row[1]), y1: this.floor - 4, y2: this.floor + 14 })); });
    return group;
  }

  limitLine(limit) {
    const y = this.y(limit.bytes);
    return s("g", { class: "limit" }, s("line", { x1: MARGIN.left, x2: this.width - MARGIN.right, y1: y, y2: y }),
      s("text", { x: MARGIN.left + 6, y: y - 5 }, "limit " + bytes(limit.bytes) + " (" + limit.source + ")"));
  }

  peak(from, to) {
    const { run, state } = this.app;
    const peak = run.data.peak;
    if (state.view !== TREE || state.off.size || !peak.bytes || peak.t < from || peak.t > to) return null;
    const x = this.x(peak.t), y = this.y(peak.bytes), left = x > MARGIN.left + 120;
    return s("g", { class: "peak" }, s("path", { d: `M${x - 5} ${y - 9}L${x + 5} ${y - 9}L${x} ${y - 1}Z` }),
      s("text", { x: x + (left ? -9 : 9), y: y - 4, "text-anchor": left ? "end" : "start" }, "peak " + bytes(peak.bytes)));
  }

  lookMarks(from, to) {
    const { run, state } = this.app;
    const looks = run.looksOf(state.view).filter((look) => look.t >= from && look.t <= to);
    const every = Math.ceil(looks.length / Math.max(1, this.width / 9));
    return s("g", { class: "looks" }, looks.filter((look, at) => at % every === 0).map((look) =>
      s("circle", { cx: this.x(look.t), cy: this.floor - 3, r: 3, onclick: (event) => { event.stopPropagation(); this.app.pin("a", look.t); } },
        s("title", {}, "looked inside at " + seconds(look.t) + (look.label ? ": " + look.label : "")))));
  }

  drawCursor() {
    if (!this.cursor) return;
    const { state } = this.app;
    const mark = (t, kind, name) => t === null ? null : [
      s("line", { class: kind, x1: this.x(t), x2: this.x(t), y1: MARGIN.top, y2: this.floor }),
      name ? s("text", { class: kind, x: this.x(t) + 3, y: MARGIN.top + 9 }, name) : null];
    const drag = this.drag && this.drag.to !== null
      ? s("rect", { class: "drag", x: Math.min(this.drag.from, this.drag.to), y: MARGIN.top, width: Math.abs(this.drag.to - this.drag.from), height: this.floor - MARGIN.top }) : null;
    fill((this.cursor.replaceChildren(), this.cursor), {}, [mark(state.a, "pin", "A"), mark(state.b, "pin", "B"), mark(state.hover, "now", ""), drag]);
  }

  // ---- pointer and keys ----
  at(event) {
    const box = this.svg.getBoundingClientRect();
    return ((event.clientX - box.left) / Math.max(1, box.width)) * this.width;
  }

  snapped(x) {
    const point = this.app.run.nearest(this.app.state.view, this.t(x));
    return point ? point.t : null;
  }

  moved(event) {
    const x = this.at(event);
    if (this.drag && event.pointerType !== "touch") {
      this.drag.to = Math.abs(x - this.drag.from) > 4 ? x : null;
      this.drawCursor();
    }
    this.app.hover(this.snapped(x));
  }

  pressed(event) {
    if (event.button !== 0 || event.target.closest(".looks")) return;
    this.drag = { from: this.at(event), to: null, shift: event.shiftKey };
    if (event.pointerType !== "touch") this.svg.setPointerCapture(event.pointerId);
  }

  released() {
    const drag = this.drag;
    this.drag = null;
    if (!drag) return;
    if (drag.to === null) return this.app.pin(drag.shift ? "b" : "a", this.snapped(drag.from));
    const [from, to] = [this.t(Math.min(drag.from, drag.to)), this.t(Math.max(drag.from, drag.to))];
    if (to > from) this.app.zoom([Math.max(0, from), to]);
  }

  key(event) {
    const { run, state } = this.app;
    const points = run.points(state.view);
    if (!points.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const [from, to] = this.domain();
    const now = state.hover ?? state.a ?? points[points.length - 1].t;
    const index = points.findIndex((point) => point.t >= now - 1e-9);
    const step = event.shiftKey ? 10 : 1;
    const middle = (factor) => { const half = ((to - from) * factor) / 2; return [Math.max(0, now - half), now + half]; };
    const moves = { ArrowLeft: index - step, ArrowRight: index + step, Home: 0, End: points.length - 1 };
    if (event.key in moves) this.app.hover(points[Math.max(0, Math.min(points.length - 1, moves[event.key]))].t);
    else if (event.key === "Enter") this.app.pin("a", now);
    else if (event.key === "b" || event.key === "B") this.app.pin("b", now);
    else if (event.key === "+" || event.key === "=") this.app.zoom(middle(0.5));
    else if (event.key === "-") this.app.zoom(to - from > run.data.seconds / 2 ? null : middle(2));
    else if (event.key === "0" || event.key === "Escape") this.app.zoom(null);
    else return;
    event.preventDefault();
  }
}
