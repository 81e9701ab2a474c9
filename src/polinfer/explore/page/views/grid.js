// @ts-check
/**
 * A grid: kinds of cells by colour, texture and name; visits as darkness; action probabilities as beams;
 * standard errors as dashed rings; toss-ups as diamonds.  A map of any size is about thirty paths, each written
 * once a frame, so that the slider stays smooth.
 */

import { isEven, percent, variation } from "../model/shown.js";
import { kindName } from "../model/maps.js";
import { svg } from "./dom.js";

const LEVELS = 16;
const NAMES = { ".": "pavement", S: "pavement", R: "gravel", W: "swamp", G: "goal", "#": "wall" };

export class GridView {
  /** @param {import("../app.js").App} app */
  constructor(app) {
    this.app = app;
    this.width = 0;
    this.height = 0;
    this.cursor = 0;
    this.dragged = -1;
    this.svg = svg("svg", { class: "picture grid", tabindex: 0, role: "application" });
    this.svg.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => this._press(event));
    this.svg.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => this._drag(event));
    for (const kind of ["pointerup", "pointercancel", "lostpointercapture"]) this.svg.addEventListener(kind, () => this.app.editor?.release());
    this.svg.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this._key(event));
    this.element = this.svg;
    this.letters = "";
  }

  /** @param {string} letters @param {number} width @param {number} height */
  _build(letters, width, height) {
    this.width = width;
    this.height = height;
    this.letters = letters;
    this.svg.setAttribute("viewBox", `-0.06 -0.06 ${width + 0.12} ${height + 0.12}`);
    this.svg.classList.toggle("large", Math.max(width, height) > 12);
    const ground = Object.keys(NAMES).map((letter) => {
      let path = "";
      [...letters].forEach((found, i) => {
        if (found === letter) path += square(i % width, Math.floor(i / width), 0.485, 0.07);
      });
      return svg("path", { class: `ground ${/** @type {any} */ (NAMES)[letter]}`, d: path });
    });
    this.occupancy = Array.from({ length: LEVELS }, (_, i) =>
      svg("path", { class: "visits", "fill-opacity": (0.68 * (i + 1)) / LEVELS }));
    this.difference = Array.from({ length: LEVELS }, (_, i) =>
      svg("path", { class: "difference", "fill-opacity": (i + 1) / LEVELS }));
    this.textures = ["R", "W", "#"].map((letter) =>
      svg("path", { class: `texture ${/** @type {any} */ (NAMES)[letter]}`, d: texture(letters, width, letter) }));
    this.goal = svg("path", { class: "star", d: stars(letters, width) });
    this.start = svg("path", { class: "start", d: starts(letters, width) });
    this.rings = svg("path", { class: "ring" });
    this.beams = svg("path", { class: "beam" });
    this.even = svg("path", { class: "even" });
    this.numbers = svg("g", { class: "numbers", "aria-hidden": true });
    this.given = svg("path", { class: "given" });
    this.trail = svg("path", { class: "trail" });
    this.agent = svg("circle", { class: "agent", r: 0.2, cx: -9, cy: -9 });
    this.select = svg("rect", { class: "select", width: 0.98, height: 0.98, rx: 0.08, x: -9, y: -9 });
    this.hover = svg("rect", { class: "cursor", width: 0.9, height: 0.9, rx: 0.08, x: -9, y: -9 });
    this.svg.replaceChildren(
      ...ground, ...this.occupancy, ...this.difference, ...this.textures, this.goal, this.start, this.rings,
      this.beams, this.even, this.numbers, this.given, this.trail, this.agent, this.select, this.hover);
    this.cursor = Math.min(this.cursor, width * height - 1);
  }

  draw() {
    const { app } = this;
    const request = app.state.problem;
    const picture = app.info?.picture;
    let letters = picture?.letters ?? "";
    let width = picture?.width ?? 1;
    let height = picture?.height ?? 1;
    if (request?.type === "grid" && request.map) {
      const rows = request.map.split("\n");
      width = Math.max(1, ...rows.map((row) => row.length));
      [letters, height] = [rows.map((row) => row.padEnd(width)).join(""), rows.length];
    }
    if (letters !== this.letters || width !== this.width) this._build(letters, width, height);
    const fits = picture?.kind === "grid" && picture.width === width && picture.height === height;
    this.svg.classList.toggle("stale", app.stale);
    this._overlay(fits);
    this._marks();
  }

  /** @param {boolean} fits */
  _overlay(fits) {
    const { app } = this;
    const shown = fits ? app.shown() : null;
    const other = fits && app.state.against ? app.against() : null;
    const visits = Array(LEVELS).fill("");
    const changed = Array(LEVELS).fill("");
    let beams = "";
    let rings = "";
    let even = "";
    /** @type {string[]} */ const words = [];
    if (shown && app.info) {
      const info = app.info;
      const { cell, directions } = info.picture;
      const { policy, occupancy } = shown.policy;
      const actions = info.actions.length;
      let most = 1e-9;
      occupancy.forEach((seen, s) => { if (!info.absorbing.has(s)) most = Math.max(most, seen); });
      for (let s = 0; s < cell.length; s++) {
        if (info.absorbing.has(s) || "#GW".includes(this.letters[cell[s]])) continue;
        const x = cell[s] % this.width;
        const y = Math.floor(cell[s] / this.width);
        const level = Math.ceil(Math.min(1, occupancy[s] / most) * LEVELS - 0.25);
        if (level > 0 && !other) visits[level - 1] += square(x, y, 0.44, 0.07);
        const apart = other ? variation(policy, other.policy.policy, s, actions) : 0;
        if (apart * LEVELS >= 0.5) changed[Math.min(LEVELS, Math.round(apart * LEVELS)) - 1] += square(x, y, 0.485, 0.07);
        let error = 0;
        let best = 0;
        for (let a = 0; a < actions; a++) {
          const p = policy[s * actions + a];
          best = Math.max(best, p);
          if (shown.stderr) error = Math.max(error, shown.stderr[s * actions + a]);
          if (p > 0.004) beams += beam(x + 0.5, y + 0.5, directions[a], 0.46 * p);
        }
        if (error > 0.01) rings += circle(x + 0.5, y + 0.5, Math.min(0.44, 0.06 + 1.5 * error));
        if (isEven(info, policy, s)) even += diamond(x + 0.86, y + 0.14, this.width > 12 ? 0.1 : 0.07);
        if (this.width <= 8 && this.height <= 8) words.push(`${x},${y},${other ? `Δ ${percent(apart)}` : percent(best)}`);
      }
    }
    this.occupancy?.forEach((path, i) => path.setAttribute("d", visits[i]));
    this.difference?.forEach((path, i) => path.setAttribute("d", changed[i]));
    this.beams.setAttribute("d", beams);
    this.rings.setAttribute("d", rings);
    this.even.setAttribute("d", even);
    this._write(words);
  }

  /** @param {string[]} words */
  _write(words) {
    const held = this.numbers.children;
    while (held.length > words.length) held[held.length - 1].remove();
    words.forEach((word, i) => {
      const [x, y, text] = word.split(",");
      const label = held[i] ?? this.numbers.appendChild(svg("text", {}));
      if (label.textContent !== text) label.textContent = text;
      label.setAttribute("x", Number(x) + 0.09);
      label.setAttribute("y", Number(y) + 0.93);
    });
  }

  _marks() {
    const { app } = this;
    const cell = app.info?.picture.cell ?? [];
    const at = (/** @type {number} */ s) => [cell[s] % this.width, Math.floor(cell[s] / this.width)];
    const chosen = app.state.select;
    if (chosen !== null && cell[chosen] !== undefined) {
      const [x, y] = at(chosen);
      this.select.setAttribute("x", x + 0.01);
      this.select.setAttribute("y", y + 0.01);
    } else this.select.setAttribute("x", -9);
    let given = "";
    for (const [s, a] of app.state.given) {
      if (cell[s] === undefined || !app.info) continue;
      const [x, y] = at(s);
      const [dx, dy] = app.info.picture.directions[a] ?? [0, 0];
      given += square(x, y, 0.47, 0.08) + arrow(x + 0.5, y + 0.5, dx, dy);
    }
    this.given.setAttribute("d", given);
    this.hover.setAttribute("x", (this.cursor % this.width) + 0.05);
    this.hover.setAttribute("y", Math.floor(this.cursor / this.width) + 0.05);
  }

  /** Show where the agent is. @param {number|null} s @param {number[]} [before] */
  agentAt(s, before = []) {
    const cell = this.app.info?.picture.cell ?? [];
    if (s === null || cell[s] === undefined) {
      this.agent?.setAttribute("cx", -9);
      this.trail?.setAttribute("d", "");
      return;
    }
    const x = (cell[s] % this.width) + 0.5;
    const y = Math.floor(cell[s] / this.width) + 0.5;
    this.agent.setAttribute("cx", x);
    this.agent.setAttribute("cy", y);
    const line = before.map((b, i) => `${i ? "L" : "M"}${(cell[b] % this.width) + 0.5} ${Math.floor(cell[b] / this.width) + 0.5}`);
    this.trail.setAttribute("d", line.length ? `${line.join("")}L${x} ${y}` : "");
  }

  /** @param {PointerEvent} event @returns {number} the cell, or -1 */
  _cellAt(event) {
    const box = this.svg.getBoundingClientRect();
    const scale = Math.max((this.width + 0.12) / box.width, (this.height + 0.12) / box.height);
    const x = Math.floor((event.clientX - box.left - box.width / 2) * scale + this.width / 2);
    const y = Math.floor((event.clientY - box.top - box.height / 2) * scale + this.height / 2);
    return x < 0 || y < 0 || x >= this.width || y >= this.height ? -1 : y * this.width + x;
  }

  /** @param {PointerEvent} event */
  _press(event) {
    const cell = this._cellAt(event);
    if (cell < 0) return;
    this.cursor = this.dragged = cell;
    // A stroke that leaves the picture ends where the button is released.
    if (event.isTrusted) this.svg.setPointerCapture(event.pointerId);
    this.svg.focus({ preventScroll: true });
    event.preventDefault();
    this._act(cell);
  }

  /** @param {PointerEvent} event */
  _drag(event) {
    if (!(event.buttons & 1) || !this.app.editor?.tool) return;
    const cell = this._cellAt(event);
    if (cell < 0 || cell === this.dragged) return;
    // A fast pointer skips cells: paint those in between.
    const from = this.dragged < 0 ? cell : this.dragged;
    const [x, y] = [from % this.width, Math.floor(from / this.width)];
    const [dx, dy] = [(cell % this.width) - x, Math.floor(cell / this.width) - y];
    const steps = Math.max(1, Math.abs(dx), Math.abs(dy));
    for (let i = 1; i <= steps; i++) this.app.editor.paint(x + Math.round((dx * i) / steps), y + Math.round((dy * i) / steps));
    this.dragged = cell;
  }

  /** @param {number} cell */
  _act(cell) {
    if (this.app.editor?.tool) this.app.editor.paint(cell % this.width, Math.floor(cell / this.width));
    else this.app.select(this.app.info?.picture.cell.indexOf(cell) ?? -1);
  }

  /** @param {KeyboardEvent} event */
  _key(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.width, ArrowDown: this.width }[event.key];
    if (move !== undefined) {
      const next = this.cursor + move;
      const sideways = Math.abs(move) === 1 && Math.floor(next / this.width) !== Math.floor(this.cursor / this.width);
      if (next >= 0 && next < this.width * this.height && !sideways) this.cursor = next;
      this._marks();
      this.app.say(this._describe(this.cursor));
    } else if (event.key === "Enter" || event.key === " ") {
      this._act(this.cursor);
      this.app.editor?.release();
    } else return;
    event.preventDefault();
  }

  /** @param {number} cell */
  _describe(cell) {
    const { info } = this.app;
    const kind = kindName(this.letters[cell]);
    const s = info?.picture.cell.indexOf(cell) ?? -1;
    return s < 0 || !info ? kind : `${info.states[s]}, ${kind}. ${this.app.describe(s)}`;
  }
}

