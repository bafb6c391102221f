// A run: its series, its looks, and the statement at any instant. Rows always sum to RSS.
const TREE = "tree";
const BETWEEN = "between looks";
const WORKERS = "other processes";
const OTHERS = "other accounts";
const UNEXPLAINED = "unexplained";
const MAX_BANDS = 10;

class Run {
  constructor(data) {
    this.data = data;
    this.names = data.names;
    this.looks = new Map();
    for (const look of data.looks) {
      if (!this.looks.has(look.pid)) this.looks.set(look.pid, []);
      this.looks.get(look.pid).push(this.read(look));
    }
    this.series = data.series;
    this.main = data.main_pid;
    this.cache = new Map();
  }

  read(look) {
    const name = (number) => this.names[number];
    const rows = look.accounts.map(([n, resident, reserved, filled, objects, source, note]) => ({
      name: name(n), resident, reserved, fill: filled, objects, source: name(source), note: name(note) }));
    rows.push({ name: UNEXPLAINED, resident: look.unexplained, reserved: 0, fill: null, note: "" });
    return {
      ...look, rows,
      objects: look.objects.map(([path, type, dtype, shape, resident, reserved, filled, account]) => ({
        path: name(path), type: name(type), dtype: name(dtype), shape: name(shape), resident, reserved,
        fill: filled, account: name(account) })),
      user: new Set(look.user.map(name)),
      counts: new Map(look.counts.map(([n, c]) => [name(n), c])),
      ranks: new Map(look.counts.map(([n, , rank]) => [name(n), rank])),
      types: look.types.map(([n, c, size]) => ({ name: name(n), count: c, bytes: size })),
      containers: look.containers.map(([path, type, length, of, size]) => ({
        path: name(path), type: name(type), length, of: name(of), bytes: size })),
      totals: totals(rows),
    };
  }

  get pids() { return Object.keys(this.series.processes).map(Number); }
  looksOf(view) { return this.looks.get(view === TREE ? this.main : view) || []; }
  get mainLooks() { return this.looksOf(TREE); }

  // {t, rss, own}: of a tree, `own` is the process that trains.
  points(view) {
    const key = "points" + view;
    if (this.cache.has(key)) return this.cache.get(key);
    const { t, level, main, step, processes } = this.series;
    let points;
    if (view === TREE) {
      points = t.map((at, i) => ({ t: at, rss: level[i], own: Math.min(main[i], level[i]), i }));
    } else {
      const column = processes[view] || { from: 0, bytes: [] };
      points = column.bytes.map((rss, k) => ({ t: t[(column.from + k) * step], rss, own: rss }))
        .filter((point) => point.t !== undefined);
    }
    this.cache.set(key, points);
    return points;
  }

