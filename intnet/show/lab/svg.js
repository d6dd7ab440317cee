// Pictures: a chart in its own units, and small helpers for pages.
const show = {
  make(tag, attributes = {}, ...children) {
    const svg = ["svg", "g", "line", "rect", "circle", "path", "text", "polyline", "title"].includes(tag);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  },
  put: (id, ...children) => document.getElementById(id).replaceChildren(...children),
  // a short decimal
  short(x, digits = 4) {
    if (x === 0) return "0";
    if (!Number.isFinite(x)) return "∞";
    const size = Math.abs(x);
    return size >= 1e5 || size < 1e-3 ? x.toExponential(digits - 2).replace("e", "·10^").replace("^+", "^") : `${+x.toPrecision(digits)}`;
  },
  // rows of [what, value], or a cell that is made already
  table: (rows) => show.make("table", {class: "way"}, show.make("tbody", {}, ...rows.map(([what, value]) =>
    show.make("tr", {}, show.make("th", {scope: "row"}, what), show.make("td", {}, value))))),
};

class Chart {
  // x, y: [least, most] of what is shown; label: what a screen reader says
  constructor(x, y, label, {width = 640, height = 200, left = 56, bottom = 28} = {}) {
    width = Math.min(width, document.documentElement.clientWidth - 34);  // so that text keeps its size
    Object.assign(this, {x, y, width, height, left, bottom, top: 12, right: 14});
    for (const range of [x, y]) if (!(range[1] > range[0])) [range[0], range[1]] = [range[0] - 1, range[1] + 1];
    this.svg = show.make("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label, class: "chart"});
  }
  across(x) { return this.left + (x - this.x[0]) / (this.x[1] - this.x[0]) * (this.width - this.left - this.right); }
  up(y) { return this.height - this.bottom - (y - this.y[0]) / (this.y[1] - this.y[0]) * (this.height - this.bottom - this.top); }
  back(px) { return this.x[0] + (px - this.left) / (this.width - this.left - this.right) * (this.x[1] - this.x[0]); }
  add(tag, attributes, ...children) {
    const made = show.make(tag, attributes, ...children);
    this.svg.append(made);
    return made;
  }
  axes(xName, yName) {
    const [low, high] = [this.up(this.y[0]), this.up(this.y[1])];
    this.add("path", {class: "axis", d: `M${this.left} ${high}V${low}H${this.width - this.right}`});
    for (const [k, x] of this.x.entries())
      this.add("text", {x: this.across(x), y: low + 14, "text-anchor": k ? "end" : "start"}, show.short(x, 3));
    this.add("text", {x: (this.left + this.width) / 2, y: this.height - 2, "text-anchor": "middle"}, xName);
    for (const y of this.y) this.add("text", {x: this.left - 5, y: this.up(y) + 4, "text-anchor": "end"}, show.short(y, 3));
    this.add("text", {x: this.left - 5, y: (low + high) / 2, "text-anchor": "end"}, yName);
    if (this.y[0] < 0 && this.y[1] > 0)
      this.add("line", {class: "zero", x1: this.left, x2: this.width - this.right, y1: this.up(0), y2: this.up(0)});
  }
  line(points, name) {
    this.add("polyline", {class: `curve ${name}`, points: points.map(([x, y]) => `${this.across(x).toFixed(1)},${this.up(y).toFixed(1)}`).join(" ")});
  }
  bars(counts, x, width, name) {
    counts.forEach((count, k) => count && this.add("rect", {class: name, x: this.across(x(k)).toFixed(1), y: this.up(count).toFixed(1),
      width: Math.max(this.across(width) - this.across(0), 1).toFixed(1), height: (this.up(0) - this.up(count)).toFixed(1)}));
  }
}
