// "What if": the same value in another format, width or mode, by the lab's own arithmetic.
const whatIf = {
  RUN: 512,  // elements about the chosen one, of which bias and SQNR are told
  // draws into `place` for the element that state() gives: {path, index}
  make(place, state) {
    const [format, mode] = [show.make("select", {name: "format"}), show.make("select", {name: "mode"})];
    const fields = show.make("div", {class: "fields"});
    const [formula, trouble] = [show.make("p", {class: "quiet"}), show.make("p", {class: "trouble", role: "alert"})];
    const answer = show.make("div", {class: "answer"});
    choices.formats(format, ["symmetric"]);  // which asks for all of a tensor
    choices.modes(mode);
    const form = show.make("form", {"aria-label": "another format"}, show.make("div", {class: "fields"}, show.make("label", {}, "format ", format), fields, show.make("label", {}, "rounding ", mode)), formula, trouble);
    const pick = () => {
      const made = choices.of(format.value);
      fields.replaceChildren(...made.fields);
      formula.textContent = made.formula;
      [mode.value, mode.disabled] = [made.mode, made.codec];
    };
    const update = () => {
      try {
        answer.replaceChildren(...whatIf.answer(state(), choices.read(form)));
        trouble.textContent = "";
      } catch (error) {
        answer.replaceChildren();
        trouble.textContent = error.message;
      }
    };
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", (event) => { if (event.target === format) pick(); update(); });
    // the path's own format first
    const own = whatIf.own(state().path);
    format.value = own.format;
    pick();
    for (const [key, value] of Object.entries(own.o)) {
      const field = form.elements[key];
      if (field?.type === "number") field.max = Math.max(field.max, value);  // the lab's fields end earlier
      if (field) field.value = value;
    }
    if (own.mode) mode.value = own.mode;
    place.replaceChildren(form, answer);
    update();
    return update;
  },
  own({rounding: r, extremes}) {
    if (!r) {  // 8 bits that hold the greatest magnitude
      const top = exact.greatest(extremes.map((text) => exact.size(exact.ratio(...text.split("/").map(BigInt)))));
      return {format: "fixed", o: {wl: 8, fl: Math.max(-8, Math.min(32, top.n ? 7 - Math.ceil(Math.log2(exact.number(top) || 1)) : 7))}};
    }
    if (r.kind === "format") return {format: r.name, o: r.o, mode: r.mode};
    if (r.kind === "block") return {format: "block", o: {b: r.b}, mode: r.mode};
    if (r.kind === "mx") return {format: "mx", o: r.o, mode: r.mode};
    const name = {"affine-stochastic": "affine_stochastic", levels: "levels"}[r.codec] ?? "affine";
    return {format: name, o: {b: Number(data.at(r.widths, 0)), size: Math.min(r.size, 256)}};
  },
  // how the path's own groups are cut, where these are cut otherwise
  cut(r, o) {
    if (r?.kind === "block" && o.format === "block") return " The path's own blocks are 4 along two axes, these are elements one after another.";
    if (r?.kind === "mx" && o.format === "mx") return ` The path's own blocks are up to ${r.o.size} along axis ${r.axis}, these are elements one after another.`;
    if (r?.kind === "bucket" && o.size && r.size !== o.size) return ` The path's own buckets have ${tell.commas(r.size)} elements.`;
    return "";
  },
  answer({path, index}, chosen) {
    const flat = data.flat(index, path.shape);
    if (flat >= path.held) throw new NotHeld("the page does not hold this element: choose one of the part that it holds");
    const r = path.rounding;
    const size = chosen.size ?? 1;
    const first = Math.floor(flat / size / Math.ceil(whatIf.RUN / size)) * size * Math.ceil(whatIf.RUN / size);
    const last = Math.min(first + size * Math.ceil(whatIf.RUN / size), path.held);
    const run = Array.from({length: last - first}, (_, k) => way.value(path, first + k).value);
    const word = r?.words != null ? data.integer(r.words, flat) >> BigInt(32 - r.bits) : null;
    const o = {...chosen, bits: r?.words != null ? r.bits : 32, seed: 1, index: flat - first, word: word === null ? "" : `${word}`};
    // what scales a whole tensor is decided by its extremes, which the page holds
    const ends = FORMATS[o.format] && !FORMATS[o.format].at ? path.extremes.map((text) => exact.ratio(...text.split("/").map(BigInt))) : [];
    const elements = quantize.all([...run, ...ends], o).slice(0, run.length);
    const one = elements[o.index];
    const rows = FORMATS[o.format] ? element.way(one, FORMATS[o.format], o) : element.codec(one, o);
    const facts = quantize.facts(elements);
    const drawn = word === null && (o.mode === "stochastic" || CODECS[o.format]?.words);
    return [
      show.make("div", {class: "bits", role: "img", "aria-label": "bits of the code, most significant first"}, ...element.cells(one, FORMATS[o.format], o)),
      show.table(rows),
      show.make("p", {class: "quiet"}, `So elements ${tell.commas(first)}..${tell.commas(last - 1)} of the tensor would have: SQNR ${Number.isFinite(facts.sqnr) ? `${facts.sqnr.toFixed(1)} dB` : "nothing lost"}, `
        + `bias ${show.short(facts.mean)}, ${facts.zeros} became 0, ${facts.saturated} limited, ${facts.codes} codes in use.`
        + whatIf.cut(r, o)
        + (drawn ? " This path has no random words: these are drawn from seed 1." : "")),
    ];
  },
};
