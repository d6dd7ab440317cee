// A path's explorer: its picture, the choice of an element, the element's way, its products, and what if.
class Explorer {
  static all = [];
  static step = held.steps.length - 1;  // of those recorded: the slider of any explorer moves all
  static CHOICES = [["held", "what it holds"], ["change", "change since the step before"]];

  constructor(place) {
    this.place = place;
    this.name = place.dataset.path;
    this.elements = held.elements[this.name];
    // one that the page holds, so that its neighbours can be seen too
    this.index = (this.elements.find((one) => one.is.startsWith("asked for") || !one.stations) ?? this.elements[0]).index;
    this.mode = "held";
    this.seen = false;
    Explorer.all.push(this);
  }
  at(step) { return held.steps[step].paths[this.name]; }
  get path() { return this.at(Explorer.step); }

  build() {
    this.seen = true;
    const part = (tag, name, ...children) => (this[name] = show.make(tag, {}, ...children));
    const label = (text, field) => show.make("label", {}, `${text} `, field);
    this.typed = show.make("input", {name: "index", size: 12, spellcheck: "false", autocomplete: "off"});
    this.worth = show.make("select", {name: "worth", autocomplete: "off"}, show.make("option", {value: ""}, "another"));
    for (const [k, one] of this.elements.entries()) this.worth.append(new Option(`[${one.index}] ${one.is}`, k));
    const fields = [label("element", this.typed), label(`worth reading${held.steps.length > 1 ? ` in step ${held.steps.at(-1).step}` : ""}`, this.worth)];
    if (this.path.shape.length === 4) this.image = show.make("input", {type: "number", name: "image", min: 0, max: this.path.shape[0] - 1, value: 0});
    if (this.image && !this.weights) fields.unshift(label("image", this.image));
    this.canvas = show.make("canvas", {tabindex: 0, role: "img"});
    this.wide = show.make("div", {class: "wide picture"}, this.canvas);
    const form = show.make("form", {class: "choose", "aria-label": `elements of ${this.name}`}, ...fields);
    part("p", "note").className = "quiet";
    part("p", "trouble").className = "trouble";
    this.trouble.setAttribute("role", "alert");
    part("div", "way");
    this.way.setAttribute("aria-live", "polite");
    this.more = [];
    if (this.path.sum) this.more.push(this.folded("its products: what makes this sum?", (body) => this.products(body)));
    if (this.path.extremes) this.more.push(this.folded("what if: another format, width or rounding", (body) => this.whatIf(body)));
    this.place.replaceChildren(...(held.steps.length > 1 ? [this.slider()] : []), form, this.wide, this.note, this.trouble, this.way, ...this.more);
    form.addEventListener("submit", (event) => event.preventDefault());
    this.typed.addEventListener("change", () => this.type(this.typed.value));
    this.worth.addEventListener("change", () => this.worth.value && this.choose(this.elements[this.worth.value].index));
    this.image?.addEventListener("input", () => this.choose([Number(this.image.value), ...this.index.slice(1)]));
    this.canvas.addEventListener("click", (event) => this.click(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.show();
  }
  get weights() { return picture.weights(this.path); }

  folded(title, fill) {
    const body = show.make("div");
    const made = show.make("details", {}, show.make("summary", {}, title), body);
    made.refresh = () => made.open && fill(body);
    made.addEventListener("toggle", made.refresh);
    return made;
  }
  slider() {
    this.range = show.make("input", {type: "range", name: "step", min: 0, max: held.steps.length - 1, value: Explorer.step});
    this.which = show.make("select", {name: "shown", autocomplete: "off"});
    for (const [value, text] of Explorer.CHOICES) this.which.append(new Option(text, value));
    this.which.addEventListener("change", () => { this.mode = this.which.value; this.show(); });
    this.range.addEventListener("input", () => {
      Explorer.step = Number(this.range.value);
      for (const one of Explorer.all) if (one.seen) one.show();
    });
    this.step = show.make("output");
    this.changed = show.make("p", {class: "quiet changed"});
    return show.make("div", {class: "steps"}, show.make("p", {class: "choose"}, show.make("label", {class: "grow"}, "step ", this.range), this.step, show.make("label", {}, "picture ", this.which)), this.changed);
  }

  // -- choosing ----------------------------------------------------------------------------------------
  type(text) {
    const index = text.split(/[,\s]+/).filter(Boolean).map(Number);
    const {shape} = this.path;
    if (index.length !== shape.length || index.some((i, axis) => !Number.isInteger(i) || i < 0 || i >= shape[axis]))
      this.trouble.textContent = shape.length ? `an index here is ${shape.length} whole numbers: ${shape.map((size) => `0..${size - 1}`).join(", ")}` : "a scalar has no index";
    else this.choose(index);
  }
  choose(index) {
    if (data.flat(index, this.path.shape) >= data.size(this.path.shape)) return;
    this.index = index;
    this.show();
  }
  click(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top].map((at) => Math.floor(at / this.canvas.cell));
    const flat = this.layout.flat(x, y);
    if (flat >= 0 && x < this.layout.columns) this.choose(data.index(flat, this.path.shape));
  }
  // arrows go to the next cell that is an element
  key(event) {
    const [dx, dy] = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key] ?? [0, 0];
    if (!dx && !dy || !this.canvas.at) return;
    event.preventDefault();
    let {x, y} = this.canvas.at;
    do [x, y] = [x + dx, y + dy]; while (x >= 0 && y >= 0 && x < this.layout.columns && y < this.layout.rows && this.layout.flat(x, y) < 0);
    if (x >= 0 && y >= 0 && x < this.layout.columns && y < this.layout.rows) this.choose(data.index(this.layout.flat(x, y), this.path.shape));
  }

