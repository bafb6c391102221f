// The findings with their evidence, and the plan.
function findingsSection(app) {
  const { run } = app;
  const verdict = run.data.verdict;
  const found = verdict ? verdict.findings : [];
  const items = found.map((finding) => h("details", { open: finding.kind === "leak" ? true : null },
    h("summary", {}, h("span", { class: "kind " + (finding.kind === "leak" ? "leak" : "") }, finding.kind), " " + finding.summary.replace(/^(not a )?leak: /, "")),
    h("dl", { class: "evidence" }, findingFacts(finding).map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", {}, text)))),
    finding.evidence.length ? h("ul", {}, finding.evidence.map((line) => h("li", {}, line))) : null,
    finding.advice ? h("p", { class: "fix" }, h("b", {}, "What to do "), finding.advice) : null));
  const notes = [...run.data.notes, ...(verdict ? verdict.notes : [])];
  return section("findings", "Findings and evidence", items.length ? items : h("p", { class: "dim" }, "nothing was found"),
    planTable(run), notes.length ? [h("h3", {}, "Notes"), h("ul", {}, [...new Set(notes)].map((note) => h("li", {}, note)))] : null);
}

function findingFacts(finding) {
  const [low, high] = finding.interval_bytes;
  return [
    ["rate", finding.bytes_per_generation ? bytes(finding.bytes_per_generation) + " " + per(finding.per) + (low || high ? " (" + bytes(low) + " to " + bytes(high) + ")" : "") : ""],
    ["phase", finding.phase], ["cause", finding.cause], ["type", finding.culprit.type], ["held by", finding.culprit.path],
    ["since", finding.onset_generation === null ? "" : "iteration " + finding.onset_generation],
    ["confidence", finding.confidence ? Math.round(finding.confidence * 100) + "%" : ""]].filter((row) => row[1]);
}

function planTable(run) {
  const plan = run.data.plan;
  if (!plan) return null;
  const rows = plan.rows.map((row) => [h("span", { class: "path" }, row.account), bytes(row.planned), row.measured === null ? "not seen" : bytes(row.measured),
    row.measured === null ? "" : delta(row.measured - row.planned), row.formula]);
  return [h("h3", {}, "The plan and what was measured"), h("p", {}, plan.grade), table(["account", "planned", "measured", "difference", "formula"], rows)];
}
