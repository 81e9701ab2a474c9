// @ts-check
/** Drawing: kinds of cells, sizes, slip, horizon and rewards; undo and redo; maps in the project's own format. */

import { History, KINDS, isOnlyStart, paint, parse, resize, rowsOf } from "../model/maps.js";
import { h, replace } from "./dom.js";
import { download } from "./export.js";

const FIELDS = [
  ["success_prob", "Success", 0, 1, 0.05, 0.8],
  ["horizon", "Steps at most", 1, 1000, 1, 20],
  ["goal_reward", "Goal pays", -100, 100, 0.5, 5],
  ["swamp_reward", "Swamp pays", -100, 100, 0.5, -5],
  ["gravel_reward", "Gravel pays", -100, 100, 0.5, -1],
  ["step_reward", "A step pays", -10, 10, 0.05, -0.1],
  ["reward_scale", "All rewards ×", 0.001, 1000, 0.1, 1],
];

export class Editor {
  /** @param {import("../app.js").App} app */
  constructor(app) {
    this.app = app;
    this.tool = "";
    this.history = new History();
    /** @type {import("../model/types.js").ProblemRequest|null} */ this.before = null;
    this.element = h("aside", { class: "editor", "aria-label": "Draw" });
    this.file = h("input", { type: "file", accept: ".txt,.map,.json,text/plain", hidden: true, "aria-hidden": true, onchange: () => this._open() });
    this.drawn = "";
  }

  /** The problem as a map, if it is one. @returns {any} */
  get grid() {
    const { state, info } = this.app;
    if (state.problem?.type === "grid") return state.problem;
    return info?.grid ? { ...info.grid, type: "grid" } : null;
  }

  draw() {
    const grid = this.grid;
    const focused = document.activeElement?.id;
    const { info } = this.app;
    // Of a map nothing but the map counts: a number that is being typed stays while records arrive.
    const signature = JSON.stringify(grid ? [grid, this.tool, this.history.past.length, this.history.future.length] : [info?.title, info?.states.length]);
    if (signature === this.drawn) return;
    this.drawn = signature;
    replace(this.element, grid ? this._tools(grid) : this._facts(), this.file);
    if (focused) document.getElementById(focused)?.focus();
  }

  /** @param {any} grid */
  _tools(grid) {
    const rows = rowsOf(grid.map);
    const live = this.app.client.live;
    const size = (/** @type {string} */ id, /** @type {string} */ name, /** @type {number} */ value, /** @type {(n: number) => string} */ change) =>
      h("label", {}, h("span", { class: "unseen" }, name), h("input", { id, type: "number", class: "short", min: 1, max: this.app.limits.max_side, value, disabled: !live,
        onchange: (/** @type {any} */ event) => this._change({ map: change(this._read(event.target, value, true)) }) }));
    return [
      h("h2", {}, "Draw"),
      h("div", { class: "tools", role: "radiogroup", "aria-label": "Tool", onkeydown: (/** @type {KeyboardEvent} */ event) => this._toolKey(event) },
        h("button", { id: "tool-look", role: "radio", "aria-checked": !this.tool, tabindex: this.tool ? -1 : 0, class: "tool", onclick: () => this._choose(""), title: "Key 0" },
          h("i", { class: "swatch look" }, "☞"), "ask about cells"),
        KINDS.map((kind) => h("button", { id: `tool-${kind.name}`, role: "radio", "aria-checked": this.tool === kind.letter, tabindex: this.tool === kind.letter ? 0 : -1, class: "tool", disabled: !live,
          onclick: () => this._choose(kind.letter), title: `Key ${kind.key}` },
          h("i", { class: `swatch ${kind.name}` }, { R: "⁘", W: "≈", G: "★", "#": "▦", S: "S" }[kind.letter] ?? ""), kind.name))),
      h("div", { class: "row" },
        h("button", { id: "undo", disabled: !this.history.past.length, onclick: () => this.undo(), title: "Ctrl+Z" }, "↶ Undo"),
        h("button", { id: "redo", disabled: !this.history.future.length, onclick: () => this.redo(), title: "Ctrl+Y" }, "↷ Redo")),
      h("div", { class: "fields" },
        h("div", { class: "size" }, "Size ", size("wide", "columns", rows[0].length, (n) => resize(grid.map, n, rows.length)), "×",
          size("tall", "rows", rows.length, (n) => resize(grid.map, rows[0].length, n))),
        FIELDS.map(([name, title, low, high, step, standard]) => h("label", {}, title,
          h("input", { id: `field-${name}`, type: "number", class: "short", min: low, max: high, step, value: grid[name] ?? standard, disabled: !live,
            onchange: (/** @type {any} */ event) => this._change({ [name]: this._read(event.target, grid[name] ?? standard, name === "horizon") }) })))),
      h("div", { class: "row" },
        h("button", { disabled: !live, onclick: () => this.file.click() }, "Open …"),
        h("button", { onclick: () => download("map.txt", new Blob([grid.map + "\n"], { type: "text/plain" })) }, "Save map")),
    ];
  }

