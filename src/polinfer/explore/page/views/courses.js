// @ts-check
/** Academic Advising: the courses of one record, each filled as far as it is probable to be enrolled in. */

import { isEven, percent, variation } from "../model/shown.js";
import { svg } from "./dom.js";
import { Drawing, toward } from "./nodes.js";

const [W, H, GX, GY] = [1.24, 0.62, 1.75, 0.95];
const NEXT = /** @type {Object<string, string>} */ ({ n: "p", p: "f", f: "n" });
const WORDS = /** @type {Object<string, string>} */ ({ n: "new", p: "✓ passed", f: "✗ failed" });

export class CoursesView extends Drawing {
  /** @param {import("../app.js").App} app */
  constructor(app) {
    super(app, "courses", 0);
    /** The record of an episode that is being watched. @type {number|null} */ this.acting = null;
    /** The course that the keys are at. */ this.course = 0;
    this.frame = svg("rect", { class: "cursor", width: W + 0.12, height: H + 0.12, rx: 0.12 });
  }

  /** @param {number} c where a course is */
  _place(c) {
    const [x, y] = this.app.info?.picture.nodes[c] ?? [-9, -9];
    return [x * GX, y * GY];
  }

  /** Draw the cursor about the course that the keys are at. */
  _point() {
    const [x, y] = this._place(this.course);
    this.frame.setAttribute("x", String(x - W / 2 - 0.06));
    this.frame.setAttribute("y", String(y - H / 2 - 0.06));
  }

  /** The state whose record is shown. */
  _state() {
    const info = /** @type {import("../model/types.js").Info} */ (this.app.info);
    return this.acting ?? this.app.state.select ?? Math.max(0, info.initial.findIndex((share) => share > 0));
  }

  /** @param {number|null} s */
  agentAt(s) {
    if (s === this.acting) return;
    this.acting = s;
    this.draw();
  }

  /** Go to the record in which one course stands otherwise: passed, then failed, then new. @param {number} course */
  toggle(course) {
    const records = this.app.info?.picture.records ?? [];
    const now = records[this._state()];
    let mark = now[course];
    for (let i = 0; i < 2; i++) {
      mark = NEXT[mark];
      const found = records.indexOf(now.slice(0, course) + mark + now.slice(course + 1));
      if (found >= 0) return this.app.select(found);
    }
    this.app.say("No other record differs in this course alone.");
  }

  /** @param {KeyboardEvent} event */
  _key(event) {
    const way = { ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowDown: [0, 1] }[event.key];
    if (way) {
      const found = toward(this._place(this.course), way, (this.app.info?.picture.nodes ?? []).map((_, c) => this._place(c)));
      if (found >= 0) this.course = found;
      this._point();
      this.app.say(this._words(this.course));
    } else if (event.key === "Enter" || event.key === " ") this.toggle(this.course);
    else return;
    event.preventDefault();
  }

  /** How probable it is to enrol in a course. @param {Float32Array} values @param {number} s @param {number} course */
  _share(values, s, course) {
    const info = /** @type {import("../model/types.js").Info} */ (this.app.info);
    return info.picture.sets.reduce((sum, set, a) => sum + (set.includes(course) ? values[s * info.actions.length + a] : 0), 0);
  }

  /** @param {number} course */
  _words(course) {
    const info = this.app.info;
    const shown = this.app.shown();
    if (!info || !shown) return "";
    const { labels, marks, records } = info.picture;
    const s = this._state();
    const share = info.absorbing.has(s) ? "" : `, enrolled in with ${percent(this._share(shown.policy.policy, s, course))}`;
    return `${labels[course]}${marks[course] && ", required"}: ${WORDS[records[s][course]]}${share}`;
  }

  draw() {
    const { app } = this;
    const info = app.info;
    const shown = app.shown();
    if (!info || !shown || info.picture.kind !== "courses") return;
    const { nodes, edges, labels, marks, records, sets, width, height } = info.picture;
    const { policy, occupancy } = shown.policy;
    const other = app.state.against ? app.against() : null;
    const s = this._state();
    const over = info.absorbing.has(s);
    const taken = nodes.map((_, c) => occupancy.reduce((sum, visits, at) => sum + (info.absorbing.has(at) ? 0 : visits * this._share(policy, at, c)), 0));
    const most = Math.max(...taken, 1e-9);
    const at = (/** @type {number} */ c) => this._place(c);
    this.element.setAttribute("viewBox", `-1 -1.15 ${width * GX + 2} ${height * GY + 2.1}`);
    const apart = other && !over ? ` ${percent(variation(policy, other.policy.policy, s, info.actions.length))} apart here.` : "";
    const none = sets.findIndex((set) => !set.length);
    const idle = over || none < 0 ? "" : ` Nothing: ${percent(policy[s * info.actions.length + none])}.`;
    const parts = [svg("text", { class: "mark", x: (width * GX) / 2, y: -0.8 },
      `${over ? "complete" : `record: ${info.states[s]}`}.${idle}${apart}`)];
    for (const [a, b] of edges) {
      const [[x1, y1], [x2, y2]] = [at(a), at(b)];
      parts.push(svg("path", { class: "road", d: `M${x1 + W / 2} ${y1}C${x1 + W / 2 + 0.3} ${y1} ${x2 - W / 2 - 0.3} ${y2} ${x2 - W / 2} ${y2}` },
        svg("title", {}, `${labels[a]} helps to pass ${labels[b]}`)));
    }
    nodes.forEach((_, c) => {
      const [x, y] = at(c);
      const box = { x: x - W / 2, y: y - H / 2, width: W, height: H, rx: 0.08 };
      const share = over ? 0 : this._share(policy, s, c);
      const error = over || !shown.stderr ? 0 : this._most(shown.stderr, s, c);
      const from = x - W / 2 + W * Math.max(0, share - error);
      const to = x - W / 2 + W * Math.min(1, share + error);
      parts.push(svg("g", { class: "pick", onclick: () => { this.course = c; this.toggle(c); } },
        svg("title", {}, `${this._words(c)}; taken ${taken[c].toFixed(2)} times an episode`),
        svg("rect", { class: `place ${marks[c] ? "at-start" : ""}`, ...box }),
        svg("rect", { class: "visits", ...box, "fill-opacity": (0.35 * taken[c]) / most }),
        svg("rect", { class: "hit", x: x - W / 2, y: y + H / 2 - 0.16, width: W * share, height: 0.16 }),
        error > 0.01 && svg("line", { class: "spread", x1: from, x2: to, y1: y + H / 2 - 0.08, y2: y + H / 2 - 0.08 }),
        svg("text", { class: "mark inside", x, y: y - 0.1 }, labels[c]),
        svg("text", { class: "mark inside", x, y: y + 0.1 }, `${WORDS[records[s][c]]}${over ? "" : ` · ${percent(share)}`}`),
        marks[c] && svg("text", { class: "mark soft", x, y: y - H / 2 - 0.06 }, "required")));
    });
    if (!over && isEven(info, policy, s)) parts.push(svg("text", { class: "mark", x: (width * GX) / 2, y: -0.58 }, "◆ toss-up"));
    this._show([...parts, this.frame]);
  }

  /** The largest standard error among the actions with a course. @param {Float32Array} errors @param {number} s @param {number} c */
  _most(errors, s, c) {
    const info = /** @type {import("../model/types.js").Info} */ (this.app.info);
    return Math.max(0, ...info.picture.sets.map((set, a) => (set.includes(c) ? errors[s * info.actions.length + a] : 0)));
  }
}
