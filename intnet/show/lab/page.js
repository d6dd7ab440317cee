// The page: its choices stand in the form and behind the # of its address, so that a link holds all of them.
const page = {
  values: [],
  form: document.getElementById("choices"),
  start() {
    const formats = page.form.elements.format;
    for (const [name, one] of [...Object.entries(FORMATS), ...Object.entries(CODECS)]) formats.append(new Option(one.title, name));
    for (const [name, title] of Object.entries(MODES)) page.form.elements.mode.append(new Option(title, name));
    for (const shape of Object.keys(tensor.SHAPES)) page.form.elements.shape.append(new Option(shape, shape));
    const link = new URLSearchParams(location.hash.slice(1));
    formats.value = FORMATS[link.get("format")] || CODECS[link.get("format")] ? link.get("format") : "sq";
    page.fields();
    for (const [key, value] of link) if (page.form.elements[key]) page.form.elements[key].value = value;
    page.form.addEventListener("input", (event) => {
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
  // the fields of the chosen format
  fields() {
    const name = page.form.elements.format.value;
    const one = FORMATS[name] ?? {fields: {b: ["b, bits", 1, 16, 4], ...(CODECS[name].whole ? {} : {size: ["elements a bucket", 1, 256, 64]})}};
    const made = Object.entries(one.fields).map(([key, [title, least, most, first]]) => show.make("label", {}, `${title} `,
      show.make("input", {type: "number", name: key, min: least, max: most, value: first, required: ""})));
    for (const [key, options] of Object.entries(one.choices ?? {})) {
      const select = show.make("select", {name: key});
      options.forEach((option) => select.append(new Option(option.replace("_", " "), option)));
      made.push(show.make("label", {}, `${key} `, select));
    }
    show.put("fields", ...made);
    page.form.elements.mode.value = one.mode ?? "ties_even";
    const codec = CODECS[name];
    page.form.elements.mode.disabled = page.form.elements.bits.disabled = Boolean(codec);
    show.put("formula", (codec ?? one).formula, ...(one.hint ? [show.make("br"), one.hint] : []));
  },
  // the choices, checked: numbers within what their fields allow
  read(form) {
    const o = {};
    for (const field of form.elements) {
      if (!field.name) continue;
      if (field.type === "number") {
        const value = Number(field.value);
        if (field.value === "" || !Number.isInteger(value) || value < Number(field.min) || value > Number(field.max))
          throw new Error(`${field.closest("label").textContent.trim()}: a whole number from ${field.min} to ${field.max}`);
        o[field.name] = value;
      } else o[field.name] = field.value;
    }
    return o;
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
      const o = page.read(page.form);
      page.values = o.values.split(/[,;\n]+/).filter((text) => text.trim()).map(exact.parse);
      if (!page.values.length) throw new Error("type a number, or some with commas between them");
      if (page.values.length > 4096) throw new Error("up to 4096 numbers");
      o.index = Math.min(o.index, page.values.length - 1);
      const elements = quantize.all(page.values, o);
      element.draw(elements, o);
      tensor.draw(elements, o);
      document.getElementById("chosen").textContent = page.values.length > 1 ? `element ${o.index} of ${page.values.length}` : "";
      const link = new URLSearchParams(Object.entries(o).filter(([key, value]) => key !== "values" || value.length < 500));
      history.replaceState(null, "", `#${link}`);
    });
    for (const name of ["update", "dot"])
      page.guarded(`${name}-trouble`, () => walks[name]({...page.read(document.getElementById(name)), seed: Number(page.form.elements.seed.value) || 1}));
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
      const o = page.read(page.form);
      page.form.elements.values.value = tensor.drawn(o.shape, o.n, o.seed, exact.number(exact.parse(o.scale))).map(page.typed).join(", ");
    });
  },
};
for (const name of ["update", "dot"]) {
  document.getElementById(name).addEventListener("input", () => page.show());
  document.getElementById(name).addEventListener("submit", (event) => event.preventDefault());
}
addEventListener("resize", () => page.show());
page.start();
