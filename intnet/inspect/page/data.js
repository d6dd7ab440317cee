// What the page holds: arrays as typed numbers, decoded when they are first read, and the paths of each step.
const held = JSON.parse(document.getElementById("data").textContent);
class NotHeld extends Error {}

const data = {
  KINDS: {i1: Int8Array, i2: Int16Array, i4: Int32Array, i8: BigInt64Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array},
  read: [],
  array(k) {
    const one = held.arrays[k];
    data.read[k] ??= new data.KINDS[one.type](Uint8Array.from(atob(one.base64), (c) => c.charCodeAt(0)).buffer);
    return data.read[k];
  },
  // a number of an array, as JavaScript reads it; NotHeld where the page has only the part ahead of it
  at(k, flat) {
    if (flat >= held.arrays[k].held) throw new NotHeld("the page does not hold this part of the tensor");
    return data.array(k)[flat];
  },
  integer: (k, flat) => BigInt(data.at(k, flat)),
  rational: (k, flat) => exact.fromNumber(data.at(k, flat)),
  // a number written as text, or one of an array of the last axes of the whole shape
  part: (given, flat) => (typeof given === "string" ? BigInt(given)
    : data.integer(given.array, flat % held.arrays[given.array].shape.reduce((a, b) => a * b, 1))),
  flat: (index, shape) => index.reduce((flat, i, axis) => flat * shape[axis] + i, 0),
  index(flat, shape) {
    const index = [];
    for (const size of [...shape].reverse()) [flat, index[index.length]] = [Math.floor(flat / size), flat % size];
    return index.reverse();
  },
  size: (shape) => shape.reduce((a, b) => a * b, 1),
  // what a path holds, as a rational: code * 2^exponent, a float, or what a codec's code stands for
  value(result, flat) {
    if (result.kind !== "codes") return data.rational(result.array, flat);
    const e = result.exponents === null ? result.exponent : data.at(result.exponents, flat);
    return exact.times({n: data.integer(result.array, flat), d: 1n}, exact.power(e));
  },
};