/** @param {number} x @param {number} y @param {number} half @param {number} r a rounded square about the middle of a cell */
function square(x, y, half, r) {
  const side = 2 * half - 2 * r;
  return `M${n(x + 0.5 - half + r)} ${n(y + 0.5 - half)}h${n(side)}a${r} ${r} 0 0 1 ${r} ${r}v${n(side)}a${r} ${r} 0 0 1 ${-r} ${r}h${n(-side)}a${r} ${r} 0 0 1 ${-r} ${-r}v${n(-side)}a${r} ${r} 0 0 1 ${r} ${-r}z`;
}

/** @param {number} x @param {number} y @param {[number, number]} direction @param {number} length */
function beam(x, y, [dx, dy], length) {
  const base = 0.05;
  const tip = 0.026;
  return `M${n(x - dy * base)} ${n(y + dx * base)}L${n(x + dx * length - dy * tip)} ${n(y + dy * length + dx * tip)}` +
    `L${n(x + dx * length + dy * tip)} ${n(y + dy * length - dx * tip)}L${n(x + dy * base)} ${n(y - dx * base)}z`;
}

/** @param {number} x @param {number} y @param {number} r */
function circle(x, y, r) {
  return `M${n(x - r)} ${n(y)}a${n(r)} ${n(r)} 0 1 0 ${n(2 * r)} 0a${n(r)} ${n(r)} 0 1 0 ${n(-2 * r)} 0z`;
}