  // -- showing -----------------------------------------------------------------------------------------
  show() {
    if (!this.path) {  // of a step in which the method has no such path
      this.step.textContent = `${held.steps[Explorer.step].step}`;
      this.range.value = Explorer.step;
      this.trouble.textContent = `${this.name} has no value in this step`;
      return;
    }
    const flat = data.flat(this.index, this.path.shape);
    this.typed.value = this.index.join(",");
    this.worth.value = this.elements.findIndex((one) => `${one.index}` === `${this.index}`);
    if (this.worth.selectedIndex < 0) this.worth.value = "";
    if (this.image) this.image.value = this.index[0];
    this.trouble.textContent = "";
    this.layout = picture.layout(this.path, this.index[0]);
    const [values, most] = this.values();
    picture.draw(this.canvas, this.layout, values, most, flat);
    this.canvas.setAttribute("aria-label", `picture of ${this.name}: element ${this.index} is chosen; arrow keys choose another`);
    this.note.textContent = `${this.mode === "held" ? "Blue above 0, orange below, the deeper the greater" : "Blue: grew, orange: fell"}; up to ±${show.short(most)}. ${this.part()}`;
    this.tell();
    if (this.range) this.between();
    for (const details of this.more) details.refresh();
  }
  // what the picture shows of an element, as a double; null where the page does not hold it
  values() {
    const now = picture.numbers(this.path);
    const before = picture.numbers(this.at(Math.max(Explorer.step - 1, 0)) ?? this.path);
    const made = this.mode === "held" ? now : now.subarray(0, before.length).map((value, flat) => value - before[flat]);
    const most = made.reduce((top, value) => Math.max(top, Math.abs(value)), 0);
    return [(flat) => (flat < made.length ? made[flat] : null), most];
  }
  part() {
    const {path} = this;
    const n = data.size(path.shape);
    if (path.source === null) return "No script here does this path again: the elements worth reading are told as the library does.";
    if (path.held >= n) return "";
    const rows = path.held / (n / path.shape[0]);
    const what = path.shape.length === 1 ? "elements" : /^(g?W|Acc|[mv]W)/.test(path.path) ? "outputs" : "images";
    return `The page holds ${what} ${rows ? `0..${rows - 1}` : "none"} of 0..${path.shape[0] - 1} (up to ${held.limit / 1024} KiB a tensor), and beyond it the elements worth reading, of the last step.`;
  }
  // why a short batch at the end of an epoch has no such element
  absent() {
    const [size] = this.path.shape;
    return !(this.index[0] >= size) ? null : `step ${held.steps[Explorer.step].step} has ${size} of these, 0..${size - 1}: its batch is a shorter one`;
  }
  tell() {
    const told = this.elements.find((one) => `${one.index}` === `${this.index}` && one.stations);
    try {
      const made = Explorer.step === held.steps.length - 1 && told ? told : way.of(this.path, this.index);
      if (made.agrees === false) throw new Error("exact arithmetic does not reach the code that is stored");
      this.way.replaceChildren(show.table(made.stations));
    } catch (error) {
      this.way.replaceChildren();
      this.trouble.textContent = this.absent() ?? (error instanceof NotHeld ? `${error.message}: choose one of the elements worth reading, or give --embed a greater size` : error.message);
    }
  }
  products(body) {
    try {
      const {path} = this;
      const value = path.source === null ? null : way.value(path, data.flat(this.index, path.shape)).value;
      const made = products.draw(path, this.index, held.steps[Explorer.step], value);
      body.replaceChildren(...(made ?? [show.make("p", {}, "This path is no sum of products.")]));
    } catch (error) {
      if (!(error instanceof NotHeld)) throw error;
      body.replaceChildren(show.make("p", {class: "trouble"}, "The page does not hold all factors of this sum: give --embed a greater size, or fewer --steps."));
    }
  }
  whatIf(body) {
    if (this.again) return this.again();
    this.again = whatIf.make(body, () => ({path: this.path, index: this.index}));
  }
  // what changed since the step before: of the element, and of all
  between() {
    this.range.value = Explorer.step;
    this.step.textContent = `${held.steps[Explorer.step].step}`;
    const flat = data.flat(this.index, this.path.shape);
    const each = held.steps.map(({step, paths}) => {
      const path = paths[this.name];
      return `${step}: ${flat < path?.held ? picture.text(path, flat) : "not on this page"}`;
    });
    let told = `[${this.index}] in step ${each.join("; ")}. `;
    const [now, before] = [this.path, Explorer.step ? this.at(Explorer.step - 1) : null];
    if (before) {
      const [a, b] = [picture.numbers(now), picture.numbers(before)];
      const n = Math.min(a.length, b.length);
      let [changed, most] = [0, 0];
      for (let k = 0; k < n; k++) if (a[k] !== b[k]) [changed, most] = [changed + 1, Math.max(most, Math.abs(a[k] - b[k]))];
      told += `From step ${held.steps[Explorer.step - 1].step} to ${held.steps[Explorer.step].step} ${tell.commas(changed)} of ${tell.commas(n)} elements changed, by up to ${show.short(most)}.`;
      if (/^d?[xe]\d/.test(now.path)) told += " Each step has a batch of its own.";
      if (now.format !== before.format) told += ` The format was ${before.format}, it is ${now.format}.`;
    }
    this.changed.textContent = told;
  }
}

const near = new IntersectionObserver((entries) => {
  for (const {isIntersecting, target} of entries) if (isIntersecting) {
    near.unobserve(target);
    Explorer.all.find((one) => one.place === target).build();
  }
}, {rootMargin: "800px"});
for (const place of document.querySelectorAll(".explorer")) near.observe(new Explorer(place).place);
addEventListener("resize", () => Explorer.all.forEach((one) => one.seen && one.show()));
