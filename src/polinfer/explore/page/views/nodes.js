// @ts-check
/** Problems that are no grid: Tireworld's map, Blackjack's chart, and graphs of other tables. */

import { actionName, isEven, percent, variation } from "../model/shown.js";
import { svg } from "./dom.js";

/** @typedef {import("../app.js").App} App */

export class Drawing {
  /** @param {App} app @param {string} kind @param {number} reach how large the cursor is */
  constructor(app, kind, reach) {
    this.app = app;
    /** The state that the keys are at. @type {number|null} */ this.at = null;
    this.cursor = svg("circle", { class: "cursor", r: reach, cx: -9, cy: -9 });
    this.element = svg("svg", { class: `picture ${kind}`, tabindex: 0, role: "application" });
    this.element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this._key(event));
    this.trail = svg("path", { class: "trail" });
    this.agent = svg("circle", { class: "agent", r: 0.13, cx: -9, cy: -9 });
  }

  /** Where a state is in the picture. @param {number} _s @returns {number[]|null} */
  _at(_s) {
    return null;
  }

  /** @param {SVGElement[]} parts */
  _show(parts) {
    this.element.classList.toggle("stale", this.app.stale);
    this.element.replaceChildren(...parts, this.trail, this.agent, this.cursor);
    const chosen = this.app.state.select;
    if (this.at === null || this._at(this.at) === null) this.at = chosen !== null && this._at(chosen) ? chosen : this._stops()[0] ?? null;
    this._point();
  }

  /** Draw the cursor where the keys are. */
  _point() {
    const at = this.at === null ? null : this._at(this.at);
    this.cursor.setAttribute("cx", String(at ? at[0] : -9));
    this.cursor.setAttribute("cy", String(at ? at[1] : -9));
  }

  /** The states that the keys go to: one a place. @returns {number[]} */
  _stops() {
    const info = this.app.info;
    return info ? info.states.map((_, s) => s).filter((s) => this._at(s) !== null) : [];
  }

  /** Show where the agent is. @param {number|null} s @param {number[]} [before] */
  agentAt(s, before = []) {
    const at = s === null ? null : this._at(s);
    this.agent.setAttribute("cx", String(at ? at[0] : -9));
    this.agent.setAttribute("cy", String(at ? at[1] : -9));
    const line = at ? [...before.map((b) => this._at(b)), at].filter((one) => one !== null) : [];
    this.trail.setAttribute("d", line.map((one, i) => `${i ? "L" : "M"}${one[0].toFixed(3)} ${one[1].toFixed(3)}`).join(""));
  }

  /** The largest standard error of an action of a state. @param {number} s */
  _error(s) {
    const errors = this.app.shown()?.stderr;
    const actions = this.app.info?.actions.length ?? 0;
    let most = 0;
    if (errors) for (let a = 0; a < actions; a++) most = Math.max(most, errors[s * actions + a]);
    return most;
  }

  /** A dashed ring, wider where less is known. @param {number} s @param {number} x @param {number} y @param {number} r */
  _ring(s, x, y, r) {
    const error = this._error(s);
    return error > 0.01 && svg("circle", { class: "ring", cx: x, cy: y, r: r + Math.min(0.15, 0.02 + error) });
  }

  /** Arrow keys go to the nearest state on that side, Enter chooses it. @param {KeyboardEvent} event */
  _key(event) {
    const info = this.app.info;
    const way = { ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowDown: [0, 1] }[event.key];
    const from = this.at === null ? null : this._at(this.at);
    if (!info || this.at === null || !from) return;
    if (way) {
      const found = toward(from, way, this._stops().map((s) => /** @type {number[]} */ (this._at(s))));
      if (found >= 0) this.at = this._stops()[found];
      this._point();
      this.app.say(`${info.states[this.at]}. ${this.app.describe(this.at)}`);
    } else if (event.key === "Enter" || event.key === " ") this._choose(this.at);
    else return;
    event.preventDefault();
  }

  /** @param {number} s */
  _choose(s) {
    this.at = s;
    this.app.select(s);
  }

  /** @param {number} s */
  _pick(s) {
    return { onclick: () => this._choose(s), class: "pick" };
  }
}

/** Which of some points is next in a direction: near, and not far aside; -1 where there is none.
 * @param {number[]} from @param {number[]} way @param {number[][]} points */
export function toward([x, y], [dx, dy], points) {
  let best = -1;
  let least = Infinity;
  points.forEach(([px, py], i) => {
    const along = (px - x) * dx + (py - y) * dy;
    const aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
    if (along > 1e-6 && aside <= 3 * along && along + 2 * aside < least) [best, least] = [i, along + 2 * aside];
  });
  return best;
}

