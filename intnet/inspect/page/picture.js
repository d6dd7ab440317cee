// A tensor as a heat map: a plane a channel of one image, a plane a pair of channels of weights, or a matrix.
const picture = {
  GAP: 1,  // cells between planes
  WRAP: 32,  // elements of a vector in a row
  // of shape outputs, inputs, height, width; all others are images, height, width, channels
  weights: ({path, shape}) => shape.length === 4 && /^(g?W|Acc|[mv]W)/.test(path),
  // what is drawn of an element, as a double; and as people read it
  number({source, result}, flat) {
    if (result.kind === "exact") return exact.number(way.value({source}, flat).value);
    const stored = Number(data.at(result.array, flat));
    return result.kind === "codes" ? stored * 2 ** (result.exponents === null ? result.exponent : data.at(result.exponents, flat)) : stored;
  },
  // of all that the page holds, made once
  made: new WeakMap(),
  numbers(path) {
    if (!picture.made.has(path)) picture.made.set(path, Float64Array.from({length: path.held}, (_, flat) => picture.number(path, flat)));
    return picture.made.get(path);
  },
  text(path, flat) {
    const value = show.short(picture.number(path, flat), 6);
    if (path.result.kind === "packed") return `code ${data.integer(path.result.codes, flat)} (${value})`;
    return path.result.kind === "codes" ? `code ${data.integer(path.result.array, flat)} (${value})` : value;
  },
  // {columns, rows, flat(column, row), cell(flat)}: where elements of a shape stand; image: of activations
  layout(path, image) {
    const {shape} = path;
    if (shape.length === 4 && !picture.weights(path)) {
      const [, height, width, channels] = shape;
      const across = Math.ceil(Math.sqrt(channels));
      return picture.planes(height, width, across, Math.ceil(channels / across), (down, right, i, j) => {
        const c = down * across + right;
        return c < channels ? data.flat([image, i, j, c], shape) : -1;
      });
    }
    if (shape.length === 4) {
      const [outputs, inputs, height, width] = shape;
      return picture.planes(height, width, inputs, outputs, (o, c, i, j) => data.flat([o, c, i, j], shape));
    }
    const n = data.size(shape);
    const columns = shape.length === 2 ? shape[1] : Math.min(n, picture.WRAP);
    return {columns, rows: Math.ceil(n / columns), flat: (x, y) => (y * columns + x < n ? y * columns + x : -1)};
  },
  planes(height, width, across, down, at) {
    const [high, wide] = [height > 1 ? height + picture.GAP : 1, width > 1 ? width + picture.GAP : 1];
    return {columns: across * wide, rows: down * high, flat(x, y) {
      const [i, j] = [y % high, x % wide];
      return i >= height || j >= width ? -1 : at(Math.floor(y / high), Math.floor(x / wide), i, j);
    }};
  },
  // red, green, blue from -1 over 0 to 1, on this page's background
  color(t, dark) {
    const ground = dark ? [22, 27, 34] : [246, 248, 250];
    const end = t < 0 ? (dark ? [255, 150, 70] : [190, 75, 0]) : (dark ? [100, 180, 255] : [5, 80, 174]);
    const deep = Math.sqrt(Math.min(Math.abs(t), 1));  // so that small ones are seen
    return ground.map((g, k) => Math.round(g + (end[k] - g) * deep));
  },
  // values(flat): a double, or null where the page does not hold it
  draw(canvas, layout, values, most, chosen) {
    const room = canvas.parentElement.clientWidth || 320;
    const cell = Math.max(2, Math.min(20, Math.floor(room / layout.columns), Math.floor(420 / layout.rows)));
    [canvas.width, canvas.height] = [layout.columns * cell, layout.rows * cell];
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const pen = canvas.getContext("2d");
    canvas.at = null;
    for (let y = 0; y < layout.rows; y++) for (let x = 0; x < layout.columns; x++) {
      const flat = layout.flat(x, y);
      if (flat < 0) continue;
      const value = values(flat);
      pen.fillStyle = value === null ? (dark ? "#484f58" : "#d0d7de") : `rgb(${picture.color(most ? value / most : 0, dark)})`;
      pen.fillRect(x * cell, y * cell, cell, cell);
      if (flat !== chosen) continue;
      canvas.at = {x, y};
    }
    if (canvas.at) {  // a frame inside its cell, or about it where that is too small
      const [x, y, side] = cell < 6 ? [canvas.at.x * cell - 1, canvas.at.y * cell - 1, cell + 2] : [canvas.at.x * cell + 1, canvas.at.y * cell + 1, cell - 2];
      pen.strokeStyle = dark ? "#ffffff" : "#000000";
      pen.lineWidth = 2;
      pen.strokeRect(x, y, side, side);
    }
    canvas.cell = cell;
  },
};
