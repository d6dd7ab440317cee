// A format's fields in a form, and what they say, checked; the lab's page and the pages of a step have them.
const choices = {
  // the names of formats and codecs into a <select>
  formats(select, without = []) {
    for (const [name, one] of [...Object.entries(FORMATS), ...Object.entries(CODECS)])
      if (!without.includes(name)) select.append(new Option(one.title, name));
  },
  modes(select) {
    for (const [name, title] of Object.entries(MODES)) select.append(new Option(title, name));
  },
  // fields of the format `name`, its formula and hint
  of(name) {
    const one = FORMATS[name] ?? {fields: {b: ["b, bits", 1, 16, 4], ...(CODECS[name].whole ? {} : {size: ["elements a bucket", 1, 256, 64]})}};
    const made = Object.entries(one.fields).map(([key, [title, least, most, first]]) => show.make("label", {}, `${title} `,
      show.make("input", {type: "number", name: key, min: least, max: most, value: first, required: ""})));
    for (const [key, options] of Object.entries(one.choices ?? {})) {
      const select = show.make("select", {name: key});
      options.forEach((option) => select.append(new Option(option.replace("_", " "), option)));
      made.push(show.make("label", {}, `${key} `, select));
    }
    const {formula} = CODECS[name] ?? one;
    return {fields: made, mode: one.mode ?? "ties_even", formula, hint: one.hint, codec: Boolean(CODECS[name])};
  },
  // numbers within what their fields allow, texts as they are
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
};
