/* The page: its charts, the slider over epsilon, light and dark. */

const data = JSON.parse(document.getElementById("data").textContent);
const armColour = (k) => `var(--arm-${k % 8})`;
const armDash = (k) => DASHES[(k + Math.floor(k / 8)) % DASHES.length];
const place = (name) => document.getElementById(`chart-${name}`);
const sweep = data.sweep;
const state = { k: sweep.at, log: false };
const input = document.getElementById("epsilon"); /* none where there is one epsilon */
const epsilonNow = () => sweep.epsilon[state.k];

/* --- charts that stay ------------------------------------------------------------------------------------------- */

function frontier() {
  const found = data.frontier;
  curves(place("frontier"), {
    at: found.tau, log: found.log, bottom: 0, xlabel: "tau, the gap (in units of the reward)", xname: "tau", ylabel: "rho(tau) = Pr(G ≥ tau)",
    curves: found.arms.map((row) => ({ name: row.name || data.arms[row.arm], y: row.rho, error: row.error, colour: armColour(row.arm), dash: armDash(row.arm) })),
    dots: found.arms.filter((row) => row.best).map((row) => ({ x: row.best[0], y: row.best[1], colour: armColour(row.arm) })),
  });
}

function regret() {
  const found = data.regret;
  const thin = found.worlds.map((y, k) => ({ name: k ? "" : "single worlds", y, colour: "var(--faint)", thin: true }));
  curves(place("regret"), {
    at: found.t, log: state.log, bottom: 0, xlabel: "round t", xname: "round", ylabel: "cumulative regret (in units of the reward)",
    curves: [...thin, { name: found.n > 1 ? "mean over worlds" : "one world", y: found.mean, error: found.n > 1 ? found.error : null, colour: "var(--accent)" }],
    lines: found.end ? [{ x: found.end, text: `cold start ends, ${words(found.end)}` }] : [],
  });
}

function gain() {
  const found = data.gain;
  const low = Math.min(0, ...found.mean.map((v, k) => v - 2 * found.error[k]));
  curves(place("gain"), {
    at: found.t, log: true, bottom: low, xlabel: "round t", xname: "about round", ylabel: "gain (in units of the reward)", legend: false,
    curves: [{ name: "gain", y: found.mean, error: found.error, colour: "var(--accent)" }],
  });
}

/* A bar for each row, with two errors; what has no figure is told as not feasible. */
function bars(where, { names, found, colour, xlabel }) {
  const ends = found.mean.map((v, k) => (v === null ? 0 : v + 2 * (found.error[k] || 0)));
  const drawn = frame(where, { height: 26 + 34 * names.length + 40, x: [0, (Math.max(...ends) || 1) * 1.05], y: [0, 1], xlabel, bare: true, left: 4 });
  const points = names.map((name, k) => {
    const value = found.mean[k], error = found.error[k] || 0;
    const middle = drawn.margin.top + 34 * (k + 0.5);
    make("text", { x: 4, y: middle - 6, class: "row-name" }, drawn.svg, fitting(value === null ? `${name}: not feasible` : name, drawn.width));
    if (value === null) return { x: drawn.x(0), y: middle, lines: [name, "not feasible"] };
    const bar = make("rect", { x: drawn.x(0), y: middle, width: Math.max(drawn.x(value) - drawn.x(0), 1), height: 9, rx: 2 }, drawn.svg);
    bar.style.fill = colour(k);
    const whisker = [value - 2 * error, value + 2 * error].map((v) => drawn.x(Math.max(v, 0)));
    make("line", { x1: whisker[0], x2: whisker[1], y1: middle + 4.5, y2: middle + 4.5, class: "whisker" }, drawn.svg);
    return { x: drawn.x(value), y: middle, lines: [name, withError(value, found.error[k])] };
  });
  hover(where, drawn, points, "rows");
}

function samples() {
  bars(place("samples"), { names: data.arms, found: data.samples, colour: armColour, xlabel: "samples by the end: N and exploitation" });
}

function knowledge() {
  bars(place("knowledge"), { names: data.knowledge.names, found: data.knowledge, colour: () => "var(--accent)", xlabel: "rounds of cold start" });
}

/* A curve for each number of samples, with a gap where no plan is feasible. */
function sizes() {
  const colours = ["var(--second)", "var(--accent)", "var(--third)"];
  const found = data.sizes;
  curves(place("sizes"), {
    at: found.epsilon, bottom: 0, dotted: true, gap: "not feasible", xlabel: "epsilon", xname: "epsilon", ylabel: "rounds",
    curves: found.curves.map((row, k) => ({ name: `N = ${words(row.n)}`, y: row.mean, error: row.error, colour: colours[k % 3], dash: DASHES[k % DASHES.length] })),
  });
}

/* --- charts that the slider turns ------------------------------------------------------------------------------- */

