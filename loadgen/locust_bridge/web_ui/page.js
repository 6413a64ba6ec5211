// Draws what ./result says; asks again every second while it is seen.
const EVERY_MS = 1000;
const COLUMNS = ["mean", "p50", "p90", "p95", "p99", "p99.9", "max"];
const framed = window.parent !== window;
let drawn = "";

/** An element with children; strings are text, never markup. */
function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** Three significant digits, more where the number is large; a dash where there is none. */
function figure(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  if (size < 0.0005) return value.toPrecision(2);
  const digits = size < 1 ? 3 : size < 100 ? 2 : size < 1000 ? 1 : 0;
  const text = value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return text.replace(/\.0+$/, "");
}

/** An error of 6e-07 is one more than 5e-07, so it is not rounded to three places. */
const tiny = (value) => (value === 0 ? "0" : value.toPrecision(2));
const percent = (share, digits = 1) => (share === null ? "–" : `${(100 * share).toFixed(digits)} %`);
const label = (key) => key.replaceAll("_", " ");

function table(heads, rows) {
  const cell = (name, content, place) => {
    const made = element(name, heads[place].number ? "number" : "");
    made.append(...[content].flat().filter((part) => part !== null));
    return made;
  };
  const head = element("tr", "", ...heads.map((column, place) => cell("th", column.title, place)));
  const body = rows.map((row) => element("tr", "", ...row.map((content, place) => cell("td", content, place))));
  return element("div", "scroll", element("table", "", element("thead", "", head), element("tbody", "", ...body)));
}

function tile(name, value, unit, note) {
  const shown = element("div", "value", value, unit ? element("small", "", ` ${unit}`) : null);
  return element("div", "tile", element("div", "name", name), shown, element("div", "note", note || ""));
}

/** Two questions, two badges: is it measured well, and was the objective met. */
function answers({ valid, objective }) {
  const made = [element("span", `badge ${valid ? "good" : "bad"}`, valid ? "VALID" : "INVALID")];
  if (objective) made.push(" ", element("span", `badge ${objective === "met" ? "good" : "bad"}`, objective.toUpperCase()));
  return made;
}

function badge(state, result) {
  const verdict = result && result.verdict;
  if (state === "finished" && verdict) return element("span", "", ...answers(verdict));
  if (state === "failed") return element("span", "badge bad", "FAILED");
  const warm = result && result.figures;
  return element("span", "badge busy", state === "idle" ? "READY" : warm ? "RUNNING" : "STARTING");
}

function words({ state, error, result }) {
  if (state === "idle") return element("p", "dim", "No run yet. Start one, and its figures come here.");
  if (state === "failed") return element("p", "bad said", error);
  if (state === "running") {
    const { measured_s: passed, duration_s: whole } = result ? result.scenario : {};
    if (passed === undefined) return element("p", "dim", "Checks, requests and connections are being made.");
    if (passed === 0) return element("p", "dim", "Warm-up: these requests do not count.");
    return element("p", "dim", `${passed.toFixed(0)} of ${figure(whole)} s measured. The verdict comes at the end.`);
  }
  const { constraints, valid, objective } = result.verdict;
  const failed = constraints.filter(({ ok }) => !ok).map(({ name }) => label(name));
  let text = `All ${constraints.length} constraints hold: these figures may be quoted.`;
  if (!valid) text = `Not to be quoted: ${failed.join(", ")} ${failed.length === 1 ? "does" : "do"} not hold.`;
  if (objective) text += ` The objective is ${objective}.`;
  return element("p", valid ? "good" : "bad", text);
}

function heading(standing) {
  const { result, state, title } = standing;
  const parts = [element("header", "", element("h1", "", result ? result.workload : "servemark"), badge(state, result))];
  if (result) {
    const where = ["engine", "device", "precision", "protocol"].map((key) => result[key]).filter(Boolean).join(", ");
    parts.push(element("p", "", `on ${where}  |  ${title}, batch ${result.batch_size}`));
  }
  if (standing.answer) parts.push(element("p", "answer", standing.answer));
  parts.push(words(standing));
  if (state === "running" && result && result.scenario.measured_s) {
    const bar = element("progress", "");
    bar.max = result.scenario.duration_s;
    bar.value = Math.min(result.scenario.measured_s, bar.max);
    parts.push(bar);
  }
  return parts;
}

