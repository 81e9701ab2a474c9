// @ts-check
/** The posterior beside its neighbours, on the same picture. */

import { distance, fmt, namedPolicy, neighbours, percent } from "../model/shown.js";
import { numbersAt } from "../model/path.js";
import { h, replace, svg } from "./dom.js";

export class CompareView {
  /** @param {import("../app.js").App} app */
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "panel" });
    /** @type {[number, number][]} */ this.curve = [];
    this.training = false;
    this.trainedAt = 1;
    this.chart = svg("svg", { class: "learning", viewBox: "0 0 320 80", role: "img", "aria-label": "Learning curve: log Z-hat by sweeps" });
  }

  draw() {
    const { app } = this;
    const { state, data, info } = app;
    if (!info) return replace(this.element, h("p", { class: "soft" }, "…"));
    const names = ["posterior", "soft", ...neighbours(app).map((one) => one.name)];
    const base = namedPolicy(app, "posterior");
    const rows = names.map((name) => {
      const found = namedPolicy(app, name);
      const label = name === "soft" ? `soft, α = ${fmt(state.alpha)}` : name;
      return h("tr", { class: state.shown === name ? "chosen" : "" },
        h("th", { scope: "row" }, h("label", { class: "radio" },
          h("input", { type: "radio", id: `shown-${name.replaceAll(" ", "-")}`, name: "shown", checked: state.shown === name, onchange: () => app.set({ shown: name, against: state.against === name ? "" : state.against }) }), label)),
        h("td", {}, fmt(found?.policy.returned ?? null)),
        h("td", {}, found?.policy.success === null || !found ? "–" : percent(found.policy.success)),
        h("td", { title: "Mean total variation over visits" }, base && found ? fmt(distance(app, base.policy, found.policy), 2) : "–"));
    });
    replace(this.element,
      h("h2", {}, "Compare"),
      h("table", { class: "small" },
        h("thead", {}, h("tr", {}, ["shown", "return", "success", "distance"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, rows)),
      !app.here().neighbours && h("p", { class: "soft" }, app.failed.neighbours || "the neighbours are being computed …"),
      h("div", { class: "row" },
        h("label", { class: "wide" }, "Soft α", (this.alpha = h("output", { for: "alpha", class: "alpha" }, fmt(state.alpha))), h("input", { type: "range", id: "alpha", min: -200, max: 200, value: Math.round(100 * Math.log10(state.alpha)), "aria-label": "Entropy weight alpha",
          disabled: !data.path,
          oninput: (/** @type {any} */ event) => this._slide(10 ** (Number(event.target.value) / 100)), onchange: () => app.settle() }))),
      h("div", { class: "row" },
        h("label", { class: "wide" }, "Difference to ", h("select", { id: "against", onchange: (/** @type {any} */ event) => app.set({ against: event.target.value }) },
          h("option", { value: "" }, "none"), names.filter((name) => name !== state.shown).map((name) => h("option", { value: name, selected: state.against === name }, name))))),
      state.against && h("p", { class: "soft" }, "Purple, and Δ on small maps: how far the two policies are apart in a state (total variation)."),
      this._worked(),
      h("div", { class: "card" },
        h("h3", {}, "The paper’s VSMC"),
        h("div", { class: "row" },
          h("button", { id: "vsmc", disabled: this.training || !app.client.live, onclick: () => this._train() }, this.training ? "training …" : "Train 2,000 sweeps"),
          h("small", { class: "soft", title: "That of one world may lie above the log Z of the posterior" }, "ten particles; log Z-hat of one world a sweep")),
        this.chart, app.failed.vsmc && h("p", { class: "error" }, app.failed.vsmc)));
    this._curve();
  }

  /** @param {number} alpha */
  _slide(alpha) {
    this.alpha.textContent = fmt(alpha);
    this.app.slideAlpha(alpha);
  }

  /** The paper's worked example, where the two ways of planning part. */
  _worked() {
    const { app } = this;
    const problem = app.state.problem;
    if (problem?.type === "named" && problem.name === "continuation") {
      const soft = namedPolicy(app, "soft");
      const posterior = namedPolicy(app, "posterior");
      if (!soft || !posterior) return null;
      return h("div", { class: "card" }, h("h3", {}, "Worked example of the paper"),
        h("p", {}, "Leaving now pays 1. The posterior leaves with probability ", h("strong", {}, posterior.policy.policy[1].toFixed(2)),
          "; the soft policy, paid for entropy at every step, with ", h("strong", {}, soft.policy.policy[1].toFixed(2)), "."));
    }
    return h("p", {}, h("button", { class: "link", onclick: () => app.open({ type: "named", name: "continuation" }, { tab: "compare" }) },
      "Worked example: 0.73 against 0.55"));
  }

  async _train() {
    const scale = this.app.state.scale;
    this.curve = [];
    this.trainedAt = scale;
    this.training = true;
    this.app.data.keep(scale).asked.add("vsmc");
    this.draw();
    await this.app.fetch("vsmc", { sweeps: 2000, scale }, (state) => {
      if (state.row) {
        this.curve.push(state.row);
        this._curve();
      }
    });
    this.training = false;
    const found = this.app.data.at(scale).vsmc;
    if (found && scale === this.app.state.scale) this.app.set({ shown: found.name });
    this.draw();
  }

  /** What is said in place of a learning curve. */
  _untrained() {
    if (this.training) return "compiling …";
    return this.app.here().vsmc ? "trained before; that curve was not kept" : "not trained yet";
  }

  /** log Z at the scale of the training. */
  _truth() {
    const { data } = this.app;
    const known = data.at(this.trainedAt).answer?.log_evidence;
    return known ?? (data.path ? numbersAt(data.path, this.trainedAt).log_evidence : null);
  }

  _curve() {
    const points = this.curve;
    if (points.length < 2) return this.chart.replaceChildren(svg("text", { x: 160, y: 44, class: "empty" }, this._untrained()));
    const values = points.map((p) => p[1]);
    const truth = this._truth();
    const low = Math.min(...values, truth ?? Infinity);
    const high = Math.max(...values, truth ?? -Infinity);
    const y = (/** @type {number} */ v) => 70 - (60 * (v - low)) / (high - low || 1);
    const last = points[points.length - 1][0];
    replace(this.chart,
      svg("path", { class: "curve return", d: points.map((p, i) => `${i ? "L" : "M"}${10 + (300 * p[0]) / last} ${y(p[1]).toFixed(1)}`).join("") }),
      truth !== null && svg("line", { class: "expected", x1: 10, x2: 310, y1: y(truth), y2: y(truth) }),
      svg("text", { x: 310, y: 78, class: "end" }, `${last} sweeps, ${fmt(values[values.length - 1])}${truth === null ? "" : `; log Z ${fmt(truth)} dashed`}`));
  }
}
