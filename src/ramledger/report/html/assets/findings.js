// The verdict in words, the facts beside it, the findings with their evidence, advice and plan.
const VERDICTS = {
  leak: ["Leak", "▲"], healthy: ["No leak", "●"], undecided: ["Undecided", "◆"], none: ["No verdict", "◆"] };

function verdictSection(app) {
  const { run } = app;
  const data = run.data, verdict = data.verdict;
  const kind = verdict ? verdict.verdict : "none";
  const [word, mark] = VERDICTS[kind] || VERDICTS.none;
  const reason = verdict ? verdict.reason.replace(/^(not a )?leak: /, "") : "the recording could not be judged";
  const first = verdict && verdict.findings.find((finding) => finding.advice && (kind !== "leak" || finding.kind === "leak"));
  return h("section", { class: "verdict " + kind, id: "verdict" },
    h("div", { class: "verdict-words" },
      data.died ? h("p", { class: "killed" }, "The run " + data.ended + ".") : null,
      h("h1", {}, h("span", { class: "mark", "aria-hidden": "true" }, mark), " " + word),
      data.kill && data.kill.pid ? h("p", {}, "Process " + data.kill.pid + " held " + bytes(data.kill.bytes) + " when it was last seen.") : null,
      h("p", { class: "reason" }, reason),
      first ? h("p", { class: "fix" }, h("b", {}, "What to do "), first.advice) : null,
      h("p", { class: "command" }, h("code", {}, data.command || data.recording))),
    h("dl", { class: "facts" }, facts(run).map(([name, value, note]) => h("div", {}, h("dt", {}, name), h("dd", {}, value, note ? h("small", {}, note) : null)))));
}

function facts(run) {
  const data = run.data, rows = [];
  const where = [data.peak.generation === null ? "" : "generation " + data.peak.generation, data.peak.phase].filter(Boolean).join(", ");
  rows.push(["Peak", bytes(data.peak.bytes), where || "at " + seconds(data.peak.t)]);
  if (data.limit) rows.push(["Limit", bytes(data.limit.bytes), Math.round((100 * data.peak.bytes) / Math.max(1, data.limit.bytes)) + "% used at the peak, " + data.limit.source]);
  const leak = data.verdict && data.verdict.findings.find((finding) => finding.kind === "leak");
  if (leak) rows.push(["Growth", delta(leak.bytes_per_generation), "a " + leak.per + (leak.onset_generation === null ? "" : ", since generation " + leak.onset_generation)]);
  if (data.outlook) rows.push(outlookFact(data));
  const forecast = data.verdict && data.verdict.forecast;
  if (forecast && (forecast.generation !== null || !leak)) rows.push(forecastFact(forecast));
  if (data.plan) rows.push(["Plan", bytes(data.plan.peak_bytes), data.plan.grade]);
  rows.push([data.is_over ? "Ended" : "Running", seconds(data.seconds), (data.died ? "" : data.ended.replace(/^ended after [^w]*/, "").trim()) || (data.verdict && data.verdict.generations ? data.verdict.generations + " generations" : "")]);
  return rows;
}

// The forecast of the verdict: at the planned end, or once all that fills is full. A leak without an end has neither.
function forecastFact({ generation, peak_bytes: peak, interval_bytes: [low, high], fits }) {
  const range = low === null || high === null || bytes(low) === bytes(high) ? "" : bytes(low) + " to " + bytes(high);
  const when = generation === null ? "once all that fills is full" : "at generation " + count(generation) + ", the planned end";
  return ["Forecast", bytes(peak), [when, range, fits === null ? "" : fits ? "it fits" : "it does not fit"].filter(Boolean).join("; ")];
}

function outlookFact(data) {
  const { seconds_left: left, low_seconds: low, high_seconds: high, reason } = data.outlook;
  const name = data.is_over ? "Had it gone on" : "Time left";
  if (left === 0) return [name, "the limit is reached", ""];
  if (left === null) return [name, data.is_over ? "below the limit" : "not in sight", reason];
  const range = low !== null && high !== null && seconds(low) === seconds(high) ? "" : low !== null && high !== null ? seconds(low) + " to " + seconds(high) : low !== null ? "at least " + seconds(low) : "";
  return [name, seconds(left) + " to the limit", [range, reason].filter(Boolean).join("; ")];
}