function here(lines) {
  const own = sweep.epsilon[sweep.at];
  const marks = [{ x: epsilonNow(), class: "now", text: `epsilon = ${words(epsilonNow())}` }];
  if (state.k !== sweep.at) marks.push({ x: own, text: "the plan's own", low: true });
  return [...marks, ...(lines || [])];
}

function rates() {
  const one = { name: sweep.personalised ? "mean rate q" : "largest rate q for all", y: sweep.exploration_rate, error: sweep.exploration_rate_mcse, colour: "var(--accent)" };
  const more = sweep.personalised ? [{ name: "users explored", y: sweep.explored, colour: "var(--second)", dash: DASHES[1] }, { name: "need no subsidy", y: sweep.free, colour: "var(--third)", dash: DASHES[3] }] : [];
  curves(place("rates"), {
    at: sweep.epsilon, bottom: 0, top: 1, dotted: true, xlabel: "epsilon", xname: "epsilon", ylabel: "share", curves: [one, ...more], lines: here(),
  });
}

function cold() {
  const known = sweep.expected_cold_start.filter((v) => v !== null);
  curves(place("cold"), {
    at: sweep.epsilon, bottom: 0, top: known.length ? undefined : 1, dotted: true, xlabel: "epsilon", xname: "epsilon", ylabel: "rounds", legend: false,
    curves: [{ name: "cold start", y: sweep.expected_cold_start, error: sweep.expected_cold_start_mcse, colour: "var(--accent)" }], lines: here(),
  });
}

function followers(epsilon) {
  const found = data.compliance;
  const last = found.epsilon.length - 1;
  if (epsilon >= found.epsilon[last]) return found.share[last];
  const k = Math.max(found.epsilon.findIndex((v) => v > epsilon) - 1, 0);
  return found.share[k];
}

function compliance() {
  const found = data.compliance;
  const drawn = curves(place("compliance"), {
    at: found.epsilon, bottom: 0, top: 1, xlabel: "epsilon", xname: "epsilon", ylabel: "share of users", legend: false,
    curves: [{ name: "would follow", y: found.share, error: found.error, colour: "var(--accent)" }], lines: here(),
  });
  if (epsilonNow() <= found.epsilon[found.epsilon.length - 1]) {
    make("circle", { cx: drawn.x(epsilonNow()), cy: drawn.y(followers(epsilonNow())), r: 5, class: "dot" }, drawn.svg).style.fill = "var(--accent)";
  }
}

function margins() {
  const rows = data.margins;
  const where = place("margins");
  const ends = rows.flatMap((r) => [r.lower, r.upper, r.estimate]).filter((v) => v !== null);
  const reach = [Math.min(...ends, -epsilonNow()), Math.max(...ends, 0)];
  const room = 0.04 * (reach[1] - reach[0]);
  /* Names stand in a column of their own where there is room, else above their row; no line runs through them. */
  const beside = where.clientWidth >= 560;
  const names = rows.map((row) => row.label || row.stage);
  const column = Math.min(0.4 * where.clientWidth, 7 * Math.max(...names.map((name) => name.length)) + 18);
  const step = beside ? 28 : 40;
  const drawn = frame(where, { height: 26 + step * rows.length + 44, x: [reach[0] - room, reach[1] + room], y: [0, 1], xlabel: "margin (in units of the reward)", bare: true, left: beside ? column : 8 });
  const middles = rows.map((_, k) => drawn.margin.top + step * (k + 0.5) + (beside ? 0 : 8));
  const spans = beside ? null : middles.map((y) => [y - 7, y + 9]);
  across(drawn, { x: 0, class: "zero", spans });
  if (state.k !== sweep.at) across(drawn, { x: -data.epsilon, spans });
  across(drawn, { x: -epsilonNow(), class: "now", text: `−epsilon = ${words(-epsilonNow())}`, spans });
  const points = rows.map((row, k) => {
    const middle = middles[k];
    make("text", { x: 2, y: beside ? middle + 4 : middle - 12, class: "row-name" }, drawn.svg, fitting(names[k], beside ? column - 6 : drawn.width));
    const line = make("line", { x1: drawn.x(row.lower), x2: drawn.x(row.upper), y1: middle, y2: middle, class: "bounds" }, drawn.svg);
    const dot = make("circle", { cx: drawn.x(row.estimate), cy: middle, r: 5 }, drawn.svg);
    line.style.stroke = dot.style.fill = `var(--${row.verdict})`;
    return { x: drawn.x(row.estimate), y: middle, lines: [`${row.stage}: ${row.verdict}`, `${row.arm} against ${row.rival}`, `margin ${withError(row.estimate, row.mcse)}`, `bounds ${words(row.lower)} to ${words(row.upper)}`] };
  });
  hover(where, drawn, points, "rows");
}