/** Blackjack: rows are the player's totals, columns the dealer's card; the share of *hit* is written and filled. */
export class CardsView extends Drawing {
  /** @param {App} app */
  constructor(app) {
    super(app, "cards", 0.47);
    /** @type {Map<number, number[]>} */ this.spots = new Map();
  }

  /** @param {number} s */
  _at(s) {
    return this.spots.get(s) ?? null;
  }

  draw() {
    const { app } = this;
    const info = app.info;
    const shown = app.shown();
    if (!info || !shown) return;
    const { rows, chart } = info.picture;
    const other = app.state.against ? app.against() : null;
    const parts = [];
    const hard = rows.filter((row) => row.startsWith("hard")).length;
    const second = 12.4;
    this.spots.clear();
    this.element.setAttribute("viewBox", `-2.2 -1.5 ${second + 12.4} ${0.95 * hard + 1.6}`);
    for (const left of [0, second]) {
      for (let d = 0; d < 10; d++) parts.push(svg("text", { class: "head", x: left + d + 0.5, y: -0.2 }, d ? d + 1 : "A"));
      parts.push(svg("text", { class: "head", x: left + 5, y: -0.85 }, other ? "apart, in percent, by dealer’s card" : "percent that hit, by dealer’s card"));
    }
    rows.forEach((row, r) => {
      const left = r < hard ? 0 : second;
      const y = 0.95 * (r < hard ? r : r - hard);
      parts.push(svg("text", { class: "side", x: left - 0.2, y: y + 0.6 }, row));
      chart[r].forEach((s, column) => {
        if (s < 0) return;
        const d = left + column;
        const error = this._error(s);
        this.spots.set(s, [d + 0.5, y + 0.46]);
        const hit = shown.policy.policy[s * 2 + 1];
        const apart = other ? variation(shown.policy.policy, other.policy.policy, s, 2) : 0;
        const group = svg("g", this._pick(s),
          svg("title", {}, `${info.states[s]}: ${app.describe(s)}`),
          svg("rect", { class: "card", x: d + 0.03, y: y + 0.02, width: 0.94, height: 0.89, rx: 0.06 }),
          svg("rect", { class: "hit", x: d + 0.03, y: y + 0.02, width: 0.94 * hit, height: 0.89, rx: 0.06 }),
          other && svg("rect", { class: "difference", x: d + 0.03, y: y + 0.02, width: 0.94, height: 0.89, rx: 0.06, "fill-opacity": apart }),
          error > 0.01 && svg("line", { class: "spread", x1: d + 0.03 + 0.94 * Math.max(0, hit - error), x2: d + 0.03 + 0.94 * Math.min(1, hit + error), y1: y + 0.84, y2: y + 0.84 }),
          svg("text", { x: d + 0.5, y: y + 0.6 }, Math.round(100 * (other ? apart : hit))));
        if (isEven(info, shown.policy.policy, s)) group.append(svg("path", { class: "even", d: `M${d + 0.87} ${y + 0.06}l.08 .08l-.08 .08l-.08 -.08z` }));
        if (app.state.select === s) group.append(svg("rect", { class: "select", x: d + 0.02, y: y + 0.01, width: 0.96, height: 0.91, rx: 0.06 }));
        parts.push(group);
      });
    });
    this._show(parts);
  }
}

/** Tireworld: roads as wide as the share of moves that takes them. */
export class RoadsView extends Drawing {
  /** @param {App} app */
  constructor(app) {
    super(app, "roads", 0.25);
  }

  /** Of each place the state that is visited most. */
  _stops() {
    return [...new Set(this.app.info?.picture.place)].flatMap((at) => this._states(at).slice(0, 1));
  }

  /** The states of a place in which something is chosen, those visited most first. @param {number} at */
  _states(at) {
    const { info } = this.app;
    const visits = this.app.shown()?.policy.occupancy;
    const found = info ? info.picture.place.flatMap((place, s) => (place === at && info.choices.has(s) ? [s] : [])) : [];
    return visits ? found.sort((a, b) => visits[b] - visits[a]) : found;
  }

  /** Choose a place: its state that is visited most, and when it is chosen already, its next one. @param {number} s */
  _choose(s) {
    const states = this._states(this.app.info?.picture.place[s] ?? -1);
    const now = states.indexOf(this.app.state.select ?? -1);
    super._choose(states.length ? states[(now + 1) % states.length] : s);
  }

