// @ts-check
/** Any view as a picture of its own: SVG with its colours written out, or PNG. */

import { actionName, percent } from "../model/shown.js";
import { h, svg } from "./dom.js";

const STYLES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
  "stroke-linejoin", "paint-order", "vector-effect", "opacity", "visibility", "font-size", "font-family",
  "font-weight", "text-anchor",
];
const WIDE = 1200;

/** @typedef {{text: string, wide: number, tall: number}} Picture */

/** @param {SVGElement} source @returns {Picture} */
export function pictureOf(source) {
  const copy = /** @type {SVGElement} */ (source.cloneNode(true));
  // Styles are only computed for what is in the document; a chart of another tab is not.
  const room = h("div", { class: "unseen", "aria-hidden": true }, copy);
  document.body.append(room);
  for (const element of copy.querySelectorAll("*")) {
    const style = getComputedStyle(element);
    for (const name of STYLES) element.setAttribute(name, style.getPropertyValue(name));
  }
  const ground = getComputedStyle(document.body).backgroundColor;
  room.remove();
  const [x, y, w, t] = (source.getAttribute("viewBox") ?? "0 0 1 1").split(" ").map(Number);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  for (const name of ["class", "tabindex", "role", "preserveAspectRatio"]) copy.removeAttribute(name);
  copy.prepend(svg("rect", { x, y, width: w, height: t, fill: ground }));
  const tall = Math.round((WIDE * t) / w);
  copy.setAttribute("width", String(WIDE));
  copy.setAttribute("height", String(tall));
  return { text: new XMLSerializer().serializeToString(copy), wide: WIDE, tall };
}

/** The list of states, drawn. @param {import("./list.js").ListView} list @returns {SVGElement} */
export function drawnList(list) {
  const rows = [list.columns, ...list.rows.map((row) => list.cells(row))];
  const wide = list.columns.map((_, i) => 2 + Math.max(...rows.map((row) => row[i].length)));
  const tall = 20;
  const parts = rows.map((row, r) => {
    let x = 12;
    return row.map((cell, i) => {
      const text = svg("text", { x, y: (r + 1) * tall, class: r ? "cell" : "cell head" }, cell);
      x += 8 * wide[i];
      return text;
    });
  });
  const whole = 24 + 8 * wide.reduce((a, b) => a + b, 0);
  return svg("svg", { class: "drawnlist", viewBox: `0 0 ${whole} ${(rows.length + 1) * tall}` }, parts.flat());
}

/** The probabilities of one state, with their standard errors, drawn.
 * @param {import("../app.js").App} app @param {number} s @returns {SVGElement} */
export function drawnActions(app, s) {
  const info = /** @type {import("../model/types.js").Info} */ (app.info);
  const shown = /** @type {NonNullable<import("../model/shown.js").Shown>} */ (app.shown());
  const count = info.actions.length;
  const rows = info.actions.map((_, a) => ({ a, p: shown.policy.policy[s * count + a], error: shown.stderr?.[s * count + a] ?? 0 }))
    .filter(({ a }) => !info.illegal.has(`${s},${a}`)).sort((one, other) => other.p - one.p);
  const parts = rows.map(({ a, p, error }, i) => {
    const y = 34 + 24 * i;
    return [
      svg("text", { class: "cell", x: 12, y: y + 13 }, actionName(info, s, a)),
      svg("rect", { class: "ground pavement", x: 170, y, width: 200, height: 17 }),
      svg("rect", { class: "hit", x: 170, y, width: 200 * p, height: 17 }),
      error > 0.002 && svg("line", { class: "spread", x1: 170 + 200 * Math.max(0, p - error), x2: 170 + 200 * Math.min(1, p + error), y1: y + 8.5, y2: y + 8.5 }),
      svg("text", { class: "cell", x: 380, y: y + 13 }, `${percent(p)}${error > 0.002 ? ` ±${(100 * error).toFixed(1)}` : ""}`),
    ];
  });
  return svg("svg", { class: "drawnlist", viewBox: `0 0 470 ${44 + 24 * rows.length}` },
    svg("text", { class: "cell", x: 12, y: 20 }, `${info.states[s]}: ${shown.label}`), parts.flat());
}

/** @param {Picture} picture @returns {Promise<Blob>} */
export async function rasterOf({ text, wide, tall }) {
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [wide, tall];
  canvas.getContext("2d")?.drawImage(image, 0, 0, wide, tall);
  URL.revokeObjectURL(address);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The picture is too large."))), "image/png"));
}

/** @param {string} name @param {Blob} blob */
export function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
