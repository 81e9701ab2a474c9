// @ts-check
/** Questions about one state: its probabilities, the posterior given a choice, two choices together, and why. */

import { chance } from "../model/draws.js";
import { actionName, fmt, namedPolicy, percent, withError } from "../model/shown.js";
import { h, replace } from "./dom.js";

const VERDICTS = { clear: "● clear", leaning: "◐ leaning", "toss-up": "◆ toss-up" };
const RING = "a dashed ring: standard error, wider is less sure";
const DARKER = "the darker, the more often visited";
/** What lengths, darkness and errors look like, by the kind of picture. @type {Object<string, string[]>} */
const LEGENDS = {
  grid: ["a beam is as long as the action is probable", DARKER, RING],
  map: ["an arrow is as wide as its share of the moves; a small circle is a spare tire", DARKER, RING],
  graph: ["a line is as wide as the transition is probable", DARKER, RING],
  courses: ["a bar is as long as it is probable to enrol; press a course to change the record", "the darker, the more often taken", "a short line: standard error, longer is less sure"],
  cards: ["a cell is filled as far as hit is probable; the percentage is written", "", "a short line: standard error, longer is less sure"],
};

export class AskView {
  /** @param {import("../app.js").App} app */
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "panel" });
  }

  draw() {
    const { app } = this;
    const { info, state } = app;
    const s = state.select;
    if (!info) return replace(this.element, h("p", { class: "soft" }, app.failed.problem ? `There is no answer: ${app.failed.problem}.` : "…"));
    if (s === null || !info.states[s]) {
      const grid = info.picture.kind === "grid";
      return replace(this.element,
        h("h2", {}, "Ask about a state"),
        h("p", {}, `Click a ${grid ? "cell" : "state"}, or move with the arrow keys and press Enter. You then see how probable each action is, and can ask: `,
          h("em", {}, `if it ${grid ? "went right" : "did this"} here, what would it do elsewhere?`)),
        this._given(), this._legend());
    }
    replace(this.element, this._state(s), this._given(), this._why(s));
  }

  /** @param {number} s */
  _state(s) {
    const { app } = this;
    const info = /** @type {import("../model/types.js").Info} */ (app.info);
    const shown = app.shown();
    const base = namedPolicy(app, "posterior");
    // The verdict is that of the posterior without conditions.
    const verdict = app.state.given.length ? "" : app.choiceOf(s)?.verdict ?? "";
    const title = h("h2", {}, info.states[s], verdict && h("span", { class: `chip ${verdict}` }, /** @type {any} */ (VERDICTS)[verdict]));
    if (info.absorbing.has(s)) return h("div", {}, title, h("p", { class: "soft" }, "The episode ends here."));
    if (!shown) return h("div", {}, title);
    const actions = info.actions.length;
    const order = info.actions.map((_, a) => a).filter((a) => !info.illegal.has(`${s},${a}`));
    order.sort((a, b) => shown.policy.policy[s * actions + b] - shown.policy.policy[s * actions + a]);
    const given = app.state.given;
    const answer = app.here().answer;
    const here = given.find((pair) => pair[0] === s);
    const others = given.filter((pair) => pair[0] !== s);
    const rows = order.map((a) => {
      const name = actionName(info, s, a);
      const p = shown.policy.policy[s * actions + a];
      const error = shown.stderr?.[s * actions + a] ?? 0;
      const before = given.length && base ? base.policy.policy[s * actions + a] : null;
      const bar = h("div", { class: "bar", role: "img", "aria-label": `${name} ${percent(p)}${error ? ` plus or minus ${percent(error)}` : ""}` });
      bar.append(part("full", 0, p));
      if (error > 0.002) bar.append(part("whisker", Math.max(0, p - error), Math.min(1, p + error)));
      if (before !== null) bar.append(part("before", Math.max(0, before - 0.004), before + 0.004));
      const both = others.length && answer ? chance(answer, info, [...others, [s, a]]) : null;
      const on = here?.[1] === a;
      return h("div", { class: "action" },
        h("span", { class: "name", title: name }, name), bar,
        h("span", { class: "number" }, percent(p), error > 0.002 && h("small", {}, ` ±${(100 * error).toFixed(1)}`)),
        h("button", {
          class: "give", id: `give-${a}`, "aria-pressed": on, "aria-label": `${name}: ${on ? "given, take it back" : "if it does"}`,
          title: `The posterior given that it chooses ${name} here`,
          onclick: () => app.give(s, on ? null : a),
        }, on ? "given ✕" : "if it does"),
        both && h("small", { class: "both" }, `${percent(both.share)}${both.stderr > 0.002 ? ` (± ${(100 * both.stderr).toFixed(1)})` : ""} of all policies do this and what is given`));
    });
    return h("div", {}, title,
      shown.label !== "posterior" && h("p", { class: "soft" }, shown.label),
      h("div", { class: "actions" }, rows),
      given.length > 0 && h("p", { class: "soft" }, "The thin line is the probability before anything was given."));
  }

  _given() {
    const { app } = this;
    const info = app.info;
    if (!app.state.given.length || !info) return null;
    const found = app.data.given;
    const answer = app.here().answer;
    const quick = answer ? chance(answer, info, app.state.given) : null;
    const share = found?.chance ?? quick?.share ?? null;
    const error = found ? found.chance_stderr : quick?.stderr ?? null;
    return h("div", { class: "card given", "data-ready": found ? "yes" : "no" },
      h("h3", {}, "Given that it chooses"),
      h("ul", { class: "chips" }, app.state.given.map(([s, a]) => h("li", {},
        h("button", { class: "chip", title: "Take this back", onclick: () => app.give(s, null) }, `${actionName(info, s, a)} in ${info.states[s]} ✕`)))),
      share !== null && h("p", {}, h("strong", {}, percent(share)), error ? ` (± ${(100 * error).toFixed(1)})` : "",
        app.state.given.length > 1 ? " of the policies make all of these choices." : " of the policies do this.",
        found ? ` Return then: ${withError(found.executed.returned, null)}.` : ""),
      found?.draft && h("p", { class: "soft" }, app.client.live ? "From the first answer, roughly; the whole one follows." : "From a first answer, roughly."),
      !found && h("p", { class: "soft" }, app.failed.given || "computing the conditional posterior …"));
  }

  /** @param {number} s */
  _why(s) {
    const { app } = this;
    const info = app.info;
    const choice = app.choiceOf(s);
    if (!info || !choice) return app.here().explanation || !app.client.live ? null : h("p", { class: "soft" }, app.failed.explain || "");
    const best = choice.actions.reduce((a, b) => (a.loss <= b.loss ? a : b));
    const second = choice.actions.filter((one) => one !== best).sort((a, b) => a.loss - b.loss)[0];
    return h("div", { class: "card" },
      h("h3", {}, app.state.given.length ? "Why, before anything was given" : "Why"),
      h("p", {}, `Visited ${fmt(choice.visits)} times an episode. With ${actionName(info, s, best.action)} here and the policy as it is elsewhere, ` +
        `an episode returns ${fmt(best.returned)}`, second && `; the second best, ${actionName(info, s, second.action)}, costs ${fmt(second.loss, 2)}`, "."),
      choice.disagrees && h("p", {}, "The most probable action is not the best one: the policies that reach this state differ elsewhere, too."),
      h("table", { class: "small" }, h("thead", {}, h("tr", {}, ["action", "return", "regret"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, choice.actions.map((one) => h("tr", {}, h("th", { scope: "row" }, actionName(info, s, one.action)),
          h("td", {}, fmt(one.returned)), h("td", {}, fmt(one.loss, 2)))))),
      !app.here().explanation && h("p", { class: "soft" }, `At reward scale 1${app.client.live ? "; that at this one is being computed" : ""}.`));
  }

  _legend() {
    const kind = this.app.state.view === "list" ? "list" : this.app.info?.picture.kind ?? "list";
    if (kind === "list") return null;
    const [beam, visits, error] = LEGENDS[kind] ?? LEGENDS.grid;
    return h("div", { class: "card legend" },
      h("h3", {}, "How to read the picture"),
      h("dl", {},
        h("dt", {}, h("i", { class: "key beamkey" })), h("dd", {}, beam),
        visits ? [h("dt", {}, h("i", { class: "key visitskey" })), h("dd", {}, visits)] : null,
        h("dt", {}, h("i", { class: `key ${error.includes("ring") ? "ringkey" : "linekey"}` })), h("dd", {}, error),
        h("dt", {}, h("i", { class: "key evenkey" }, "◆")), h("dd", {}, "toss-up: the two best actions are within 10 points")));
  }
}

/** @param {string} name @param {number} from @param {number} to */
function part(name, from, to) {
  const element = h("i", { class: name });
  element.style.left = `${100 * from}%`;
  element.style.width = `${100 * Math.max(0, to - from)}%`;
  return element;
}
