// The products that a sum is made of: of a convolution or linear layer forward, its error, its gradients.
const products = {
  FIRST: 12,  // shown at first
  // {factors: [path of the step ..], pairs: [[place in each factor] ..], bias} of an element, or null
  of(path, index, step) {
    if (!path.sum) return null;
    const factors = path.sum.factors.map((name) => step.factors[name]);
    const pairs = products[path.path]?.(index, factors.map((f) => f.shape), path.sum) ?? products.positions(index, factors[0].shape, factors.length);
    const bias = path.sum.bias === null ? null : data.value(step.factors[path.sum.bias], index.at(-1));
    return {factors, pairs, bias};
  },
  // every pair as rationals, in order; NotHeld where one is not on the page
  values: ({factors, pairs}) => pairs.map((places) => places.map((flat, k) => data.value(factors[k], flat))),
  total: (values) => values.reduce((all, pair) => exact.add(all, pair.reduce(exact.times)), {n: 0n, d: 1n}),
  each: (counts, visit) => {
    for (let a = 0; a < counts[0]; a++) for (let b = 0; b < counts[1]; b++) for (let c = 0; c < counts[2]; c++) visit(a, b, c);
  },
  inside: (y, x, shape) => y >= 0 && y < shape[1] && x >= 0 && x < shape[2],

  // x1[n,i,j,o]: the sum over c, u, v of W[o,c,u,v] x0[n, i*stride + u - padding, .., c of its group]
  x1(index, [weights, input], {stride, padding, groups}) {
    const out = index.at(-1);
    const pairs = [];
    if (weights.length === 2) {
      for (let c = 0; c < weights[1]; c++) pairs.push([out * weights[1] + c, index[0] * weights[1] + c]);
      return pairs;
    }
    const first = Math.floor(out / (weights[0] / groups)) * weights[1];
    products.each(weights.slice(1), (c, u, v) => {
      const [y, x] = [index[1] * stride[0] + u - padding[0], index[2] * stride[1] + v - padding[1]];
      if (products.inside(y, x, input)) pairs.push([data.flat([out, c, u, v], weights), data.flat([index[0], y, x, first + c], input)]);
    });
    return pairs;
  },
  // e4[n,y,x,c]: the sum over o, u, v of W[o,c,u,v] e3[n, (y + padding - u)/stride, .., o]
  e4(index, [weights, error], {stride, padding, groups}) {
    const pairs = [];
    if (weights.length === 2) {
      for (let o = 0; o < weights[0]; o++) pairs.push([o * weights[1] + index[1], index[0] * weights[0] + o]);
      return pairs;
    }
    const outputs = weights[0] / groups;
    const [group, c] = [Math.floor(index[3] / weights[1]), index[3] % weights[1]];
    products.each([outputs, weights[2], weights[3]], (o, u, v) => {
      const [y, x] = [(index[1] + padding[0] - u) / stride[0], (index[2] + padding[1] - v) / stride[1]];
      const out = group * outputs + o;
      if (Number.isInteger(y) && Number.isInteger(x) && products.inside(y, x, error))
        pairs.push([data.flat([out, c, u, v], weights), data.flat([index[0], y, x, out], error)]);
    });
    return pairs;
  },
  // gW[o,c,u,v]: the sum over n, i, j of e3[n,i,j,o] x0[n, i*stride + u - padding, .., c of its group]
  gW(index, [error, input], {stride, padding, groups}) {
    const pairs = [];
    if (error.length === 2) {
      for (let n = 0; n < error[0]; n++) pairs.push([n * error[1] + index[0], n * input[1] + index[1]]);
      return pairs;
    }
    const channel = Math.floor(index[0] / (error[3] / groups)) * (input[3] / groups) + index[1];
    products.each(error, (n, i, j) => {
      const [y, x] = [i * stride[0] + index[2] - padding[0], j * stride[1] + index[3] - padding[1]];
      if (products.inside(y, x, input)) pairs.push([data.flat([n, i, j, index[0]], error), data.flat([n, y, x, channel], input)]);
    });
    return pairs;
  },
  // sums over all positions of a channel
  positions(index, shape, factors) {
    const channels = shape.at(-1);
    return Array.from({length: data.size(shape) / channels}, (_, k) => new Array(factors).fill(k * channels + index.at(-1)));
  },

  // -- as they are shown -------------------------------------------------------------------------------
  text(factor, flat) {
    const at = `${factor.path}[${data.index(flat, factor.shape)}]`;
    if (factor.kind !== "codes") return `${at} = ${tell.double(data.at(factor.array, flat))}`;
    return `${at} = ${data.integer(factor.array, flat)} · 2^${factor.exponents === null ? factor.exponent : data.at(factor.exponents, flat)}`;
  },
  // how their sum stands to the value that was handed on
  verdict(total, bias, value) {
    const whole = bias === null ? total : exact.add(total, bias);
    const sum = `their exact sum is ${tell.both(total)}${bias === null ? "" : `; with the bias ${tell.both(bias)} it is ${tell.both(whole)}`}`;
    if (value !== null && exact.equal(whole, value)) return `${sum}: the exact value above`;
    if (value !== null && exact.equal(exact.fromNumber(float32.of(whole)), value)) return `${sum}; rounded once to float32 it is the value above`;
    return `${sum}; float32 rounds on the way, so the value above is another by ${tell.decimal(exact.minus(value, whole))}`;
  },
  draw(path, index, step, value) {
    const found = products.of(path, index, step);
    if (!found) return null;
    const values = products.values(found);
    const sizes = values.map((pair) => exact.number(pair.reduce(exact.times)));
    const most = Math.max(...sizes.map(Math.abs)) || 1;
    const zeros = sizes.filter((size) => size === 0).length;
    const order = sizes.map((_, k) => k).sort((a, b) => Math.abs(sizes[b]) - Math.abs(sizes[a]) || a - b);
    const body = show.make("tbody");
    const state = {all: false, bySize: true};
    const fill = () => {
      const rows = state.bySize ? order : sizes.map((_, k) => k);
      body.replaceChildren(...rows.slice(0, state.all ? undefined : products.FIRST).map((k) => show.make("tr", {},
        show.make("td", {class: "size", "aria-hidden": "true"}, show.make("span", {class: sizes[k] < 0 ? "minus" : "plus", style: `width:${(Math.abs(sizes[k]) / most * 100).toFixed(1)}%`})),
        show.make("td", {class: "number"}, show.short(sizes[k], 6)),
        ...found.pairs[k].map((flat, n) => show.make("td", {}, products.text(found.factors[n], flat))))));
      all.textContent = state.all ? `the first ${products.FIRST}` : `all ${tell.commas(sizes.length)}`;
      all.hidden = sizes.length <= products.FIRST;
      order_.textContent = state.bySize ? "in the order of the sum" : "the greatest first";
    };
    const press = (key) => () => { state[key] = !state[key]; fill(); };
    const [all, order_] = ["all", "bySize"].map((key) => {
      const button = show.make("button", {type: "button"});
      button.addEventListener("click", press(key));
      return button;
    });
    fill();
    const heads = ["", found.factors.length > 1 ? "product" : "term", ...found.factors.map((f) => f.path)];
    const table = show.make("table", {class: "products"}, show.make("thead", {}, show.make("tr", {}, ...heads.map((head) => show.make("th", {scope: "col"}, head)))), body);
    const told = `${tell.commas(sizes.length)} products, ${tell.commas(zeros)} of them 0; ${products.verdict(products.total(values), found.bias, value)}.`;
    return [show.make("p", {}, told), show.make("p", {class: "choose"}, order_, all), show.make("div", {class: "wide", tabindex: 0, role: "region", "aria-label": "products"}, table)];
  },
};
