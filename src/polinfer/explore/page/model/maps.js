// @ts-check
/** Text maps: the project's own format, one letter a cell, the top line the highest row. */

export const KINDS = [
  { letter: ".", name: "pavement", key: "1" },
  { letter: "R", name: "gravel", key: "2" },
  { letter: "W", name: "swamp", key: "3" },
  { letter: "G", name: "goal", key: "4" },
  { letter: "#", name: "wall", key: "5" },
  { letter: "S", name: "start", key: "6" },
];

/** @param {string} letter */
export function kindName(letter) {
  return KINDS.find((kind) => kind.letter === letter)?.name ?? "cell";
}

/** @param {string} map */
export function rowsOf(map) {
  return map.split("\n");
}

/**
 * Paint one cell.  There is one start: painting another moves it, and it cannot be painted over.
 * @param {string} map @param {number} x @param {number} y @param {string} letter
 */
export function paint(map, x, y, letter) {
  const rows = rowsOf(map).map((row) => [...row]);
  if (!rows[y] || rows[y][x] === undefined || rows[y][x] === letter || isOnlyStart(map, x, y)) return map;
  if (letter === "S") for (const row of rows) row.forEach((found, i) => (row[i] = found === "S" ? "." : found));
  rows[y][x] = letter;
  return rows.map((row) => row.join("")).join("\n");
}

/**
 * Change the size; new cells are pavement, at the right and at the top, and the start stays inside.
 * @param {string} map @param {number} width @param {number} height
 */
export function resize(map, width, height) {
  const old = rowsOf(map);
  let rows = old.slice(Math.max(0, old.length - height)).map((row) => row.slice(0, width).padEnd(width, "."));
  while (rows.length < height) rows = [".".repeat(width), ...rows];
  if (!rows.some((row) => row.includes("S"))) rows[height - 1] = "S" + rows[height - 1].slice(1);
  return rows.join("\n");
}

/** @param {string} text @param {number} most @returns {string} the map, or throws a sentence */
export function parse(text, most) {
  const rows = text.replace(/^\n+|\n+$/g, "").split("\n").map((row) => row.trimEnd());
  if (!rows[0]) throw new Error("The map is empty; write one line per row, one letter per cell.");
  if (rows.length > most || rows[0].length > most) throw new Error(`A map may have at most ${most} by ${most} cells here.`);
  rows.forEach((row, i) => {
    if (row.length !== rows[0].length) throw new Error(`Line ${i + 1} of the map has ${row.length} cells, line 1 has ${rows[0].length}.`);
    for (const letter of row) {
      if (!KINDS.some((kind) => kind.letter === letter)) throw new Error(`Line ${i + 1} of the map: unknown letter “${letter}”.`);
    }
  });
  if (!rows.some((row) => row.includes("S"))) throw new Error("The map has no start; write S in one cell.");
  return rows.join("\n");
}

/** Whether a cell is the only start, which may be moved but not painted over. @param {string} map @param {number} x @param {number} y */
export function isOnlyStart(map, x, y) {
  return rowsOf(map)[y]?.[x] === "S" && map.indexOf("S") === map.lastIndexOf("S");
}

/** Undo and redo of whole problems. */
export class History {
  constructor() {
    /** @type {import("./types.js").ProblemRequest[]} */ this.past = [];
    /** @type {import("./types.js").ProblemRequest[]} */ this.future = [];
  }

  /** @param {import("./types.js").ProblemRequest} before */
  push(before) {
    this.past.push(before);
    if (this.past.length > 200) this.past.shift();
    this.future = [];
  }

  /** @param {import("./types.js").ProblemRequest} now */
  undo(now) {
    const before = this.past.pop();
    if (before) this.future.push(now);
    return before;
  }

  /** @param {import("./types.js").ProblemRequest} now */
  redo(now) {
    const after = this.future.pop();
    if (after) this.past.push(now);
    return after;
  }
}
