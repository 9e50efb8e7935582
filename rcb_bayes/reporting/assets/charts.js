"use strict";
/* Charts as SVG: drawn at the width there is, again when that changes, in colours that the style sheet decides. */

const NAMESPACE = document.getElementById("seed-of-charts").namespaceURI;
const DASHES = ["", "7 4", "9 3 2 3", "2 3"];

/* --- numbers ---------------------------------------------------------------------------------------------------- */

function words(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) < 1e-12) return "0";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  if (size < 1e-4) return value.toExponential(1).replace("-", "\u2212").replace("e\u2212", "e-");
  const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return String(Number(value.toFixed(Math.min(places, 8)))).replace("-", "\u2212");
}

function withError(value, error) {
  return error > 1e-12 ? `${words(value)} ± ${words(error, 2)}` : words(value);
}

function percent(share) {
  return `${words(100 * share)} %`;
}

function ticks(low, high, n) {
  const span = high - low || 1;
  const raw = span / n;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => span / s <= n) || 10 * power;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * span; k += 1) found.push(k * step);
  return found;
}

function logTicks(low, high, n) {
  const all = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p += 1) {
    for (const m of [1, 2, 5]) all.push(m * 10 ** p);
  }
  const inside = all.filter((v) => v >= low * 0.999 && v <= high * 1.001);
  const decades = inside.filter((v) => Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-9);
  return inside.length > n && decades.length >= 2 ? decades : inside;
}

function scale(low, high, from, to, log) {
  const f = log ? Math.log10 : (v) => v;
  const a = f(low);
  const b = f(high) === a ? a + 1 : f(high);
  const map = (v) => from + ((f(v) - a) / (b - a)) * (to - from);
  map.low = low;
  map.high = high;
  map.ticks = (n) => (log ? logTicks(low, high, n) : ticks(low, high, n));
  return map;
}

/* --- elements --------------------------------------------------------------------------------------------------- */

function make(name, attributes, parent, text) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}

function html(name, className, parent, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}

function path(xs, ys, x, y) {
  let text = "";
  let pen = "M";
  for (let k = 0; k < xs.length; k += 1) {
    if (ys[k] === null) {
      pen = "M";
      continue;
    }
    text += `${pen}${x(xs[k]).toFixed(1)} ${y(ys[k]).toFixed(1)}`;
    pen = "L";
  }
  return text;
}

function area(xs, low, high, x, y) {
  const known = xs.map((_, k) => k).filter((k) => low[k] !== null && high[k] !== null);
  if (known.length < 2) return "";
  const there = known.map((k) => `${x(xs[k]).toFixed(1)} ${y(high[k]).toFixed(1)}`);
  const back = known.reverse().map((k) => `${x(xs[k]).toFixed(1)} ${y(low[k]).toFixed(1)}`);
  return `M${there.join("L")}L${back.join("L")}Z`;
}

/* A label without what stands in parentheses where there is no room for it, and cut if that does not do. */
function fitting(text, width) {
  const most = Math.floor(width / 6.4);
  const brief = text.length > most ? text.split(" (")[0] : text;
  return brief.length > most ? `${brief.slice(0, most - 1)}…` : brief;
}

