// @ts-check
/** NumPy archives, written in the page: arrays in the npy format, stored in a zip file. */

/** @typedef {{shape: number[], values: ArrayLike<number>, dtype: "<f8"|"<i4"}|string[]} Column */

/** Of an entry's header: version, flags, method, time, date; sum and two sizes; two lengths. */
const FIELDS = "hhhhhiiihh";

/** @param {Object<string, Column>} columns @returns {Uint8Array<ArrayBuffer>} */
export function npz(columns) {
  /** @type {Uint8Array[]} */ const parts = [];
  /** @type {Uint8Array[]} */ const index = [];
  let at = 0;
  for (const [name, column] of Object.entries(columns)) {
    const body = npy(column);
    const title = new TextEncoder().encode(`${name}.npy`);
    const common = [20, 0, 0, 0, 0x21, crc32(body), body.length, body.length, title.length, 0];
    const head = record(0x04034b50, common, FIELDS);
    index.push(record(0x02014b50, [20, ...common, 0, 0, 0, 0, at], `h${FIELDS}hhhii`), title);
    parts.push(head, title, body);
    at += head.length + title.length + body.length;
  }
  const size = index.reduce((sum, part) => sum + part.length, 0);
  const count = index.length / 2;
  return join([...parts, ...index, record(0x06054b50, [0, 0, count, count, size, at, 0], "hhhhiih")]);
}

/** @param {Column} column @returns {Uint8Array<ArrayBuffer>} */
function npy(column) {
  let dtype;
  let shape;
  /** @type {Uint32Array|Float64Array|Int32Array} */ let data;
  if (Array.isArray(column)) {
    const letters = column.map((text) => [...text].map((letter) => /** @type {number} */ (letter.codePointAt(0))));
    const long = Math.max(1, ...letters.map((word) => word.length));
    const words = (data = new Uint32Array(column.length * long));
    letters.forEach((word, i) => words.set(word, i * long));
    [dtype, shape] = [`<U${long}`, [column.length]];
  } else {
    [dtype, shape] = [column.dtype, column.shape];
    data = dtype === "<f8" ? Float64Array.from(column.values) : Int32Array.from(column.values);
  }
  const sides = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  const text = `{'descr': '${dtype}', 'fortran_order': False, 'shape': (${sides}), }`;
  const header = text.padEnd(64 * Math.ceil((text.length + 11) / 64) - 11) + "\n";
  const magic = [0x93, ...new TextEncoder().encode("NUMPY"), 1, 0, header.length & 255, header.length >> 8];
  return join([Uint8Array.from(magic), new TextEncoder().encode(header), new Uint8Array(data.buffer)]);
}

/** @param {number} sign @param {number[]} values @param {string} kinds h: two bytes, i: four */
function record(sign, values, kinds) {
  const out = new DataView(new ArrayBuffer(4 + [...kinds].reduce((sum, kind) => sum + (kind === "h" ? 2 : 4), 0)));
  out.setUint32(0, sign, true);
  let at = 4;
  [...kinds].forEach((kind, i) => {
    if (kind === "h") out.setUint16(at, values[i], true);
    else out.setUint32(at, values[i], true);
    at += kind === "h" ? 2 : 4;
  });
  return new Uint8Array(out.buffer);
}

/** @param {Uint8Array[]} parts @returns {Uint8Array<ArrayBuffer>} */
function join(parts) {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

const TABLE = Uint32Array.from({ length: 256 }, (_, i) => {
  let word = i;
  for (let k = 0; k < 8; k++) word = word & 1 ? 0xedb88320 ^ (word >>> 1) : word >>> 1;
  return word;
});

/** @param {Uint8Array} bytes */
function crc32(bytes) {
  let sum = 0xffffffff;
  for (const byte of bytes) sum = TABLE[(sum ^ byte) & 255] ^ (sum >>> 8);
  return (sum ^ 0xffffffff) >>> 0;
}
