// @ts-check
/** All states as a table that can be sorted: what every problem has, whatever its size. */

import { fmt, isEven, percent } from "../model/shown.js";
import { h, replace } from "./dom.js";

const SHOWN = 400;

export class ListView {
  /** @param {import("../app.js").App} app */
  constructor(app) {
    this.app = app;
    this.by = "visits";
    this.down = true;
    this.element = h("div", { class: "picture list", tabindex: 0, role: "region", "aria-label": "States" });
  }

  agentAt(/** @type {number|null} */ _state) {}

  draw() {
    const { app } = this;
    const info = app.info;
    const shown = app.shown();
    if (!info || !shown) return;
    const actions = info.actions.length;
    const rows = info.states.map((name, s) => {
      const row = shown.policy.policy.subarray(s * actions, (s + 1) * actions);
      const best = row.indexOf(Math.max(...row));
      const even = isEven(info, shown.policy.policy, s);
      const end = info.absorbing.has(s);
      const sure = end ? "end" : !info.choices.has(s) ? "forced" : even ? "◆ toss-up" : row[best] >= info.clear ? "clear" : "leaning";
      return { s, name, visits: shown.policy.occupancy[s], action: end ? "" : info.actions[best], chance: end ? 0 : row[best], sure };
    });
    const by = /** @type {"visits"} */ (this.by);
    rows.sort((a, b) => (a[by] < b[by] ? 1 : a[by] > b[by] ? -1 : a.s - b.s) * (this.down ? 1 : -1));
    const head = [["name", "state"], ["visits", "visits"], ["action", "most probable"], ["chance", "probability"], ["sure", "how sure"]];
    this.element.classList.toggle("stale", app.stale);
    replace(this.element, h("table", {},
      h("thead", {}, h("tr", {}, head.map(([key, title]) =>
        h("th", { scope: "col", "aria-sort": key === this.by ? (this.down ? "descending" : "ascending") : "none" },
          h("button", { class: "plain", onclick: () => this._sort(key) }, title, key === this.by ? (this.down ? " ▾" : " ▴") : ""))))),
      h("tbody", {}, rows.slice(0, SHOWN).map((row) =>
        h("tr", { class: row.s === app.state.select ? "chosen" : "", onclick: () => app.select(row.s) },
          h("th", { scope: "row" }, h("button", { class: "plain", onclick: () => app.select(row.s) }, row.name)),
          h("td", {}, fmt(row.visits, 3)), h("td", {}, row.action),
          h("td", {}, row.action ? percent(row.chance) : ""), h("td", {}, row.sure))))),
      rows.length > SHOWN && h("p", { class: "soft" }, `and ${rows.length - SHOWN} more; sort to see others first`));
  }

  /** @param {string} key */
  _sort(key) {
    this.down = this.by === key ? !this.down : key !== "name";
    this.by = key;
    this.draw();
  }
}
