// The verdict: a sentence, the line, who holds it, and the numbers behind it.
const VERDICTS = {
  leak: ["Leak", "▲"], healthy: ["No leak", "●"], undecided: ["Undecided", "◆"], none: ["No verdict", "◆"] };
const MAX_EVIDENCE = 4, WORTH_GROWTH = 1 << 20;

function verdictSection(app) {
  const { run } = app;
  const data = run.data, verdict = data.verdict, leak = run.leak;
  const kind = verdict ? verdict.verdict : "none";
  const [word, mark] = VERDICTS[kind] || VERDICTS.none;
  const reason = verdict ? verdict.reason.replace(/^(not a )?leak: /, "") : "the recording could not be judged";
  const finding = leak ? verdict.findings.find((one) => one.kind === "leak") : null;
  const more = new Set(data.leaks.map((one) => one.sentence)).size - 1;
  return h("section", { class: "verdict " + kind, id: "verdict" },
    h("div", { class: "verdict-words" },
      app.runs.length > 1 ? h("p", { class: "legend-line" }, "the run " + RUN_NAMES[app.state.run] + ", ", h("span", { class: "path" }, data.recording)) : null,
      data.died ? h("p", { class: "killed" }, "The run " + data.ended + ".") : null,
      h("h1", {}, h("span", { class: "mark", "aria-hidden": "true" }, mark), " " + word),
      data.kill && data.kill.pid ? h("p", {}, "Process " + data.kill.pid + " held " + bytes(data.kill.bytes) + " when it was last seen.") : null,
      h("p", { class: "reason" }, leak ? leak.sentence : reason),
      leak ? leakNumbers(app, leak, finding) : null,
      leak && leak.line ? sourceLine(leak.line) : null,
      finding ? (finding.known || []).map(knownLine) : null,
      more > 0 ? h("p", { class: "dim" }, "and " + more + " more, under Findings") : null,
      h("p", { class: "command" }, h("code", {}, data.command || data.recording)),
      h("p", { class: "dim iteration-words" }, data.iteration),
      leak && leak.chain.length ? holderChain(leak) : null),
    h("div", {}, h("dl", { class: "facts" }, facts(app).map(([name, value, note]) => h("div", {}, h("dt", {}, name), h("dd", {}, value, note ? h("small", {}, note) : null)))),
      leak ? evidence(app) : null));
}

// A leak of a library's release: the link is the only one of the page that leads elsewhere.
function knownLine(leak) {
  const link = leak.link.startsWith("https://") ? h("a", { href: leak.link, rel: "noopener noreferrer" }, leak.link) : leak.link;
  return h("p", { class: "known" }, h("b", {}, "Known "), leak.text + ": ", link);
}

function leakNumbers(app, leak, finding) {
  const [low, high] = finding.interval_bytes;
  const range = bytes(low) === bytes(high) ? "" : " (" + bytes(low) + " to " + bytes(high) + ")";
  return h("p", {}, "Growing ", toChart(app, leak.account, bytes(finding.bytes_per_generation) + " " + per(finding.per)), range
    + (leak.onset ? ", since iteration " + leak.onset.generation : "") + (finding.phase ? ", in " + finding.phase : "") + ".");
}

// A number that leads to its account in the chart.
function toChart(app, account, ...content) {
  if (!account || !app.run.bandName(TREE, account)) return h("b", {}, content);
  return h("button", { type: "button", class: "link to-chart", "data-account": account, title: "show " + account + " in the chart", onclick: () => app.choose(account) }, content);
}

function sourceLine({ place, function: name, text, what }) {
  return h("p", { class: "source" }, h("b", { class: "path" }, place), h("small", {}, (name ? " in " + name : "") + ", " + what), text ? h("code", {}, text) : null);
}

// From what lives longest, down to what is kept; the reference that keeps it is marked.
function holderChain({ chain, length, length_rate: rate }) {
  const elements = length === null ? "" : count(length) + " elements" + (rate ? ", " + (rate > 0 ? "+" : "") + count(Number(rate.toPrecision(3))) + " an iteration" : "");
  return h("div", { class: "holders" }, h("h3", {}, "Who holds it"), h("ol", {}, chain.map((step, at) =>
    h("li", { class: step.leaks ? "leaking" : "" }, h("span", { class: "path" }, (at && step.name.match(/^[\w$]+$/) ? "." : "") + step.name),
      [step.note, step.leaks ? elements : "", step.leaks ? "this reference keeps it" : ""].filter(Boolean).map((note) => h("small", {}, note))))));
}

