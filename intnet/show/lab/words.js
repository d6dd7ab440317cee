// Random words: Philox4x32-10, `intnet.spec.words`. A stream is a number here; there it is SHA-256 of a path.
const words = {
  philox([c0, c1, c2, c3], [k0, k1]) {
    for (let round = 0; round < 10; round++) {
      const [left, right] = [0xd2511f53n * BigInt(c0), 0xcd9e8d57n * BigInt(c2)];
      const low = (x) => Number(x & 0xffffffffn);
      [c0, c1, c2, c3] = [
        (Number(right >> 32n) ^ c1 ^ k0) >>> 0, low(right), (Number(left >> 32n) ^ c3 ^ k1) >>> 0, low(left)];
      [k0, k1] = [(k0 + 0x9e3779b9) >>> 0, (k1 + 0xbb67ae85) >>> 0];
    }
    return [c0, c1, c2, c3];
  },
  // n words of 32 bits of (seed, step), from index 0 on
  draw(n, seed, stream = 0, step = 0) {
    const out = [];
    for (let block = 0; out.length < n; block++) out.push(...words.philox([block, 0, stream, step], [seed, 0]));
    return out.slice(0, n);
  },
  // uniform in (0, 1), and by Box and Muller: for pictures of distributions, no bits of the library
  uniform: (n, seed, stream) => words.draw(n, seed, stream).map((word) => (word + 0.5) / 2 ** 32),
  normal(n, seed) {
    const [u, v] = [words.uniform(n, seed, 1), words.uniform(n, seed, 2)];
    return u.map((x, i) => Math.sqrt(-2 * Math.log(x)) * Math.cos(2 * Math.PI * v[i]));
  },
};
