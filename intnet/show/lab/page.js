// The page: its choices stand in its forms and after the # of its address, so that a link holds all of them.
const WALKS = ["update", "dot"]; // forms, whose fields a link has as 'update.n'
const page = {
  values: [],
  unknown: [], // what a link chose that is not there
  form: document.getElementById("choices"),
  start() {
    choices.formats(page.form.elements.format);
    choices.modes(page.form.elements.mode);
    for (const shape of Object.keys(tensor.SHAPES)) page.form.elements.shape.append(new Option(shape, shape));
    page.form.elements.format.value = "sq";
    page.open();
    addEventListener("hashchange", () => { page.open(); page.show(); });
    page.form.addEventListener("input", (event) => {
      page.unknown = [];
      if (event.target.name === "format") page.fields();
      if (["shape", "n", "scale"].includes(event.target.name)) page.random();
      page.show();
    });
    page.form.addEventListener("submit", (event) => event.preventDefault());
    document.getElementById("redraw").addEventListener("click", () => { page.random(); page.show(); });
    document.getElementById("reword").addEventListener("click", () => {
      page.form.elements.seed.value = Number(page.form.elements.seed.value) % 9999 + 1;
      page.form.elements.word.value = "";
      page.show();
    });
    page.show();
  },
  // the choices of the address; where it has none those that stand
  open() {
    const link = new URLSearchParams(location.hash.slice(1));
    page.unknown = [];
    if (link.has("format")) page.assign(page.form.elements.format, link.get("format"));
    page.fields();
    for (const [key, value] of link) {
      const [form, name] = key.split(".").length > 1 ? key.split(".") : ["choices", key];
      const field = document.forms[form]?.elements[name];
      if (field && key !== "format") page.assign(field, value);
    }
  },
  assign(field, value) {
    if (field.options && ![...field.options].some((option) => option.value === value)) page.unknown.push(`${field.name}=${value}`);
    else field.value = value;
  },
  // the fields of the chosen format
  fields() {
    const made = choices.of(page.form.elements.format.value);
    show.put("fields", ...made.fields);
    page.form.elements.mode.value = made.mode;
    page.form.elements.mode.disabled = page.form.elements.bits.disabled = made.codec;
    show.put("formula", made.formula, ...(made.hint ? [show.make("br"), made.hint] : []));
  },
  guarded(id, draw) {
    const note = document.getElementById(id);
    try {
      draw();
      note.textContent = "";
    } catch (error) {
      note.textContent = error.message;
    }
  },
  show() {
    page.guarded("trouble", () => {
      const o = choices.read(page.form);
      page.values = o.values.split(/[,;\n]+/).filter((text) => text.trim()).map(page.parsed);
      if (!page.values.length) throw new Error("type a number, or some with commas between them");
      if (page.values.length > 4096) throw new Error("up to 4096 numbers");
      o.index = Math.min(o.index, page.values.length - 1);
      const elements = quantize.all(page.values, o);
      element.draw(elements, o);
      tensor.draw(elements, o);
      document.getElementById("chosen").textContent = page.values.length > 1 ? `element ${o.index} of ${page.values.length}` : "";
      page.link(o);
      if (page.unknown.length) throw new Error(`the link chooses what is not here: ${page.unknown.join(", ")}`);
    });
    for (const name of WALKS)
      page.guarded(`${name}-trouble`, () => walks[name]({...choices.read(document.getElementById(name)), seed: Number(page.form.elements.seed.value) || 1}));
  },
  link(o) {
    const fields = WALKS.flatMap((name) => [...document.forms[name].elements].filter((field) => field.name).map((field) => [`${name}.${field.name}`, field.value]));
    history.replaceState(null, "", `#${new URLSearchParams([...Object.entries(o), ...fields])}`);
  },
  // a picture has doubles
  parsed(text) {
    const value = exact.parse(text);
    if (!Number.isFinite(exact.number(value))) throw new Error(`“${text.trim()}” is beyond what a picture holds: up to 1.8e308`);
    return value;
  },
  // element `index` becomes x, as it was dragged
  set(x) {
    const texts = page.values.map((value) => page.typed(value));
    texts[Math.min(Number(page.form.elements.index.value), texts.length - 1)] = page.typed(x);
    page.form.elements.values.value = texts.join(", ");
    page.show();
  },
  // as `parse` takes it again, to the bit
  typed: (a) => (exact.equal(exact.parse(String(exact.number(a))), a) ? String(exact.number(a)) : `${a.n}/${a.d}`),
  choose(index) {
    page.form.elements.index.value = index;
    page.show();
    document.getElementById("element").scrollIntoView({behavior: "smooth", block: "start"});
  },
  random() {
    page.guarded("trouble", () => {
      const o = choices.read(page.form);
      page.form.elements.values.value = tensor.drawn(o.shape, o.n, o.seed, exact.number(exact.parse(o.scale))).map(page.typed).join(", ");
    });
  },
};
for (const name of WALKS) {
  document.getElementById(name).addEventListener("input", () => page.show());
  document.getElementById(name).addEventListener("submit", (event) => event.preventDefault());
}
addEventListener("resize", () => page.show());
page.start();
