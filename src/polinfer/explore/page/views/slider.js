// @ts-check
/** The reward scale: the whole path is in the page, so sliding only draws. */

import { marks, numbersAt } from "../model/path.js";
import { fmt, withError } from "../model/shown.js";
import { h, replace, svg } from "./dom.js";

const [WIDE, TALL] = [560, 56];
const ENDS = ["uniform", "optimum"];

export class Slider {
  /** @param {import("../app.js").App} app */
  constructor(app) {
    this.app = app;
    /** @type {any} */ this.drawnPath = null;
    this.input = h("input", {
      type: "range", min: 0, max: 1000, value: 500, id: "scale", "aria-label": "Reward scale",
      oninput: () => this.app.slide(this._toScale(Number(this.input.value))),
      onchange: () => this.app.settle(),
    });
    this.chart = svg("svg", { class: "curves", viewBox: `0 0 ${WIDE} ${TALL}`, preserveAspectRatio: "none", "aria-hidden": true });
    this.ticks = h("div", { class: "ticks" });
    this.value = h("output", { for: "scale", class: "value" });
    this.facts = h("div", { class: "facts", role: "status" });
    this.element = h("section", { class: "slider", "aria-label": "Reward scale" },
      h("div", { class: "line" }, h("label", { for: "scale" }, "Reward scale"), this.value, this.facts),
      h("div", { class: "track" }, this.chart, this.input), this.ticks);
  }

  /** @param {number} place */
  _toScale(place) {
    const points = this.app.data.path?.points;
    if (!points) return 1;
    const [low, high] = [points[0].scale, points[points.length - 1].scale];
    const scale = low * (high / low) ** (place / 1000);
    return Math.abs(Math.log(scale)) < 0.02 ? 1 : scale;
  }

  /** @param {number} scale */
  _toPlace(scale) {
    const points = this.app.data.path?.points;
    if (!points) return 500;
    const [low, high] = [points[0].scale, points[points.length - 1].scale];
    return (1000 * Math.log(scale / low)) / Math.log(high / low);
  }

  draw() {
    const { path } = this.app.data;
    const answer = this.app.here().answer;
    this.input.disabled = !path;
    const { scale } = this.app.state;
    this.value.textContent = `× ${fmt(scale)}`;
    this.element.classList.toggle("waiting", !path);
    if (path !== this.drawnPath) this._draw(path);
    const place = Math.round(this._toPlace(scale));
    if (Number(this.input.value) !== place && document.activeElement !== this.input) this.input.value = String(place);
    this.input.setAttribute("aria-valuetext", `reward scale ${fmt(scale)}`);
    const now = path ? numbersAt(path, scale) : null;
    const given = this.app.state.given.length ? this.app.data.given : null;
    if (given) {
      this._facts(given.executed.returned, null, given.log_evidence, given.log_evidence_stderr, given.posterior_entropy);
    } else if (answer && (scale === 1 || !answer.draft)) {
      this._facts(answer.executed.returned, null, answer.log_evidence, answer.log_evidence_stderr, answer.posterior_entropy);
    } else if (now) this._facts(now.returned, now.returned_stderr, now.log_evidence, now.log_evidence_stderr, now.entropy);
    else replace(this.facts, h("span", { class: "soft" }, this.app.failed.problem || this.app.failed.path ? "no reward scales" : "reward scales are being computed"));
    this.cursor?.setAttribute("x1", (place * WIDE) / 1000);
    this.cursor?.setAttribute("x2", (place * WIDE) / 1000);
  }

  /** @param {number} returned @param {number|null} error @param {number|null} evidence @param {number|null} evidenceError
   * @param {number|null} entropy */
  _facts(returned, error, evidence, evidenceError, entropy) {
    replace(this.facts,
      h("span", { title: "Expected return of executing the marginal policy" }, h("i", { class: "dot return" }), `return ${withError(returned, error)}`),
      h("span", { title: "Entropy of the posterior over policies, in nats" }, h("i", { class: "dot entropy" }), `entropy ${fmt(entropy)}`),
      h("span", { title: "Log evidence under the uniform measure" }, h("i", { class: "dot evidence" }), `log Z ${withError(evidence, evidenceError)}`));
  }

  /** @param {import("../model/types.js").Path|null} path */
  _draw(path) {
    this.drawnPath = path;
    if (!path) {
      this.chart.replaceChildren();
      replace(this.ticks);
      return;
    }
    const x = (/** @type {number} */ scale) => (this._toPlace(scale) * WIDE) / 1000;
    const line = (/** @type {string} */ name, /** @type {(p: any) => number} */ value) => {
      const values = path.points.map(value);
      const [low, high] = [Math.min(...values), Math.max(...values)];
      const y = (/** @type {number} */ v) => TALL - 4 - ((v - low) / (high - low || 1)) * (TALL - 8);
      return svg("path", { class: `curve ${name}`, d: path.points.map((p, i) => `${i ? "L" : "M"}${x(p.scale).toFixed(1)} ${y(value(p)).toFixed(1)}`).join("") });
    };
    this.cursor = svg("line", { class: "now", y1: 0, y2: TALL });
    const found = marks(path);
    this.chart.replaceChildren(
      ...found.map((mark) => svg("line", { class: "mark", x1: x(mark.scale), x2: x(mark.scale), y1: 0, y2: TALL })),
      line("entropy", (p) => p.posterior_entropy), line("evidence", (p) => p.log_evidence),
      line("return", (p) => p.executed.returned), this.cursor);
    replace(this.ticks, found.map((mark) => {
      const button = h("button", { class: "tick", onclick: () => { this.app.slide(mark.scale); this.app.settle(); } },
        mark.name === "1" ? "1 (as given)" : mark.name);
      button.style.left = `${this._toPlace(mark.scale) / 10}%`;
      const near = found.find((other) => other !== mark && Math.abs(this._toPlace(other.scale) - this._toPlace(mark.scale)) < 170);
      if (!near || ENDS.includes(mark.name)) return button;
      button.style.transform = near.scale > mark.scale ? "translateX(-100%)" : "none";
      // The names at the ends stay where they are.
      if (near.name === ENDS[0]) button.style.left = `max(${button.style.left}, 56px)`;
      if (near.name === ENDS[1]) button.style.left = `min(${button.style.left}, 100% - 64px)`;
      return button;
    }));
  }
}