function findingsSection(app) {
  const { run } = app;
  const verdict = run.data.verdict;
  const found = verdict ? verdict.findings : [];
  const items = found.map((finding) => h("details", { open: finding.kind === "leak" ? true : null },
    h("summary", {}, h("span", { class: "kind " + (finding.kind === "leak" ? "leak" : "") }, finding.kind), " " + finding.summary.replace(/^(not a )?leak: /, "")),
    h("dl", { class: "evidence" }, findingFacts(finding).map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", {}, text)))),
    finding.evidence.length ? h("ul", {}, finding.evidence.map((line) => h("li", {}, line))) : null,
    finding.advice ? h("p", { class: "fix" }, h("b", {}, "What to do "), finding.advice) : null));
  const advice = run.data.advice.map((item) => h("details", {}, h("summary", {}, h("span", { class: "kind" }, "saves " + (item.at_most ? "up to " : "") + bytes(item.saves_bytes)), " " + item.title),
    h("p", {}, item.why), h("ul", {}, item.do.map((step) => h("li", {}, step)))));
  const notes = [...run.data.notes, ...(verdict ? verdict.notes : [])];
  return section("findings", "Findings and evidence", items.length ? items : h("p", { class: "dim" }, "nothing was found that is worth a word"),
    advice.length ? [h("h3", {}, "What would save memory at the peak"), advice] : null,
    planTable(run), notes.length ? [h("h3", {}, "Notes"), h("ul", {}, [...new Set(notes)].map((note) => h("li", {}, note)))] : null);
}

function findingFacts(finding) {
  const [low, high] = finding.interval_bytes;
  return [
    ["rate", finding.bytes_per_generation ? bytes(finding.bytes_per_generation) + (low || high ? " (" + bytes(low) + " to " + bytes(high) + ")" : "") : ""],
    ["phase", finding.phase], ["cause", finding.cause], ["type", finding.culprit.type], ["held by", finding.culprit.path],
    ["since", finding.onset_generation === null ? "" : "generation " + finding.onset_generation],
    ["confidence", finding.confidence ? Math.round(finding.confidence * 100) + "%" : ""]].filter((row) => row[1]);
}

function planTable(run) {
  const plan = run.data.plan;
  if (!plan) return null;
  const rows = plan.rows.map((row) => [h("span", { class: "path" }, row.account), bytes(row.planned), row.measured === null ? "not seen" : bytes(row.measured),
    row.measured === null ? "" : delta(row.measured - row.planned), row.formula]);
  return [h("h3", {}, "The plan and what was measured"), h("p", {}, plan.grade), table(["account", "planned", "measured", "difference", "formula"], rows)];
}

// Two runs side by side, as `diagnose --compare` has it: did the fix work?
function compareSection(app) {
  if (app.runs.length < 2) return null;
  const [a, b] = app.runs;
  const found = b.data.comparison;
  const leak = (run) => run.data.verdict && run.data.verdict.findings.find((finding) => finding.kind === "leak");
  const speed = (rate) => rate.bytes_per_generation ? [h("b", {}, bytes(rate.bytes_per_generation) + " a " + rate.per), intervalText(rate.interval_bytes)] : "none";
  const rows = [
    ["verdict", (run) => VERDICTS[run.data.verdict ? run.data.verdict.verdict : "none"][0]],
    ["growth", (run) => speed(run === a ? found.before_rate : found.after_rate)],
    ["peak", (run) => bytes(run.data.peak.bytes)],
    ["cause", (run) => (leak(run) ? leak(run).cause : "")],
    ["held by", (run) => (leak(run) ? leak(run).culprit.path || leak(run).culprit.type : "")],
    ["duration", (run) => seconds(run.data.seconds)],
    ["generations", (run) => (run.data.verdict ? run.data.verdict.generations : "")]].map(([name, of]) => [name, of(a), of(b)]);
  const owners = found.owners.map((row) => [h("span", { class: "path" }, row.account), bytes(row.before_bytes), bytes(row.after_bytes), h("b", {}, delta(row.after_bytes - row.before_bytes)), speed(row.before_rate), speed(row.after_rate)]);
  return section("compare", "A and B", h("p", { class: "reason" }, h("b", { class: "change" }, found.change), ": " + found.sentence),
    table(["", "A " + a.data.recording, "B " + b.data.recording], rows),
    owners.length ? table(["owner", "A ends at", "B ends at", "B − A", "growth in A", "growth in B"], owners) : h("p", { class: "dim" }, "no owner differs by much"));
}