/** @param {number} x @param {number} y @param {number} r */
function diamond(x, y, r) {
  return `M${n(x)} ${n(y - r)}l${r} ${r}l${-r} ${r}l${-r} ${-r}z`;
}

/** @param {number} x @param {number} y @param {number} dx @param {number} dy */
function arrow(x, y, dx, dy) {
  const [tx, ty] = [x + 0.4 * dx, y + 0.4 * dy];
  return `M${n(x - 0.1 * dx)} ${n(y - 0.1 * dy)}L${n(tx)} ${n(ty)}M${n(tx - 0.13 * dx - 0.11 * dy)} ${n(ty - 0.13 * dy + 0.11 * dx)}` +
    `L${n(tx)} ${n(ty)}L${n(tx - 0.13 * dx + 0.11 * dy)} ${n(ty - 0.13 * dy - 0.11 * dx)}`;
}

/** @param {number} value */
const n = (value) => Math.round(value * 1000) / 1000;

/** @param {string} letters @param {number} width @param {string} kind */
function texture(letters, width, kind) {
  let path = "";
  [...letters].forEach((letter, i) => {
    const x = i % width;
    const y = Math.floor(i / width);
    if (letter !== kind) return;
    if (letter === "R") {
      for (const [dx, dy] of [[0.14, 0.14], [0.5, 0.1], [0.88, 0.42], [0.12, 0.55], [0.84, 0.86], [0.45, 0.9], [0.13, 0.86]])
        path += circle(x + dx, y + dy, 0.028);
    } else if (letter === "W") {
      for (const dy of [0.3, 0.5, 0.7]) path += `M${n(x + 0.2)} ${n(y + dy)}q0.1 -0.1 0.2 0t0.2 0t0.2 0`;
    } else if (letter === "#") {
      for (const d of [0.25, 0.5, 0.75]) path += `M${n(x + 0.06)} ${n(y + d)}h0.88`;
      for (const [dx, dy] of [[0.3, 0.03], [0.7, 0.03], [0.5, 0.25], [0.3, 0.5], [0.7, 0.5], [0.5, 0.75]]) path += `M${n(x + dx)} ${n(y + dy)}v0.22`;
    }
  });
  return path;
}

/** @param {string} letters @param {number} width */
function stars(letters, width) {
  let path = "";
  [...letters].forEach((letter, i) => {
    if (letter !== "G") return;
    for (let k = 0; k < 10; k++) {
      const r = k % 2 ? 0.12 : 0.3;
      const angle = (Math.PI * k) / 5 - Math.PI / 2;
      path += `${k ? "L" : "M"}${n((i % width) + 0.5 + r * Math.cos(angle))} ${n(Math.floor(i / width) + 0.52 + r * Math.sin(angle))}`;
    }
    path += "z";
  });
  return path;
}

/** @param {string} letters @param {number} width */
function starts(letters, width) {
  return [...letters].map((letter, i) => (letter === "S" ? square(i % width, Math.floor(i / width), 0.455, 0.07) : "")).join("");
}