  /** @param {number} s */
  _at(s) {
    const { nodes, place } = this.app.info?.picture ?? { nodes: [], place: [] };
    return nodes[place[s]] ?? null;
  }

  draw() {
    const { app } = this;
    const info = app.info;
    const shown = app.shown();
    if (!info || !shown) return;
    const { nodes, edges, roads, place, marks, labels, width, height } = info.picture;
    const { policy, occupancy } = shown.policy;
    const actions = info.actions.length;
    const other = app.state.against ? app.against() : null;
    const flow = new Float32Array(edges.length);
    const apart = new Float32Array(nodes.length);
    const seen = new Float32Array(nodes.length);
    const out = new Float32Array(nodes.length);
    place.forEach((at, s) => {
      seen[at] += occupancy[s];
      if (info.absorbing.has(s)) return;
      if (other) apart[at] += occupancy[s] * variation(policy, other.policy.policy, s, actions);
      roads[at].forEach((edge, a) => {
        flow[edge] += occupancy[s] * policy[s * actions + a];
        out[at] += occupancy[s] * policy[s * actions + a];
      });
    });
    const most = Math.max(...seen, 1e-9);
    this.element.setAttribute("viewBox", `-0.5 -0.5 ${width + 1} ${height + 1}`);
    const parts = edges.map(([a, b], k) => {
      const share = out[a] > 0 ? flow[k] / out[a] : 0;
      const [x1, y1] = nodes[a];
      const [x2, y2] = nodes[b];
      const long = Math.hypot(x2 - x1, y2 - y1);
      const [ux, uy] = [(x2 - x1) / long, (y2 - y1) / long];
      const [sx, sy, tx, ty] = [x1 + 0.22 * ux, y1 + 0.22 * uy, x2 - 0.24 * ux, y2 - 0.24 * uy];
      const w = 0.075 * share;
      const head = 0.05 + w;
      const d = share < 0.004 ? `M${sx} ${sy}L${tx} ${ty}` :
        `M${sx - uy * w} ${sy + ux * w}L${tx - 0.16 * ux - uy * w} ${ty - 0.16 * uy + ux * w}L${tx - 0.16 * ux - uy * head} ${ty - 0.16 * uy + ux * head}` +
        `L${tx} ${ty}L${tx - 0.16 * ux + uy * head} ${ty - 0.16 * uy - ux * head}L${tx - 0.16 * ux + uy * w} ${ty - 0.16 * uy - ux * w}L${sx + uy * w} ${sy - ux * w}z`;
      return svg("path", { class: share < 0.004 ? "road" : "beam", d }, svg("title", {}, `${labels[a]} to ${labels[b]}: ${percent(share)} of the moves`));
    });
    nodes.forEach(([x, y], at) => {
      const states = this._states(at);
      const chosen = app.state.select !== null && place[app.state.select] === at;
      parts.push(svg("g", states.length ? this._pick(states[0]) : {},
        svg("title", {}, `${labels[at]} ${marks[at]}: ${seen[at].toFixed(2)} visits${other ? `, ${percent(apart[at] / (seen[at] || 1))} apart` : ""}`),
        svg("circle", { class: `place at-${marks[at]}`, cx: x, cy: y, r: 0.19 }),
        marks[at] !== "goal" && !other && svg("circle", { class: "visits", cx: x, cy: y, r: 0.19, "fill-opacity": 0.75 * seen[at] / most }),
        other && svg("circle", { class: "difference", cx: x, cy: y, r: 0.19, "fill-opacity": Math.min(1, apart[at] / (seen[at] || 1)) }),
        states.length > 0 && this._ring(states[0], x, y, 0.19),
        states.some((s) => isEven(info, policy, s)) && svg("path", { class: "even", d: `M${x - 0.2} ${y - 0.27}l.07 .07l-.07 .07l-.07 -.07z` }),
        marks[at] === "spare" && svg("circle", { class: "spare", cx: x + 0.17, cy: y - 0.17, r: 0.06 }),
        svg("text", { class: "mark", x, y: y + 0.35 }, marks[at] === "start" || marks[at] === "goal" ? marks[at] : ""),
        svg("text", { class: "mark soft inside", x, y: y + 0.04 }, labels[at].replace(/^la?/, "").replace("a", "·")),
        chosen && svg("circle", { class: "select", cx: x, cy: y, r: 0.22 })));
    });
    this._show(parts);
  }
}

/** Any table of few states: states in columns by their distance from the start, actions as edges. */
export class GraphView extends Drawing {
  /** @param {App} app */
  constructor(app) {
    super(app, "graph", 0.33);
  }