/* The frame of a chart: an SVG as wide as its place, axes with grid lines, and what they are called. */
function frame(place, spec) {
  place.querySelectorAll("svg").forEach((old) => old.remove());
  const width = Math.max(place.clientWidth, 240);
  const height = spec.height || Math.round(Math.min(340, Math.max(220, 0.52 * width)));
  const margin = { top: (spec.lines || []).some((line) => line.x !== undefined) ? 40 : 26, right: 14, bottom: 40, left: spec.left || 46 };
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  place.prepend(svg);
  const x = scale(spec.x[0], spec.x[1], margin.left, width - margin.right, spec.log);
  const y = scale(spec.y[0], spec.y[1], height - margin.bottom, margin.top, false);
  const grid = make("g", { class: "grid" }, svg);
  if (!spec.bare) {
    for (const v of y.ticks(5)) {
      make("line", { x1: margin.left, x2: width - margin.right, y1: y(v), y2: y(v) }, grid);
      make("text", { x: margin.left - 7, y: y(v) + 4, "text-anchor": "end" }, grid, words(v));
    }
  }
  for (const v of x.ticks(Math.max(3, Math.floor(width / 90)))) {
    make("line", { x1: x(v), x2: x(v), y1: height - margin.bottom, y2: height - margin.bottom + 4 }, grid);
    make("text", { x: x(v), y: height - margin.bottom + 17, "text-anchor": "middle" }, grid, words(v));
  }
  if (spec.ylabel) make("text", { x: 0, y: 12, class: "label" }, svg, fitting(spec.ylabel, width));
  make("text", { x: width - margin.right, y: height - 6, class: "label", "text-anchor": "end" }, svg, fitting(spec.xlabel, width));
  return { svg, x, y, width, height, margin };
}

/* --- hovering --------------------------------------------------------------------------------------------------- */

function tooltip(place) {
  let box = place.querySelector(".tooltip");
  if (!box) {
    box = html("div", "tooltip", place);
    box.setAttribute("role", "status");
  }
  return {
    show(lines, left, top) {
      box.replaceChildren();
      lines.forEach((line, k) => html("div", k ? "" : "first", box, line));
      box.style.display = "block";
      const room = place.clientWidth - box.offsetWidth - 4;
      box.style.left = `${Math.max(0, Math.min(left + 12, room))}px`;
      box.style.top = `${Math.max(0, top - box.offsetHeight - 10)}px`;
    },
    hide() {
      box.style.display = "none";
    },
  };
}

/* Points that can be pointed at, with a mouse, a finger or the arrow keys. */
function hover(place, drawn, points, mark) {
  const tip = tooltip(place);
  const cross = make("line", { class: "cross", y1: drawn.margin.top, y2: drawn.height - drawn.margin.bottom }, drawn.svg);
  cross.style.display = "none";
  let at = -1;
  const show = (k) => {
    at = Math.max(0, Math.min(points.length - 1, k));
    const point = points[at];
    const factor = place.clientWidth / drawn.width;
    if (mark !== "dots") {
      cross.setAttribute("x1", point.x);
      cross.setAttribute("x2", point.x);
      cross.style.display = "";
    }
    tip.show(point.lines, point.x * factor, point.y * factor);
  };
  const hide = () => {
    cross.style.display = "none";
    tip.hide();
  };
  place.onpointermove = (event) => {
    const box = drawn.svg.getBoundingClientRect();
    const factor = drawn.width / box.width;
    const px = (event.clientX - box.left) * factor;
    const py = (event.clientY - box.top) * factor;
    const far = (p) => (mark === "dots" ? Math.hypot(p.x - px, p.y - py) : mark === "rows" ? Math.abs(p.y - py) : Math.abs(p.x - px));
    let best = 0;
    points.forEach((p, k) => {
      if (far(p) < far(points[best])) best = k;
    });
    show(best);
  };
  place.onpointerleave = hide;
  place.onblur = hide;
  place.onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step || !points.length) return;
    event.preventDefault();
    show(at < 0 ? 0 : at + step);
  };
}

/* --- a chart of curves ------------------------------------------------------------------------------------------ */

function legend(place, items) {
  place.parentNode.querySelectorAll(":scope > .legend").forEach((old) => old.remove());
  if (!items.length) return;
  const list = html("ul", "legend");
  place.before(list);
  for (const item of items) {
    const entry = html("li", "", list);
    const swatch = make("svg", { viewBox: "0 0 26 10", width: 26, height: 10, "aria-hidden": "true" }, entry);
    make("line", { x1: 0, x2: 26, y1: 5, y2: 5, class: item.thin ? "curve thin" : "curve", "stroke-dasharray": item.dash || "" }, swatch).style.stroke = item.colour;
    html("span", "", entry, item.name);
  }
}