  nearest(view, t) {
    const points = this.points(view);
    let low = 0, high = points.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (points[middle].t < t) low = middle; else high = middle;
    }
    if (!points.length) return null;
    return t - points[low].t <= points[high].t - t ? points[low] : points[high];
  }

  // The looks around an instant, and how far between them it is.
  around(view, t) {
    const looks = this.looksOf(view);
    const after = looks.findIndex((look) => look.t >= t);
    if (!looks.length) return null;
    if (after === 0) return { before: null, after: looks[0], part: 1 };
    if (after < 0) return { before: looks[looks.length - 1], after: null, part: 0 };
    const before = looks[after - 1];
    return { before, after: looks[after], part: (t - before.t) / Math.max(1e-9, looks[after].t - before.t) };
  }

  // Accounts at a point: between two looks a straight line, never more than was measured.
  accountsAt(view, point) {
    const around = this.around(view, point.t);
    const sums = new Map();
    if (around && around.before) {
      const { before, after, part } = around;
      const names = new Set([...before.totals.keys(), ...(after ? after.totals.keys() : [])]);
      for (const name of names) {
        const from = before.totals.get(name) || 0;
        const to = after ? after.totals.get(name) || 0 : from;
        sums.set(name, from + (to - from) * part);
      }
    }
    let total = 0;
    for (const size of sums.values()) total += size;
    const factor = total > point.own && total > 0 ? point.own / total : 1;
    let booked = 0;
    for (const [name, size] of sums) {
      const whole = Math.floor(size * factor);
      sums.set(name, whole);
      booked += whole;
    }
    if (point.own > booked) sums.set(BETWEEN, point.own - booked);
    if (point.rss > point.own) sums.set(WORKERS, point.rss - point.own);
    return sums;
  }

  statementAt(view, t) {
    const looks = this.looksOf(view);
    const exact = looks.find((look) => Math.abs(look.t - t) < 1e-6);
    const point = this.nearest(view, t);
    if (exact) {
      const rows = exact.rows.filter((row) => row.resident || row.reserved);
      const others = view === TREE && point ? point.rss - point.own : 0;
      if (others > 0) rows.push({ name: WORKERS, resident: others, reserved: 0, fill: null, note: "" });
      return { t: exact.t, rss: exact.rss + Math.max(0, others), rows: sorted(rows), look: exact, exact: true };
    }
    if (!point) return { t, rss: 0, rows: [], look: null, exact: false };
    const around = this.around(view, point.t);
    const nearest = !around ? null : !around.before ? around.after : !around.after ? around.before
      : around.part < 0.5 ? around.before : around.after;
    const known = new Map(nearest ? nearest.rows.map((row) => [row.name, row]) : []);
    const rows = [...this.accountsAt(view, point)].filter(([, size]) => size > 0).map(([name, resident]) => {
      const row = known.get(name) || {};
      return { name, resident, reserved: row.reserved || 0, fill: row.fill ?? null, note: row.note || "" };
    });
    return { t: point.t, rss: point.rss, rows: sorted(rows), look: nearest, exact: false, around };
  }

  placeAt(t) {
    const generation = this.data.growth.generations.find((row) => row[1] >= t);
    const band = this.data.growth.bands.find((row) => row[0] <= t && t <= row[1]);
    return [generation ? "generation " + generation[0] : "", band ? this.names[band[2]] : ""].filter(Boolean).join(", ");
  }

  // What is drawn: accounts that grow or are large by themselves, the others by family.
  bands(view) {
    const key = "bands" + view;
    if (this.cache.has(key)) return this.cache.get(key);
    const looks = this.looksOf(view);
    const peak = Math.max(1, ...looks.map((look) => look.rss));
    const most = new Map(), grown = new Map();
    for (const look of looks) {
      for (const [name, size] of look.totals) {
        most.set(name, Math.max(most.get(name) || 0, size));
        grown.set(name, size - (looks[0].totals.get(name) || 0));
      }
    }
    const score = (name) => most.get(name) + 3 * Math.abs(grown.get(name) || 0);
    const alone = [...most.keys()].filter((name) => name !== UNEXPLAINED && name !== OTHERS
      && (most.get(name) > 0.06 * peak || Math.abs(grown.get(name)) > 0.02 * peak))
      .sort((a, b) => score(b) - score(a)).slice(0, MAX_BANDS - 3);
    const family = (name) => name.split("/")[0] + (name.includes("/") ? "/…" : "");
    const sums = new Map();
    for (const name of most.keys()) {
      if (!alone.includes(name) && name !== UNEXPLAINED) sums.set(family(name), (sums.get(family(name)) || 0) + most.get(name));
    }
    const families = [...sums.keys()].filter((name) => sums.get(name) > 0.04 * peak)
      .sort((a, b) => sums.get(b) - sums.get(a)).slice(0, MAX_BANDS - alone.length);
    alone.sort((a, b) => (grown.get(a) || 0) - (grown.get(b) || 0));
    const order = [...new Set([...families, OTHERS, ...alone, UNEXPLAINED, BETWEEN, WORKERS])];
    const bandOf = (name) => name === UNEXPLAINED || name === BETWEEN || name === WORKERS || alone.includes(name) ? name
      : families.includes(family(name)) ? family(name) : OTHERS;
    const values = new Map(order.map((name) => [name, []]));
    const points = this.points(view);
    for (const point of points) {
      for (const name of order) values.get(name).push(0);
      for (const [name, size] of this.accountsAt(view, point)) {
        const column = values.get(bandOf(name));
        column[column.length - 1] += size;
      }
    }
    const colors = colorsOf(order.filter((name) => values.get(name).some(Boolean)));
    const found = order.filter((name) => colors.has(name))
      .map((name) => ({ name, color: colors.get(name), values: values.get(name) }));
    this.cache.set(key, found);
    return found;
  }

  // A stretch in full detail takes the place of the coarse points within it.
  refine(detail) {
    const { t } = this.series;
    if (!detail.t.length || this.series.step !== 1 || detail.step !== 1) return;
    const [from, to] = [detail.t[0], detail.t[detail.t.length - 1]];
    const first = t.findIndex((at) => at >= from), last = t.findLastIndex((at) => at <= to);
    const cut = (whole, part) => first < 0 ? whole : [...whole.slice(0, first), ...part, ...whole.slice(last + 1)];
    const column = (series, pid) => {
      const found = series.processes[pid] || { from: 0, bytes: [] };
      return series.t.map((_, i) => found.bytes[i - found.from]);
    };
    const processes = {};
    for (const pid of this.pids) {
      const all = cut(column(this.series, pid), column(detail, pid));
      const start = all.findIndex((size) => size !== undefined), end = all.findLastIndex((size) => size !== undefined);
      processes[pid] = { from: Math.max(0, start), bytes: start < 0 ? [] : all.slice(start, end + 1).map((size) => size || 0) };
    }
    const series = { ...this.series, processes };
    for (const name of ["level", "low", "high", "main", "t"]) series[name] = cut(this.series[name], detail[name]);
    this.series = series;
    this.cache.clear();
  }

  bandName(view, account) {
    const names = this.bands(view).map((band) => band.name);
    const family = account.split("/")[0] + "/…";
    return names.includes(account) ? account : names.includes(family) ? family : OTHERS;
  }
}