  /** @param {number} s */
  _at(s) {
    const nodes = this.app.info?.picture.nodes ?? [];
    return nodes[s] ? [nodes[s][0] * 1.9, nodes[s][1] * (nodes.length > 60 ? 0.7 : 1.1)] : null;
  }

  draw() {
    const { app } = this;
    const info = app.info;
    const shown = app.shown();
    if (!info || !shown) return;
    const { nodes, width, height, edges } = info.picture;
    const { policy, occupancy } = shown.policy;
    const actions = info.actions.length;
    const other = app.state.against ? app.against() : null;
    const at = (/** @type {number} */ s) => /** @type {number[]} */ (this._at(s));
    const [gx, gy] = [1.9, nodes.length > 60 ? 0.7 : 1.1];
    const flow = this._flows(policy);
    const most = Math.max(...occupancy, 1e-9);
    this.element.setAttribute("viewBox", `-1 -1 ${width * gx + 2} ${height * gy + 2}`);
    const parts = edges.map(([a, b]) => {
      const share = flow.get(`${a},${b}`) ?? 0;
      const [[x1, y1], [x2, y2]] = [at(a), at(b)];
      const d = a === b ? `M${x1 - 0.12} ${y1 - 0.25}C${x1 - 0.5} ${y1 - 0.95} ${x1 + 0.5} ${y1 - 0.95} ${x1 + 0.12} ${y1 - 0.25}` :
        `M${x1} ${y1}C${x1 + 0.4 * (x2 - x1)} ${y1 - (x2 <= x1 ? 0.5 : 0)} ${x2 - 0.4 * (x2 - x1)} ${y2 - (x2 <= x1 ? 0.5 : 0)} ${x2} ${y2}`;
      return svg("path", { class: share > 0.004 ? "flow" : "road", d, "stroke-width": 0.015 + 0.11 * share },
        svg("title", {}, `${info.states[a]} to ${info.states[b]}: ${percent(share)}`));
    });
    nodes.forEach((_, s) => {
      const [x, y] = at(s);
      const best = info.absorbing.has(s) ? "" : actionName(info, s, argmax(policy, s * actions, actions));
      parts.push(svg("g", this._pick(s),
        svg("title", {}, `${info.states[s]}: ${app.describe(s)}`),
        svg("circle", { class: `place ${info.absorbing.has(s) ? "end" : ""}`, cx: x, cy: y, r: 0.26 }),
        other && !info.absorbing.has(s) && svg("circle", { class: "difference", cx: x, cy: y, r: 0.26, "fill-opacity": variation(policy, other.policy.policy, s, actions) }),
        this._ring(s, x, y, 0.26),
        !info.absorbing.has(s) && !other && svg("circle", { class: "visits", cx: x, cy: y, r: 0.26, "fill-opacity": 0.7 * occupancy[s] / most }),
        isEven(info, policy, s) && svg("path", { class: "even", d: `M${x + 0.26} ${y - 0.34}l.09 .09l-.09 .09l-.09 -.09z` }),
        app.state.select === s && svg("circle", { class: "select", cx: x, cy: y, r: 0.3 }),
        nodes.length <= 40 && svg("text", { class: "mark", x, y: y + 0.47 }, info.states[s].slice(0, 14)),
        nodes.length <= 40 && best && svg("text", { class: "mark soft", x, y: y + 0.66 }, `${best.slice(0, 12)} ${percent(Math.max(...policy.subarray(s * actions, (s + 1) * actions)))}`)));
    });
    this._show(parts);
  }

  /** @param {Float32Array} policy @returns {Map<string, number>} the probability of each transition under the policy */
  _flows(policy) {
    const info = /** @type {import("../model/types.js").Info} */ (this.app.info);
    const flow = new Map();
    const table = info.outcomes;
    if (!table) return flow;
    const actions = info.actions.length;
    for (let s = 0; s < info.states.length; s++) {
      if (info.absorbing.has(s)) continue;
      for (let a = 0; a < actions; a++) {
        for (let b = 0; b < table.branches; b++) {
          const i = (s * actions + a) * table.branches + b;
          const key = `${s},${table.successor[i]}`;
          flow.set(key, (flow.get(key) ?? 0) + policy[s * actions + a] * table.probability[i]);
        }
      }
    }
    return flow;
  }
}

/** @param {Float32Array} values @param {number} from @param {number} count */
function argmax(values, from, count) {
  let best = 0;
  for (let i = 1; i < count; i++) if (values[from + i] > values[from + best]) best = i;
  return best;
}