function map() {
  const found = data.map;
  const where = place("map");
  const now = found.rates[state.k];
  const ys = found.y || now.map((v) => v / 1000);
  const span = (values) => {
    const low = Math.min(...values);
    const high = Math.max(...values);
    const room = 0.05 * (high - low) || 0.5;
    return [low - room, high + room];
  };
  const width = Math.max(where.clientWidth, 240);
  const drawn = frame(where, { height: Math.min(420, Math.max(280, 0.75 * width)), x: span(found.x), y: found.y ? span(ys) : [-0.03, 1.03], xlabel: found.labels[0], ylabel: found.y ? found.labels[1] : "exploration rate q(x)" });
  const order = now.map((_, k) => k).sort((a, b) => now[a] - now[b]);
  for (const k of order) {
    const dot = make("circle", { cx: drawn.x(found.x[k]).toFixed(1), cy: drawn.y(ys[k]).toFixed(1), r: now[k] ? 4 : 3, class: now[k] ? "user" : "user never" }, drawn.svg);
    if (now[k]) dot.style.fill = `color-mix(in oklab, var(--map-high) ${now[k] / 10}%, var(--map-low))`;
  }
  hover(where, drawn, now.map((rate, k) => ({ x: drawn.x(found.x[k]), y: drawn.y(ys[k]), lines: [rate >= 1000 ? "always explored" : rate ? `rate ${words(rate / 1000)}, on average over stages` : "hardly or never explored"] })), "dots");
  key(where);
}

function key(where) {
  if (where.parentNode.querySelector(".key")) return;
  const line = html("p", "key");
  where.before(line);
  html("span", "ring", line);
  html("span", "", line, "hardly or never explored");
  html("span", "ramp", line);
  html("span", "", line, "explored at a rate from 0 to 1");
}

function readout() {
  const k = state.k;
  const box = document.getElementById("readout");
  box.replaceChildren();
  const add = (name, value) => {
    const item = html("div", "", box);
    html("span", "", item, name);
    html("b", "", item, value);
  };
  add("a plan made for epsilon", words(sweep.epsilon[k]));
  if (sweep.personalised) add("users explored", sweep.explored_words[k]);
  add(sweep.personalised ? "mean rate" : "rate for all", sweep.exploration_rate_words[k]);
  add("cold start", sweep.feasible[k] ? `${sweep.expected_cold_start_words[k]} rounds` : "no plan is feasible");
  if (sweep.feasible[k]) add("regret of its cold start", sweep.expected_regret_words[k]);
  if (data.compliance) add("follow the present plan", sweep.followers_words[k]);
}

/* --- all together ----------------------------------------------------------------------------------------------- */

const CHARTS = { map, rates, cold, margins, compliance, frontier, regret, gain, samples, knowledge, yardsticks, sizes };
const TURNED = ["map", "rates", "cold", "margins", "compliance"];

function draw(names) {
  names.filter((name) => place(name) && (data[name] || name === "rates" || name === "cold")).forEach((name) => CHARTS[name]());
}

function turn(k) {
  state.k = k;
  const value = words(epsilonNow());
  if (input) {
    input.value = k;
    input.setAttribute("aria-valuetext", `epsilon ${value}`);
    document.getElementById("epsilon-value").textContent = value;
    document.getElementById("epsilon-reset").hidden = k === sweep.at;
  }
  readout();
  draw(TURNED);
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function themes() {
  const button = document.getElementById("theme");
  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
}

function rounds() {
  if (!data.regret) return;
  const button = html("button", "small no-print", null, "growing rounds (log scale)");
  button.type = "button";
  place("regret").before(button);
  button.addEventListener("click", () => {
    state.log = !state.log;
    button.textContent = state.log ? "even rounds" : "growing rounds (log scale)";
    draw(["regret"]);
  });
}

/* Buttons that copy the text beside them; by hand where a browser does not let a page of a file do so. */
function copying() {
  document.querySelectorAll("[data-copies]").forEach((button) => {
    const source = document.getElementById(button.dataset.copies);
    const name = button.textContent;
    const select = () => getSelection().selectAllChildren(source);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "copied";
      } catch {
        select();
        button.textContent = document.execCommand("copy") ? "copied" : "selected: press Ctrl+C";
      }
      setTimeout(() => { button.textContent = name; }, 2500);
    });
  });
}

function yardsticks() {
  const colours = ["var(--accent)", "var(--second)", "var(--soft)"];
  bars(place("yardsticks"), { names: data.yardsticks.names, found: data.yardsticks, colour: (k) => colours[k % 3], xlabel: "regret of a whole run" });
}

themes();
rounds();
copying();
turn(sweep.at);
draw(Object.keys(CHARTS).filter((name) => !TURNED.includes(name)));
if (input) {
  input.addEventListener("input", (event) => turn(Number(event.target.value)));
  document.getElementById("epsilon-reset").addEventListener("click", () => turn(sweep.at));
}
let width = document.body.clientWidth;
new ResizeObserver(() => {
  if (document.body.clientWidth === width) return;
  width = document.body.clientWidth;
  draw(Object.keys(CHARTS));
}).observe(document.body);
