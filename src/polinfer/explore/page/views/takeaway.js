// @ts-check
/** Pictures, files and a program to take away. */

import { npz } from "../model/npz.js";
import { program } from "../model/program.js";
import { h, replace } from "./dom.js";
import { download, drawnActions, drawnList, pictureOf, rasterOf } from "./export.js";

export class TakeAwayView {
  /** @param {import("../app.js").App} app */
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "panel" });
    this.note = h("p", { class: "soft", role: "status" });
    /** The name of the run folder: one element, which stays while somebody types in it. */
    this.folder = h("input", { type: "text", value: "explored", maxlength: 64, id: "folder" });
    this.what = "picture";
  }

  draw() {
    const { app } = this;
    const code = program(app);
    const sources = this._sources();
    if (!(this.what in sources)) this.what = "picture";
    this.folder.disabled = !app.client.live;
    const button = (/** @type {string} */ id, /** @type {string} */ title, /** @type {() => any} */ action) =>
      h("button", { id, onclick: () => this._try(action) }, title);
    replace(this.element,
      h("h2", {}, "Take away"),
      h("div", { class: "row" },
        h("label", { class: "wide" }, "View ", h("select", { id: "what", onchange: (/** @type {any} */ event) => { this.what = event.target.value; } },
          Object.keys(sources).map((name) => h("option", { value: name, selected: name === this.what }, name)))),
        button("svg", "SVG", () => this.svg()), button("png", "PNG", () => this.png())),
      h("div", { class: "row" }, "Policy ", button("npz", ".npz", () => this.archive()), button("json", "JSON", () => this.policy())),
      h("p", { class: "soft" }, "The .npz is a policy file: polinfer certify PROBLEM --policy policy.npz"),
      h("div", { class: "row" },
        h("label", { class: "wide" }, "Run folder ", this.folder),
        h("button", { id: "save", disabled: !app.client.live, onclick: () => this._try(() => this.save()) }, "Save")),
      h("p", { class: "soft" }, app.client.live ? `For polinfer.load and polinfer report; written beside what the server was started on.${app.state.given.length ? " With what is given." : ""}` : "This page is a report; polinfer explore saves run folders."),
      this.note,
      h("h3", {}, "In Python"),
      h("pre", { id: "snippet", tabindex: 0 }, code),
      h("div", { class: "row" },
        button("copy", "Copy", () => copy(code, "Copied.")),
        button("copy-address", "Copy the address", () => copy(location.href, "The address holds what you see; it opens on this machine while the server runs."))));
  }

  /** The views that are there to export. @returns {Object<string, () => SVGElement>} */
  _sources() {
    const { app } = this;
    const picture = app.picture?.element;
    /** @type {Object<string, () => SVGElement>} */
    const found = { picture: () => (picture instanceof SVGElement ? picture : drawnList(app.picture)) };
    if (app.state.select !== null && app.info?.states[app.state.select] && app.shown()) {
      const state = app.state.select;
      found[`actions in ${app.info.states[state]}`] = () => drawnActions(app, state);
    }
    if (app.data.path) found["reward scales"] = () => /** @type {any} */ (app.slider).chart;
    if (app.views?.watch.returns.length) found["returns of episodes"] = () => app.views?.watch.chart;
    if (app.views?.compare.curve.length > 1) found["learning curve"] = () => app.views?.compare.chart;
    if (app.here().certificate) {
      const bounds = app.views?.judge.bounds(app.here().certificate);
      if (bounds) found["log Z and its bounds"] = () => bounds;
    }
    return found;
  }

  /** @param {() => Promise<string|void>|string|void} action */
  async _try(action) {
    try {
      this.note.textContent = (await action()) ?? "";
    } catch (error) {
      this.note.textContent = /** @type {Error} */ (error).message;
    }
  }

  async save() {
    const { app } = this;
    this.note.textContent = "Saving …";
    const name = await app.client.save({ problem: app.state.problem, name: this.folder.value.trim(), scale: app.state.scale, given: app.state.given });
    return `Saved as ${name}. In Python: polinfer.load("${name}")`;
  }

  _shown() {
    const { info } = this.app;
    const shown = this.app.shown();
    if (!info || !shown) throw new Error("There is no answer yet.");
    return { info, shown };
  }

  policy() {
    const { info, shown } = this._shown();
    const count = info.actions.length;
    const rows = info.states.map((state, s) => ({
      state, visits: shown.policy.occupancy[s],
      probabilities: Object.fromEntries(info.actions.map((action, a) => [action, shown.policy.policy[s * count + a]])),
    }));
    const record = { problem: this.app.state.problem, shown: shown.label, scale: this.app.state.scale, given: this.app.state.given, policy: rows };
    download("policy.json", new Blob([JSON.stringify(record, null, 1)], { type: "application/json" }));
  }

  /** What is shown, for NumPy: probabilities whose rows sum to one, and what is known beside them. */
  archive() {
    const { info, shown } = this._shown();
    const { state } = this.app;
    const [states, actions] = [info.states.length, info.actions.length];
    const policy = Float64Array.from(shown.policy.policy);
    for (let s = 0; s < states; s++) {
      const sum = policy.subarray(s * actions, (s + 1) * actions).reduce((a, b) => a + b, 0);
      for (let a = 0; a < actions; a++) policy[s * actions + a] /= sum || 1;
    }
    const answer = state.shown !== "posterior" ? null : state.given.length ? this.app.data.given : this.app.here().answer;
    /** @type {Object<string, import("../model/npz.js").Column>} */
    const columns = {
      policy: { dtype: "<f8", shape: [states, actions], values: policy },
      visits: { dtype: "<f8", shape: [states], values: shown.policy.occupancy },
      states: info.states,
      actions: info.actions,
      shown: [shown.label],
      reward_scale: { dtype: "<f8", shape: [1], values: [(state.problem?.reward_scale ?? 1) * state.scale] },
      given: { dtype: "<i4", shape: [state.given.length, 2], values: state.given.flat() },
    };
    if (shown.stderr) columns.stderr = { dtype: "<f8", shape: [states, actions], values: shown.stderr };
    if (answer?.drawn) columns.drawn_policies = { dtype: "<i4", shape: [answer.draws, states], values: answer.drawn };
    if (answer && answer.log_evidence !== null) columns.log_evidence = { dtype: "<f8", shape: [1], values: [answer.log_evidence] };
    download("policy.npz", new Blob([npz(columns)], { type: "application/zip" }));
  }

  /** What the picture's file is called. */
  _file() {
    return this.what.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
  }

  svg() {
    download(`${this._file()}.svg`, new Blob([pictureOf(this._sources()[this.what]()).text], { type: "image/svg+xml" }));
  }

  async png() {
    download(`${this._file()}.png`, await rasterOf(pictureOf(this._sources()[this.what]())));
  }
}

/** @param {string} text @param {string} done */
async function copy(text, done) {
  // Browsers give no clipboard to pages of other machines.
  if (!navigator.clipboard) throw new Error("The browser does not let this page copy; select the text and press Ctrl+C.");
  await navigator.clipboard.writeText(text);
  return done;
}