/** A figure's value, null where it is not known. */
const valueOf = (figures, tag) => (figures[tag] ? figures[tag].value : null);

function noteOf(figures, asked, batch) {
  const known = [[asked, "asked"], [valueOf(figures, "throughput.scheduled"), "scheduled"]].filter(([rate]) => rate);
  const parts = known.map(([rate, word]) => `${word} ${figure(rate)}/s`);
  return [...parts, ...(batch > 1 ? [`${figure(valueOf(figures, "throughput.inferences"))} inferences/s`] : [])].join(", ");
}

function tiles({ figures, details, bottleneck: limited, batch_size: batch, request }) {
  const asked = request && request.load.rate;
  const value = (tag) => valueOf(figures, tag);
  const tail = ["p99", "p95", "p90"].find((key) => value(`latency.${key}`) !== null) || "p50";
  const { ci95, reason } = figures[`latency.${tail}`];
  const interval = ci95 && `95 % interval ${ci95.map(figure).join(" to ")} ms`;
  const failed = `${figure(value("errors.count"))} failed (${percent(value("errors.share"))})`;
  const made = [
    tile("Throughput", figure(value("throughput.requests")), "requests/s", noteOf(figures, asked, batch)),
    tile(`Latency ${tail}`, figure(value(`latency.${tail}`)), "ms", interval || reason || "so far"),
    tile("Succeeded", figure(value("requests.answered")), "requests", failed),
  ];
  if (value("energy.per_inference") !== null) {
    const { boundary, source } = details.energy;
    made.push(tile("Energy", figure(value("energy.per_inference")), "J/inference", `${boundary}, ${source}`));
  }
  if (figures["outputs.checked"]) {
    const checked = value("outputs.checked");
    const worst = figures["outputs.max_abs_error"];
    const error = worst.value === null ? worst.reason : `max error ${tiny(worst.value)}`;
    const note = checked ? `${checked} answers checked, ${error}` : error;
    const equal = `${value("outputs.top1_samples")} of ${value("outputs.samples")}`;
    made.push(tile("Output agreement", checked ? equal : "not checked", checked ? "top-1" : "", note));
  }
  if (limited) {
    const [by, evidence] = limited.by ? [limited.by, limited.evidence] : limited.evidence.split(/: (.*)/s);
    made.push(tile("Limited by", by, "", evidence));
  }
  return element("div", "tiles", ...made);
}

const NAMES = {
  latency: "latency, from the schedule",
  service_time: "service time, from sending",
  schedule_delay: "schedule delay of the generator",
};

function latencies({ figures }) {
  const found = Object.keys(figures).filter((tag) => tag.endsWith(".mean")).map((tag) => tag.slice(0, -".mean".length));
  const rows = [...new Set([...Object.keys(NAMES), ...found])].filter((tag) => found.includes(tag));
  const missing = new Set();
  const cells = rows.map((tag) => [
    NAMES[tag] || label(tag),
    ...COLUMNS.map((key) => {
      const { value, ci95, reason } = figures[`${tag}.${key}`];
      if (value === null) missing.add(`${key} ${reason}`);
      return [figure(value), ci95 ? element("small", "", ci95.map(figure).join(" – ")) : null];
    }),
  ]);
  const bounds = figures["tail_bound.p50"];
  if (bounds) {
    const bound = (key) => figure(valueOf(figures, `tail_bound.${key}`));
    cells.push(["latency bound kept with 99 % confidence", ...COLUMNS.map(bound)]);
  }
  const heads = [{ title: bounds ? "ms, with 95 % intervals" : "ms" }, ...COLUMNS.map((key) => ({ title: label(key), number: true }))];
  const notes = missing.size ? [element("p", "dim note", [...missing].join("; "))] : [];
  return [element("h2", "", "Latency"), table(heads, cells), ...notes];
}