const sorted = (rows) => [...rows].sort((a, b) => b.resident - a.resident || (a.name < b.name ? -1 : 1));

function totals(rows) {
  const found = new Map();
  for (const row of rows) found.set(row.name, (found.get(row.name) || 0) + row.resident);
  return found;
}

// Classes of CSS: the palette is Okabe and Ito's, in another shade for dark pages.
function colorsOf(names) {
  const grey = { [OTHERS]: "c-other", [UNEXPLAINED]: "c-unexplained", [BETWEEN]: "c-between", [WORKERS]: "c-workers" };
  let next = 0;
  return new Map(names.map((name) => [name, grey[name] || "c" + (next++ % 10)]));
}

const KNOWN_RANK = 2; // TypeRank.ROLE

// What grew between two looks: accounts, classes, containers.
function growthBetween(before, after, least) {
  const change = (from, to, also = () => false) => [...new Set([...from.keys(), ...to.keys()])]
    .map((name) => ({ name, before: from.get(name) || 0, after: to.get(name) || 0 }))
    .map((row) => ({ ...row, grown: row.after - row.before })).filter((row) => row.grown || also(row.name))
    .sort((a, b) => Math.abs(b.grown) - Math.abs(a.grown));
  const lengths = (look) => new Map(look.containers.map((c) => [c.path, c.length]));
  // of the user's classes and known roles it matters, too, that their number stays
  const classes = change(before.counts, after.counts, (name) => after.ranks.get(name) <= KNOWN_RANK)
    // both lists hold the most numerous only: a class of nobody's that is missing is unknown, not zero
    .filter((row) => (after.user.has(row.name) || before.counts.has(row.name)) && after.counts.has(row.name));
  return {
    accounts: change(before.totals, after.totals).filter((row) => Math.abs(row.grown) >= (least || 0)),
    classes: classes.sort((a, b) => after.ranks.get(a.name) - after.ranks.get(b.name) || Math.abs(b.grown) / Math.max(1, b.before) - Math.abs(a.grown) / Math.max(1, a.before)),
    containers: change(lengths(before), lengths(after)),
  };
}
