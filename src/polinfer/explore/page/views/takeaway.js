// @ts-check
/** Pictures, files and a program to take away. */

import { h, replace } from "./dom.js";

export class TakeAwayView {
  /** @param {import("../app.js").App} app */
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "panel" });
    this.note = h("p", { class: "soft", role: "status" });
    this.name = "explored";
  }

  draw() {
    const { app } = this;
    const code = snippet(app);
    replace(this.element,
      h("h2", {}, "Take away"),
      h("div", { class: "row" },
        h("button", { id: "svg", onclick: () => this._try(() => this.svg()) }, "Picture as SVG"),
        h("button", { id: "png", onclick: () => this._try(() => this.png()) }, "as PNG"),
        h("button", { id: "json", onclick: () => this._try(() => this.policy()) }, "Policy as JSON")),
      h("div", { class: "row" },
        h("label", { class: "wide" }, "Run folder ", h("input", { type: "text", value: this.name, maxlength: 64, id: "folder", oninput: (/** @type {any} */ event) => { this.name = event.target.value; } })),
        h("button", { id: "save", disabled: !app.client.live, onclick: () => this._try(() => this.save()) }, "Save")),
      h("p", { class: "soft" }, "For polinfer.load and polinfer report; it is written beside what the server was started on."),
      this.note,
      h("h3", {}, "In Python"),
      h("pre", { id: "snippet", tabindex: 0 }, code),
      h("div", { class: "row" },
        h("button", { onclick: () => this._try(async () => { await navigator.clipboard.writeText(code); return "Copied."; }) }, "Copy"),
        h("button", { onclick: () => this._try(async () => { await navigator.clipboard.writeText(location.href); return "The address holds what you see; it opens on this machine while the server runs."; }) }, "Copy the address")));
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
    const name = await app.client.save({ problem: app.state.problem, name: this.name.trim(), scale: app.state.scale });
    return `Saved as ${name}. In Python: polinfer.load("${name}")`;
  }

  policy() {
    const { info } = this.app;
    const shown = this.app.shown();
    if (!info || !shown) throw new Error("There is no answer yet.");
    const count = info.actions.length;
    const rows = info.states.map((state, s) => ({
      state, visits: shown.policy.occupancy[s],
      probabilities: Object.fromEntries(info.actions.map((action, a) => [action, shown.policy.policy[s * count + a]])),
    }));
    const record = { problem: this.app.state.problem, shown: shown.label, scale: this.app.state.scale, given: this.app.state.given, policy: rows };
    download("policy.json", new Blob([JSON.stringify(record, null, 1)], { type: "application/json" }));
  }

  /** The picture with its colours written out, so that it looks the same anywhere. */
  _text() {
    const source = this.app.picture?.element;
    if (!(source instanceof SVGElement)) throw new Error("The list is no picture; choose Picture above it.");
    const copy = /** @type {SVGElement} */ (source.cloneNode(true));
    const styles = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "font-size", "font-family", "font-weight", "text-anchor"];
    const [from, to] = [source.querySelectorAll("*"), copy.querySelectorAll("*")];
    from.forEach((element, i) => {
      const style = getComputedStyle(element);
      for (const name of styles) to[i].setAttribute(name, style.getPropertyValue(name));
    });
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    for (const name of ["class", "tabindex", "role"]) copy.removeAttribute(name);
    const [x, y, w, t] = (source.getAttribute("viewBox") ?? "0 0 1 1").split(" ").map(Number);
    const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [name, value] of Object.entries({ x, y, width: w, height: t, fill: getComputedStyle(document.body).backgroundColor })) ground.setAttribute(name, String(value));
    copy.prepend(ground);
    const wide = 1200;
    copy.setAttribute("width", String(wide));
    copy.setAttribute("height", String(Math.round((wide * t) / w)));
    return { text: new XMLSerializer().serializeToString(copy), wide, tall: Math.round((wide * t) / w) };
  }

  svg() {
    download("policy.svg", new Blob([this._text().text], { type: "image/svg+xml" }));
  }

  async png() {
    const { text, wide, tall } = this._text();
    const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [wide, tall];
    canvas.getContext("2d")?.drawImage(image, 0, 0, wide, tall);
    URL.revokeObjectURL(address);
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
    download("policy.png", /** @type {Blob} */ (blob));
  }
}

/** @param {string} name @param {Blob} blob */
export function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** The program that computes what is shown. @param {import("../app.js").App} app */
export function snippet(app) {
  const { state, info, data } = app;
  const problem = /** @type {any} */ (state.problem) ?? {};
  const scale = (problem.reward_scale ?? 1) * state.scale;
  const number = (/** @type {number} */ value) => String(Number(value.toPrecision(6)));
  /** @type {string[]} */ const options = [];
  if (problem.type === "grid") {
    options.push(`map=${JSON.stringify(problem.map)}`);
    for (const name of ["success_prob", "horizon", "gravel_reward", "goal_reward", "swamp_reward", "step_reward"])
      if (problem[name] !== undefined) options.push(`${name}=${number(problem[name])}`);
  } else if (problem.horizon) options.push(`horizon=${problem.horizon}`);
  if (scale !== 1) options.push(`reward_scale=${number(scale)}`);
  const lines = ["import polinfer", ""];
  if (problem.type === "opened") lines.push('mdp = ...  # the problem that was opened');
  else {
    const name = problem.type === "grid" ? "gridworld" : problem.name;
    const long = options.join(", ").length > 50;
    lines.push(long ? `mdp = polinfer.make(\n    ${JSON.stringify(name)},\n    ${options.join(",\n    ")},\n)` : `mdp = polinfer.make(${[JSON.stringify(name), ...options].join(", ")})`);
  }
  lines.push("posterior = polinfer.infer(mdp)");
  if (state.given.length) {
    lines.push("table = posterior.view", "prior = table.prior.copy()");
    for (const [s, a] of state.given) lines.push(`prior[${s}] = [${info?.actions.map((_, i) => Number(i === a)).join(", ")}]`);
    lines.push("posterior = polinfer.infer(table.with_problem(prior=prior))  # given these choices");
  }
  if (state.select !== null && info?.states[state.select]) {
    lines.push(`state = posterior.states[${state.select}]  # ${info.states[state.select]}`, "for name, p in zip(mdp.action_names, posterior.action_probs(state)):", '    print(f"{name:8} {p:.3f}")');
  }
  lines.push("print(polinfer.certify(posterior).verdict)");
  if (data.answer?.draft) lines.push("# the page still shows its first, rougher answer");
  return lines.join("\n");
}