function curves(place, spec) {
  const shown = spec.curves;
  const all = shown.flatMap((c) => [...c.y, ...(c.error ? c.y.map((v, k) => (v === null ? null : v + 2 * c.error[k])) : [])]);
  const lows = shown.flatMap((c) => (c.error ? c.y.map((v, k) => (v === null ? null : v - 2 * c.error[k])) : c.y));
  const known = all.filter((v) => v !== null);
  const top = spec.top !== undefined ? spec.top : Math.max(...known, 0) * 1.04 || 1;
  const low = spec.bottom !== undefined ? spec.bottom : Math.min(0, ...lows.filter((v) => v !== null));
  const clip = (v) => Math.max(low, Math.min(top, v));
  const first = spec.log ? spec.at.find((v) => v > 0) : spec.at[0];
  const drawn = frame(place, { ...spec, x: [first, spec.at[spec.at.length - 1]], y: [low, top] });
  const { svg, x, y } = drawn;
  const from = spec.at.findIndex((v) => v >= first);
  const xs = spec.at.slice(from);
  const cut = (values) => values.slice(from);
  for (const curve of shown) {
    if (!curve.error) continue;
    const ys = cut(curve.y);
    const error = cut(curve.error);
    const lower = ys.map((v, k) => (v === null ? null : clip(v - 2 * error[k])));
    const upper = ys.map((v, k) => (v === null ? null : clip(v + 2 * error[k])));
    make("path", { d: area(xs, lower, upper, x, y), class: "band" }, svg).style.fill = curve.colour;
  }
  for (const curve of shown) {
    const line = make("path", { d: path(xs, cut(curve.y), x, y), class: curve.thin ? "curve thin" : "curve", "stroke-dasharray": curve.dash || "" }, svg);
    line.style.stroke = curve.colour;
    if (spec.dotted) {
      xs.forEach((v, k) => {
        const height = cut(curve.y)[k];
        if (height !== null) make("circle", { cx: x(v), cy: y(height), r: 3 }, svg).style.fill = curve.colour;
      });
    }
  }
  for (const line of spec.lines || []) across(drawn, line);
  for (const dot of spec.dots || []) {
    make("circle", { cx: x(dot.x), cy: y(dot.y), r: 5, class: dot.class || "dot" }, svg).style.fill = dot.colour;
  }
  const named = shown.filter((c) => c.name);
  hover(place, drawn, xs.map((v, k) => ({
    x: x(v),
    y: y(Math.max(...named.map((c) => cut(c.y)[k] ?? low))),
    lines: [`${spec.xname} ${words(v)}`, ...named.filter((c) => !c.thin).map((c) => `${c.name}: ${spec.gap && cut(c.y)[k] === null ? spec.gap : withError(cut(c.y)[k], c.error ? cut(c.error)[k] : 0)}`)],
  })));
  legend(place, spec.legend === false ? [] : named);
  return drawn;
}

/* A line across a chart, at a height or at a place, with a word on it. */
function across(drawn, line) {
  const { svg, x, y, width, height, margin } = drawn;
  const flat = line.y !== undefined;
  const v = flat ? y(line.y) : x(line.x);
  if (!flat && (v < margin.left - 1 || v > width - margin.right + 1)) return;
  const ends = flat ? { x1: margin.left, x2: width - margin.right, y1: v, y2: v } : { x1: v, x2: v, y1: margin.top, y2: height - margin.bottom };
  for (const [y1, y2] of line.spans || [[ends.y1, ends.y2]]) make("line", { ...ends, y1, y2, class: `mark ${line.class || ""}` }, svg);
  if (!line.text) return;
  const right = !flat && v > 0.6 * width;
  const above = line.low ? height - margin.bottom - 7 : margin.top - 6;
  const place = flat
    ? { x: width - margin.right, y: v - 5, "text-anchor": "end" }
    : { x: v + (right ? 3 : -3), y: above, "text-anchor": right ? "end" : "start" };
  make("text", { ...place, class: "on-mark" }, svg, line.text);
}
