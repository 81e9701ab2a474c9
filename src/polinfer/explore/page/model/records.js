// @ts-check
/** From the server's JSON to typed arrays. */

/** @param {import("./types.js").Numbers|null|undefined} numbers @returns {Float32Array|null} */
export function decode(numbers) {
  if (!numbers) return null;
  const text = atob(numbers.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  if (numbers.dtype === "f32") return new Float32Array(bytes.buffer);
  if (numbers.dtype === "i16") return Float32Array.from(new Int16Array(bytes.buffer));
  return Float32Array.from(new Uint16Array(bytes.buffer), (share) => share / 65535);
}

/** @param {any} record @returns {import("./types.js").Policy} */
export function policyOf(record) {
  return { ...record, policy: decode(record.policy), occupancy: decode(record.occupancy) };
}

/** @param {any} record @returns {import("./types.js").Answer} */
export function answerOf(record) {
  return {
    ...record,
    executed: policyOf(record.executed),
    stderr: decode(record.stderr),
    drawn: decode(record.drawn),
  };
}

/** @param {any} record @returns {import("./types.js").Path} */
export function pathOf(record) {
  const points = record.points.map((/** @type {any} */ point) => ({
    ...point,
    executed: policyOf(point.executed),
    soft: policyOf(point.soft),
  }));
  return { ...record, points };
}

/** @param {any} record @returns {import("./types.js").Info} */
export function infoOf(record) {
  const outcomes = record.outcomes && {
    branches: record.outcomes.branches,
    successor: decode(record.outcomes.successor),
    probability: decode(record.outcomes.probability),
    reward: decode(record.outcomes.reward),
  };
  const picture = {
    width: 0, height: 0, letters: "", cell: [], directions: [], nodes: [], labels: [], marks: [], place: [],
    edges: [], roads: [], rows: [], chart: [], records: [], sets: [], ...record.picture,
  };
  return {
    ...record,
    initial: decode(record.initial),
    absorbing: new Set(record.absorbing),
    choices: new Set(record.choices),
    illegal: new Set(record.illegal.map((/** @type {number[]} */ pair) => pair.join())),
    picture,
    outcomes,
  };
}
