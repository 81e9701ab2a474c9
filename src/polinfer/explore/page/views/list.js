// @ts-check
/** All states as a table that can be sorted: what every problem has, whatever its size. */

import { actionName, fmt, isEven, percent, variation } from "../model/shown.js";
import { h, keepFocus, replace } from "./dom.js";

const SHOWN = 400;
/** Columns of words. */
const LEFT = ["name", "action", "sure"];

export class ListView {
  /** @param {import("../app.js").App} app */
  constructor(app) {
    this.app = app;
    this.by = "visits";
    this.down = true;
    /** @type {any[]} */ this.rows = [];
    /** @type {string[]} */ this.columns = [];
    this.element = h("div", { class: "picture list", tabindex: 0, role: "region", "aria-label": "States" });
  }

  agentAt(/** @type {number|null} */ _state) {}

  draw() {
    const { app } = this;
    const info = app.info;
    const shown = app.shown();
    if (!info || !shown) return;
    const actions = info.actions.length;
    const other = app.state.against ? app.against() : null;
    const rows = info.states.map((name, s) => {
      const row = shown.policy.policy.subarray(s * actions, (s + 1) * actions);
      const best = row.indexOf(Math.max(...row));
      const even = isEven(info, shown.policy.policy, s);
      const end = info.absorbing.has(s);
      const sure = end ? "end" : !info.choices.has(s) ? "forced" : even ? "◆ toss-up" : row[best] >= info.clear ? "clear" : "leaning";
      return {
        s, name, visits: shown.policy.occupancy[s], action: end ? "" : actionName(info, s, best), chance: end ? 0 : row[best], sure,
        error: end ? 0 : shown.stderr?.[s * actions + best] ?? 0,
        apart: other && !end ? variation(shown.policy.policy, other.policy.policy, s, actions) : 0,
      };
    });
    const by = /** @type {"visits"} */ (this.by);
    rows.sort((a, b) => (a[by] < b[by] ? 1 : a[by] > b[by] ? -1 : a.s - b.s) * (this.down ? 1 : -1));
    const head = [["name", "state"], ["visits", "visits"], ["action", "most probable"], ["chance", "probability"], ["error", "std. error"], ["sure", "how sure"], ...(other ? [["apart", "apart"]] : [])];
    this.rows = rows;
    this.columns = head.map(([, title]) => title);
    this.element.classList.toggle("stale", app.stale);
    keepFocus(this.element, () => replace(this.element, h("table", {},
      h("thead", {}, h("tr", {}, head.map(([key, title]) =>
        h("th", { scope: "col", class: LEFT.includes(key) ? "" : "number", "aria-sort": key === this.by ? (this.down ? "descending" : "ascending") : "none" },
          h("button", { class: "plain", id: `sort-${key}`, onclick: () => this._sort(key) }, title, key === this.by ? (this.down ? " ▾" : " ▴") : ""))))),
      h("tbody", {}, rows.slice(0, SHOWN).map((row) =>
        h("tr", { class: row.s === app.state.select ? "chosen" : "", onclick: () => app.select(row.s) },
          h("th", { scope: "row" }, h("button", { class: "plain", onclick: () => app.select(row.s) }, row.name)),
          this.cells(row).slice(1).map((cell, i) => h("td", { class: LEFT.includes(head[i + 1][0]) ? "words" : "" }, cell)))))),
      rows.length > SHOWN && h("p", { class: "soft" }, `and ${rows.length - SHOWN} more; sort to see others first`)));
  }

  /** What a row says. @param {any} row @returns {string[]} */
  cells(row) {
    const error = row.error > 5e-4 ? `±${(100 * row.error).toFixed(1)}` : "";
    const said = [row.name, fmt(row.visits, 3), row.action, row.action ? percent(row.chance) : "", error, row.sure];
    return this.columns.includes("apart") ? [...said, row.action ? percent(row.apart) : ""] : said;
  }

  /** @param {string} key */
  _sort(key) {
    this.down = this.by === key ? !this.down : key !== "name";
    this.by = key;
    this.draw();
  }
}
