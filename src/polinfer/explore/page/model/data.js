// @ts-check
/** What was computed for the problem that is shown: the path, and for each reward scale what was asked there. */

/**
 * @typedef {{asked: Set<string>, answer: import("./types.js").Answer|null, explanation: any, certificate: any,
 *   neighbours: import("./types.js").Policy[]|null, vsmc: import("./types.js").Policy|null,
 *   soft: import("./types.js").Policy|null}} Place
 */

/** @returns {Place} */
function empty() {
  return { asked: new Set(), answer: null, explanation: null, certificate: null, neighbours: null, vsmc: null, soft: null };
}

const NOTHING = Object.freeze(empty());

export class Data {
  constructor() {
    /** @type {import("./types.js").Path|null} */ this.path = null;
    /** @type {import("./types.js").Answer|null} */ this.given = null;
    this.givenFor = "";
    this.givenDraft = false;
    /** @type {Map<number, Place>} */ this.places = new Map();
    /** Shown until those of another scale are there. @type {import("./types.js").Policy[]} */ this.lastNeighbours = [];
  }

  /** What there is at a scale, to read. @param {number} scale @returns {Readonly<Place>} */
  at(scale) {
    return this.places.get(scale) ?? NOTHING;
  }

  /** What there is at a scale, to add to. @param {number} scale @returns {Place} */
  keep(scale) {
    const found = this.places.get(scale) ?? empty();
    this.places.set(scale, found);
    return found;
  }

  /** The answer at the problem's own rewards. */
  get answer() {
    return this.at(1).answer;
  }
}