function verdict({ verdict: judged }) {
  if (!judged) return [];
  const rows = judged.constraints.map(({ name, ok, value, limit, unit, remedy }) => [
    element("span", "name", label(name)),
    element("strong", ok ? "good" : "bad", ok ? "Yes" : "No"),
    figure(value),
    value !== null && figure(value) === figure(limit) && value !== limit ? String(limit) : figure(limit),
    unit,
    ok ? "" : element("span", "warn", remedy),
  ]);
  const objectives = judged.objectives.map(({ objective, status, value, limit, unit, remedy }) => [
    element("span", "name", objective),
    element("strong", status === "met" ? "good" : "bad", status.toUpperCase()),
    figure(value),
    figure(limit),
    unit,
    status === "met" ? "" : element("span", "warn", remedy),
  ]);
  const skipped = Object.entries(judged.skipped).map(([name, why]) => [label(name), "–", "–", "–", "", `not judged: ${why}`]);
  const titles = ["constraint", "holds", "value", "limit", "unit"];
  // With nothing to fix or to say, this column would only push the others apart.
  if (!judged.valid || skipped.length || (judged.objective && judged.objective !== "met")) titles.push("remedy");
  const heads = titles.map((title, place) => ({ title, number: place === 2 || place === 3 }));
  return [element("h2", "", "Verdict"), table(heads, [...rows, ...objectives, ...skipped].map((row) => row.slice(0, titles.length)))];
}

function failures({ details }) {
  if (!details) return [];
  const { errors } = details;
  const kinds = Object.entries(errors.by_kind);
  if (!kinds.length) return [];
  const rows = kinds.map(([kind, count]) => [kind, figure(count), (errors.messages[kind] || []).join(" | ")]);
  return [element("h2", "", "Errors by kind"), table([{ title: "kind" }, { title: "requests", number: true }, { title: "first messages" }], rows)];
}

function workers({ workers: found }) {
  if (!found) return [];
  const rows = found.map((worker) => [
    `${worker.index}`,
    `${worker.host}, pid ${worker.pid}`,
    figure(worker.requests),
    figure(worker.schedule_delay_p99_ms),
    figure(worker.cpu_utilization),
    figure(worker.clock_uncertainty_ms),
    worker.trouble ? element("span", "warn", worker.trouble) : "",
  ]);
  const heads = ["worker", "where", "requests", "schedule delay p99, ms", "share of a core", "clock uncertainty, ms", "trouble"];
  return [element("h2", "", "Workers"), table(heads.map((title, place) => ({ title, number: place > 1 && place < 6 })), rows)];
}

function rest({ directory, result }) {
  const parts = [];
  if (result.figures && valueOf(result.figures, "server.queue") !== null) {
    const [queue, input, infer, output, batch] = ["queue", "compute_input", "compute_infer", "compute_output", "batch_size"]
      .map((name) => figure(valueOf(result.figures, `server.${name}`)));
    parts.push(element("p", "", `Server: queue ${queue} + input ${input} + infer ${infer} + output ${output} ms; mean executed batch ${batch}`));
  }
  const { warmup_s: warmedS, warmup: warmed } = result.scenario;
  if (warmed && warmedS !== null) {
    const found = warmed.steady ? `steady after ${figure(warmed.steady_from_s)} s (${warmed.method})` : warmed.reason;
    parts.push(element("p", "", `Warm-up: ${figure(warmedS)} s, ${found}`));
  }
  const link = element("a", "", "as JSON");
  link.href = "./result";
  link.target = "_blank";
  parts.push(element("p", "dim", "Result directory: ", element("code", "", directory), " (", link, ")"));
  return [element("h2", "", "Details"), ...parts];
}

function draw(standing) {
  const { result } = standing;
  const parts = heading(standing);
  if (result && result.figures) parts.push(tiles(result), ...latencies(result), ...verdict(result), ...failures(result), ...workers(result));
  if (result) parts.push(...rest(standing));
  document.getElementById("page").replaceChildren(...parts);
  document.documentElement.dataset.state = standing.state;
}

function theme() {
  const chosen = localStorage.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.documentElement.dataset.theme = chosen;
}

/** Nobody looks at a hidden page, so it does not ask: every answer takes some of the generator's time. */
const seen = () => document.visibilityState === "visible" && (!framed || window.frameElement.offsetParent !== null);

async function refresh() {
  if (seen()) {
    try {
      const answer = await fetch("./result");
      const text = await answer.text();
      if (answer.ok && text !== drawn) {
        draw(JSON.parse(text));
        drawn = text;
      }
    } catch (error) {
      console.warn("servemark: no answer", error); // Locust has ended; the last figures stay
    }
  }
  setTimeout(refresh, EVERY_MS);
}

theme();
window.addEventListener("storage", theme);
if (framed) {
  const fit = () => (window.frameElement.style.height = `${document.body.offsetHeight}px`);
  new ResizeObserver(fit).observe(document.body);
}
refresh();