  _facts() {
    const { info } = this.app;
    return [
      h("h2", {}, "Problem"),
      info && h("dl", { class: "numbers" },
        h("dt", {}, "states"), h("dd", {}, info.states.length.toLocaleString("en")),
        h("dt", {}, "actions"), h("dd", {}, info.actions.length),
        h("dt", {}, "steps at most"), h("dd", {}, info.horizon),
        h("dt", {}, "policies"), h("dd", {}, info.log_policies < 30 ? Math.round(Math.exp(info.log_policies)).toLocaleString("en") : `10^${Math.round(info.log_policies / Math.LN10)}`)),
      h("p", { class: "soft" }, "Choose a grid preset above to draw, or open a map or a table."),
      h("div", { class: "row" }, h("button", { disabled: !this.app.client.live, onclick: () => this.file.click() }, "Open …")),
    ];
  }

  /** @param {string} letter */
  _choose(letter) {
    this.tool = letter;
    this.draw();
    this.app.drawPicture();
  }

  /** Arrow keys go from tool to tool, as in any group of radio buttons. @param {KeyboardEvent} event */
  _toolKey(event) {
    const step = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
    if (!step || !this.app.client.live) return;
    event.preventDefault();
    const tools = [{ letter: "", name: "look" }, ...KINDS];
    const next = tools[(tools.findIndex((one) => one.letter === this.tool) + step + tools.length) % tools.length];
    this._choose(next.letter);
    document.getElementById(`tool-${next.name}`)?.focus();
  }

  /** @param {number} x @param {number} y */
  paint(x, y) {
    const grid = this.grid;
    if (!grid || !this.tool || !this.app.client.live) return;
    const map = paint(grid.map, x, y, this.tool);
    if (map === grid.map) {
      if (!this.before && this.tool !== "S" && isOnlyStart(map, x, y)) this.app.note("A map needs its start; move it with the tool start (key 6).");
      return;
    }
    const goesOn = this.before !== null;
    this.before ??= grid;
    this.app.edit({ ...grid, map }, goesOn);
  }

  /** A stroke has ended: it is undone as one. */
  release() {
    if (!this.before) return;
    this.history.push(this.before);
    this.before = null;
    this.draw();
  }

  /** The number in a field, within its bounds; what was there before where it is none. @param {HTMLInputElement} field @param {number} before @param {boolean} whole */
  _read(field, before, whole) {
    const typed = field.value.trim() === "" ? NaN : Number(field.value);
    const inside = Math.min(Number(field.max), Math.max(Number(field.min), Number.isFinite(typed) ? typed : before));
    const value = whole ? Math.round(inside) : inside;
    field.value = String(value);
    return value;
  }

  /** @param {Object<string, any>} change */
  _change(change) {
    const grid = this.grid;
    if (!grid || Object.entries(change).every(([name, value]) => grid[name] === value)) return;
    this.history.push(grid);
    this.app.edit({ ...grid, ...change });
  }

  undo() {
    const found = this.grid && this.history.undo(this.grid);
    if (found) this.app.edit(found);
  }

  redo() {
    const found = this.grid && this.history.redo(this.grid);
    if (found) this.app.edit(found);
  }

  async _open() {
    const file = this.file.files[0];
    this.file.value = "";
    if (!file) return;
    try {
      if (file.size > 2 * 1024 * 1024) throw new Error("The file is larger than 2 MB.");
      const text = await file.text();
      if (file.name.endsWith(".json")) {
        const problem = await this.app.client.openTable(text);
        this.app.files.set(problem.digest, file.name);
        this.app.open(problem);
      }
      else {
        const map = parse(text, this.app.limits.max_side);
        const rows = rowsOf(map);
        this.app.open({ type: "grid", map, horizon: 5 * Math.max(rows.length, rows[0].length) });
      }
    } catch (error) {
      this.app.complain(/** @type {Error} */ (error).message);
    }
  }

  /** @param {KeyboardEvent} event @returns {boolean} whether it was ours */
  key(event) {
    if ((event.ctrlKey || event.metaKey) && !event.altKey) {
      const letter = event.key.toLowerCase();
      if (letter === "z" && !event.shiftKey) this.undo();
      else if (letter === "y" || (letter === "z" && event.shiftKey)) this.redo();
      else return false;
      return true;
    }
    if (event.altKey || !this.grid) return false;
    const kind = KINDS.find((one) => one.key === event.key);
    if (!kind && event.key !== "0" && event.key !== "Escape") return false;
    this._choose(kind ? kind.letter : "");
    return true;
  }
}
