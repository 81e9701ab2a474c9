// @ts-check
/** Episodes, animated: one policy an episode, or an action drawn at every step. */

import { play } from "../model/episodes.js";
import { actionName, fmt } from "../model/shown.js";
import { h, replace, svg } from "./dom.js";

export class WatchView {
  /** @param {import("../app.js").App} app */
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "panel" });
    this.episode = null;
    this.number = 0;
    this.at = 0;
    this.playing = false;
    this.speed = 4;
    this.last = 0;
    /** @type {number[]} */ this.returns = [];
    this.signature = "";
    this.built = ""; // what the controls were built for
    this.log = h("p", { class: "log", "aria-live": "off" });
    this.chart = svg("svg", { class: "histogram", viewBox: "0 0 320 120", role: "img", "aria-label": "Distribution of returns" });
    this.facts = h("p", { class: "soft" });
  }

  /** Forget everything when what acts has changed. */
  _refresh() {
    const { app } = this;
    // Another answer draws other policies: what was gathered from the first one is not repeatable any more.
    const source = [app.shown()?.label, app.shown()?.computed, this._draws()?.draft];
    const signature = JSON.stringify([app.state.problem, app.state.scale, app.state.given, app.state.shown, app.state.mode, app.state.seed, source]);
    if (signature !== this.signature) {
      this.signature = signature;
      this.episode = null;
      this.number = 0;
      this.returns = [];
    }
  }

  draw() {
    const { app } = this;
    this._refresh();
    if (!app.info?.outcomes) {
      this.built = "";
      return replace(this.element, h("h2", {}, "Watch it act"), h("p", { class: "soft" }, app.info ? "The problem is too large for the page to play." : "…"));
    }
    const whole = this._draws() !== null;
    const why = whole ? "" : this._why();
    const built = JSON.stringify([whole, why, app.state.mode, app.state.seed, this.playing]);
    if (built !== this.built) {
      this.built = built; // controls stay while records arrive: a click in between would be lost
      this._build(whole, why);
    }
    this._histogram();
    this._show();
  }

  /** @param {boolean} whole @param {string} why */
  _build(whole, why) {
    const { app } = this;
    const mode = (/** @type {string} */ name, /** @type {string} */ title) => h("label", { class: "radio" },
      h("input", { type: "radio", name: "mode", value: name, checked: app.state.mode === name || (!whole && name === "stepwise"), disabled: name === "thompson" && !whole,
        onchange: () => app.set({ mode: name }) }), title);
    replace(this.element,
      h("h2", {}, "Watch it act"),
      h("div", { class: "row" }, mode("thompson", "one policy an episode (Thompson)"), mode("stepwise", "an action at every step")),
      !whole && h("p", { class: "soft" }, why),
      h("div", { class: "row" },
        h("button", { class: "main", id: "play", onclick: () => this.toggle() }, this.playing ? "❚❚ Pause" : "▶ Play"),
        h("button", { id: "step", onclick: () => this.step() }, "Step"),
        h("button", { id: "many", title: "Play 100 episodes at once", "aria-label": "Play 100 episodes at once", onclick: () => this.many(100) }, "+100"),
        h("button", { id: "reset", onclick: () => { this.signature = ""; this.draw(); this._show(); } }, "Reset")),
      h("div", { class: "row" },
        h("label", {}, "Speed ", h("input", { type: "range", id: "speed", min: 1, max: 60, value: this.speed, "aria-label": "Steps a second",
          oninput: (/** @type {any} */ event) => { this.speed = Number(event.target.value); } })),
        h("label", {}, "Seed ", h("input", { type: "number", id: "seed", min: 0, max: 99999, value: app.state.seed, class: "short",
          onchange: (/** @type {any} */ event) => app.set({ seed: Math.max(0, Math.floor(Number(event.target.value)) || 0) }) }))),
      this.log, this.chart, this.facts);
  }

  /** Why no whole policy can be drawn. */
  _why() {
    const { app } = this;
    if (app.state.shown !== "posterior") return "Whole policies are drawn from the posterior only.";
    if (app.here().answer || !app.client.live) return "Of this answer there are no whole policies, only action probabilities.";
    return app.failed.draft || "policies are being drawn at this reward scale …";
  }

  _draws() {
    const { state, data } = this.app;
    if (state.shown !== "posterior") return null;
    if (state.given.length) return data.given?.drawn ? data.given : null;
    const answer = this.app.here().answer;
    return answer?.drawn ? answer : null;
  }

  _begin() {
    const { app } = this;
    const shown = app.shown();
    if (!shown || !app.info?.outcomes) return null;
    const source = app.state.mode === "thompson" ? this._draws() : null;
    return play(app.info, shown.policy.policy, source?.drawn ?? null, source?.draws ?? 0, app.state.seed, this.number);
  }

  toggle() {
    this.playing = !this.playing;
    this.draw();
    if (this.playing) requestAnimationFrame((now) => this._tick(now));
  }

  /** @param {number} now */
  _tick(now) {
    if (!this.playing || this.app.state.tab !== "watch") {
      this.playing = false;
      return;
    }
    if (now - this.last > 1000 / this.speed) {
      this.last = now;
      this.step();
    }
    requestAnimationFrame((next) => this._tick(next));
  }

  step() {
    this._refresh();
    if (!this.episode) {
      this.episode = this._begin();
      this.at = 0;
    } else if (this.at < this.episode.steps.length) this.at += 1;
    else {
      this.number += 1;
      this.episode = this._begin();
      this.at = 0;
    }
    if (this.episode && this.at === this.episode.steps.length && this.returns.length <= this.number) {
      this.returns.push(this.episode.total);
      this._histogram();
    }
    this._show();
  }

  /** @param {number} count */
  many(count) {
    this._refresh();
    for (let i = 0; i < count; i++) {
      this.number = this.returns.length;
      this.episode = this._begin();
      if (!this.episode) return;
      this.at = this.episode.steps.length;
      this.returns.push(this.episode.total);
    }
    this._histogram();
    this._show();
  }

  _show() {
    const { app } = this;
    const episode = this.episode;
    if (app.state.tab !== "watch" || !episode || !app.info) {
      app.picture?.agentAt(null);
      replace(this.log, "Press Play, or Step.");
      return;
    }
    const before = episode.steps.slice(0, this.at).map((step) => step.state);
    const now = this.at < episode.steps.length ? episode.steps[this.at].state : episode.last;
    app.picture?.agentAt(now, before);
    const last = this.at ? episode.steps[this.at - 1] : null;
    const words = [`Episode ${this.number + 1} (seed ${app.state.seed}${episode.member >= 0 ? `, policy ${episode.member}` : ""}), step ${this.at}: ${app.info.states[now]}.`];
    if (last) words.push(`Chose ${actionName(app.info, last.state, last.action)}, earned ${fmt(last.reward, 3)}; ${fmt(last.total, 3)} so far.`);
    if (this.at === episode.steps.length) words.push(`Over: ${this._ending(episode.last)}.`);
    replace(this.log, words.join(" "));
  }

  /** @param {number} s */
  _ending(s) {
    const info = /** @type {import("../model/types.js").Info} */ (this.app.info);
    const found = Object.entries(info.endings).find(([, states]) => states.includes(s));
    return found ? found[0] : info.absorbing.has(s) ? "ended" : "time is up";
  }

  _histogram() {
    const expected = this._expected();
    const values = this.returns;
    if (!values.length) {
      this.chart.replaceChildren(svg("text", { x: 160, y: 60, class: "empty" }, "returns of episodes gather here"));
      replace(this.facts);
      return;
    }
    let [low, high] = [Math.min(...values, expected), Math.max(...values, expected)];
    if (high - low < 1e-9) [low, high] = [low - 1, high + 1];
    const bins = new Array(24).fill(0);
    for (const value of values) bins[Math.min(23, Math.floor((24 * (value - low)) / (high - low)))] += 1;
    const most = Math.max(...bins);
    const mean = values.reduce((a, b) => a + b, 0) / values.length;
    const spread = Math.sqrt(values.reduce((a, b) => a + (b - mean) ** 2, 0) / Math.max(1, values.length - 1));
    const x = (/** @type {number} */ value) => 10 + (300 * (value - low)) / (high - low);
    this.chart.replaceChildren(
      ...bins.map((count, i) => svg("rect", { class: "bin", x: 10 + 12.5 * i + 0.8, y: 98 - (86 * count) / most, width: 10.9, height: (86 * count) / most, rx: 1.5 })),
      svg("line", { class: "axis", x1: 8, x2: 312, y1: 98.5, y2: 98.5 }),
      svg("line", { class: "mean", x1: x(mean), x2: x(mean), y1: 6, y2: 98 }),
      svg("line", { class: "expected", x1: x(expected), x2: x(expected), y1: 6, y2: 98 }),
      svg("text", { x: 10, y: 112 }, fmt(low)), svg("text", { x: 310, y: 112, class: "end" }, fmt(high)));
    replace(this.facts, `${values.length} episodes: mean ${fmt(mean)} ± ${fmt(spread / Math.sqrt(values.length), 2)} (solid). `, this._meant(expected));
  }

  /** What the episodes that are played return in the mean, where it is known. */
  _expected() {
    const policy = this.app.shown()?.policy;
    return policy?.averaged ?? policy?.returned ?? 0;
  }

  /** What the dashed line is. @param {number} expected */
  _meant(expected) {
    const policy = this.app.shown()?.policy;
    const [played, clock] = ["What is played is the average, over time, of a policy that looks at the time that is left", fmt(policy?.returned)];
    if (typeof policy?.averaged === "number") return `Expected, exactly: ${fmt(expected)} (dashed). ${played}; that one returns ${clock}.`;
    if (this.app.state.shown === "soft") return `${played}; that one returns ${clock} (dashed).`;
    if (this.app.state.mode === "stepwise" || !this._draws()) return `Expected, exactly: ${fmt(expected)} (dashed).`;
    return `Dashed: ${fmt(expected)}, what drawing an action at every step would return; one policy an episode expects ${fmt(this._draws()?.expected_return ?? null)}.`;
  }
}
