// @ts-check
/** The certificate: a verdict in words, bounds on log Z as a picture, and what would help. */

import { fmt, withError } from "../model/shown.js";
import { h, replace, svg } from "./dom.js";

const SIGNS = { trust: "✔", "use with care": "!", "do not trust": "✖" };

export class JudgeView {
  /** @param {import("../app.js").App} app */
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "panel" });
  }

  draw() {
    const { app } = this;
    const { certificate: found, answer } = app.here();
    if (!found) {
      return replace(this.element, h("h2", {}, "How far to rely on it"),
        h("p", { class: "soft" }, app.failed.certificate || "The answer is being judged: proofs first, then independent runs …"));
    }
    replace(this.element,
      h("h2", {}, "How far to rely on it"),
      h("div", { class: `card verdict ${found.verdict.replaceAll(" ", "-")}` },
        h("p", { class: "big" }, h("span", { class: "sign", "aria-hidden": true }, /** @type {any} */ (SIGNS)[found.verdict] ?? ""), found.verdict),
        h("p", {}, `Because ${found.reason}.`),
        found.remedy && h("p", {}, h("strong", {}, "What would help: "), found.remedy, ".")),
      this._bounds(found),
      h("div", { class: "card" },
        h("h3", {}, "What was computed"),
        h("p", {}, `Method: ${answer?.reason || answer?.method || "–"}. The target is ${found.estimand}.`),
        found.known_from && h("p", {}, `Distance to the ${found.known_from}: ${fmt(found.distance, 2)}.`),
        found.findings.map((/** @type {string} */ sentence) => h("p", {}, sentence)),
        h("p", { class: "soft" }, `At reward scale ${fmt(app.state.scale)}${answer ? `; computed in ${fmt(answer.seconds, 2)} s` : ""}.`)));
  }

  /** @param {any} found */
  _bounds(found) {
    const picture = this.bounds(found);
    return picture && h("div", { class: "card" },
      h("h3", {}, "log Z"), picture,
      h("p", { class: "soft" }, `Estimate ${withError(found.log_evidence, found.log_evidence_stderr, 4)} (dot, two standard errors); the bar is proven.` +
        (found.proven_share !== null && found.proven_share > 0.005 ? ` The policies found hold at least ${(100 * found.proven_share).toFixed(0)}% of the posterior.` : "")));
  }

  /** What is proven of log Z, and what was estimated. @param {any} found @returns {SVGElement|null} */
  bounds(found) {
    const { proven_lower: low, proven_upper: high, log_evidence: value, log_evidence_stderr: error } = found;
    if (low === null || high === null || value === null) return null;
    const ends = [low, high, value - 2 * (error || 0), value + 2 * (error || 0)];
    const [left, right] = [Math.min(...ends), Math.max(...ends)];
    const room = (right - left || 1) * 0.08;
    const x = (/** @type {number} */ v) => 10 + (300 * (v - left + room)) / (right - left + 2 * room);
    return svg("svg", { class: "bounds", viewBox: "0 0 320 64", role: "img", "aria-label": `log Z ${fmt(value)}, proven to lie between ${fmt(low)} and ${fmt(high)}` },
      svg("rect", { class: "proven", x: x(low), width: Math.max(2, x(high) - x(low)), y: 14, height: 20, rx: 4 }),
      error > 0 && svg("line", { class: "whisker", x1: x(value - 2 * error), x2: x(value + 2 * error), y1: 24, y2: 24 }),
      svg("circle", { class: "estimate", cx: x(value), cy: 24, r: 5 }),
      svg("text", { x: Math.min(290, Math.max(24, x(low))), y: 50 }, fmt(low, 4)), svg("text", { x: Math.min(300, Math.max(x(low) + 60, x(high))), y: 50 }, fmt(high, 4)));
  }
}