function evidence(app) {
  const { run } = app, { verdict } = run.data, total = verdict.growth_total;
  if (!total) return null;
  const sum = (rows) => rows.flatMap((one) => one.growth).reduce((all, line) => all + line.growth_bytes, 0);
  const [shared, processes] = [verdict.outside.filter((one) => one.pid === null), verdict.outside.filter((one) => one.pid !== null)];
  const outside = (rows, account, name) => rows.length && sum(rows) >= WORTH_GROWTH ? [h("li", {}, h("span", { class: "swatch " + (account ? run.color(TREE, account) : "") }), toChart(app, account, delta(sum(rows))),
    h("span", { class: "evidence-name" }, h("span", { class: "path" }, name)), h("small", {}, "outside of the training process"))] : [];
  const beside = [...outside(processes, WORKERS, processes.length === 1 ? "process " + processes[0].pid : processes.length + " other processes"), ...outside(shared, "", "/dev/shm")];
  const grown = verdict.growth.filter((line) => line.account === run.culprit || line.growth_bytes >= WORTH_GROWTH)
    .sort((a, b) => (b.account === run.culprit) - (a.account === run.culprit) || b.growth_bytes - a.growth_bytes).slice(0, MAX_EVIDENCE);
  if (!grown.length && !beside.length) return null;
  const [from, to] = verdict.growth_span || [0, 0];
  const stretch = total.per === "minute" ? seconds(from) + " to " + seconds(to) : "iteration " + Math.round(from) + " to " + Math.round(to);
  const rows = grown.map((line) => h("li", {}, h("span", { class: "swatch " + run.color(TREE, line.account) }), toChart(app, line.account, delta(line.growth_bytes)),
    h("span", { class: "evidence-name" }, named(run, line.account)), h("small", {}, Math.round(100 * line.share) + "% of the growth" + (line.shape ? ", " + line.shape : ""))));
  return h("div", { class: "numbers" }, h("h3", {}, "What grew, " + stretch + ": " + delta(total.growth_bytes) + (beside.length ? " in the training process" : "")), h("ul", {}, !grown.some((line) => line.account === run.culprit) ? [beside, rows] : [rows, beside]),
    h("p", { class: "legend-line" }, "A number leads to its account in the chart."));
}

function facts(app) {
  const { run } = app, data = run.data, rows = [];
  const where = [data.peak.generation === null ? "" : "iteration " + data.peak.generation, data.peak.phase].filter(Boolean).join(", ");
  rows.push(["Peak", h("button", { type: "button", class: "link", title: "show it in the chart", onclick: () => app.goTo(data.peak.t) }, bytes(data.peak.bytes)), where || "at " + seconds(data.peak.t)]);
  if (data.limit) rows.push(["Limit", bytes(data.limit.bytes), Math.round((100 * data.peak.bytes) / Math.max(1, data.limit.bytes)) + "% used at the peak, " + data.limit.source]);
  if (data.outlook) rows.push(outlookFact(data));
  const forecast = data.verdict && data.verdict.forecast;
  if (forecast && (forecast.generation !== null || !run.leak)) rows.push(forecastFact(forecast));
  if (data.plan) rows.push(["Plan", bytes(data.plan.peak_bytes), data.plan.grade]);
  const counted = iterationsOf(run);
  rows.push([data.is_over ? "Ran" : "Running", seconds(data.seconds), [counted, data.died ? "" : data.ended.replace(/^ended after [^w]*/, "").trim()].filter(Boolean).join(", ")]);
  return rows;
}

function iterationsOf(run) {
  const ticks = run.data.growth.generations;
  return ticks.length ? iterations(ticks[0][0], ticks[ticks.length - 1][0]) : "";
}

// The forecast of the verdict: at the planned end, or once all that fills is full. A leak without an end has neither.
function forecastFact({ generation, peak_bytes: peak, interval_bytes: [low, high], fits }) {
  const range = low === null || high === null || bytes(low) === bytes(high) ? "" : bytes(low) + " to " + bytes(high);
  const when = generation === null ? "once all that fills is full" : "at iteration " + count(generation) + ", the planned end";
  return ["Forecast", bytes(peak), [when, range, fits === null ? "" : fits ? "it fits" : "it does not fit"].filter(Boolean).join("; ")];
}

function outlookFact(data) {
  const { seconds_left: left, low_seconds: low, high_seconds: high, reason } = data.outlook;
  const name = data.is_over ? "Would reach the limit" : "Reaches the limit";
  if (left === 0) return [name, "now", ""];
  if (left === null) return [name, data.is_over ? "no" : "not in sight", reason];
  const range = low !== null && high !== null && about(low) === about(high) ? "" : low !== null && high !== null ? about(low) + " to " + about(high) : low !== null ? "at least " + about(low) : "";
  return [name, "in about " + about(left), [range, reason].filter(Boolean).join("; ")];
}
