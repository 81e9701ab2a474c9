// @ts-check
/** Which policy the picture shows, and how sure it is. */

import { conditional } from "./draws.js";
import { policyAt } from "./path.js";

/** @typedef {import("../app.js").App} App @typedef {import("./types.js").Policy} Policy */
/** @typedef {{policy: Policy, stderr: Float32Array|null, label: string, computed: boolean}|null} Shown */

/** @param {App} app @returns {Shown} */
export function shownPolicy(app) {
  const { state, data } = app;
  if (state.given.length && state.shown === "posterior") {
    const given = givenPolicy(app);
    if (given) return given;
  }
  return namedPolicy(app, state.shown);
}

/** @param {App} app @returns {Shown} */
function givenPolicy(app) {
  const { data, info } = app;
  if (data.given) {
    const label = data.given.draft ? "posterior, given (first answer)" : "posterior, given";
    return { policy: data.given.executed, stderr: data.given.stderr, label, computed: true };
  }
  const answer = app.here().answer;
  if (!answer || !info) return null;
  const found = conditional(answer, info, app.state.given);
  if (!found) return null;
  const policy = { ...answer.executed, policy: found.policy };
  return { policy, stderr: found.stderr, label: `posterior, given (${found.draws} draws so far)`, computed: false };
}

/** @param {App} app @param {string} name @returns {Shown} */
export function namedPolicy(app, name) {
  const { state, data } = app;
  if (name === "posterior") {
    const answer = app.here().answer ?? (data.path ? null : data.answer);
    if (answer && (state.scale === 1 || !data.path || !answer.draft)) {
      const label = answer.draft ? "posterior, first answer" : "posterior";
      return { policy: answer.executed, stderr: answer.stderr, label, computed: true };
    }
    if (data.path) {
      return { policy: policyAt(data.path, state.scale, "executed"), stderr: null, label: "posterior", computed: true };
    }
    return null;
  }
  if (name === "soft") {
    const computed = data.at(1 / state.alpha).soft;
    if (!computed && !data.path) return null;
    const policy = computed ?? policyAt(/** @type {import("./types.js").Path} */ (data.path), 1 / state.alpha, "soft");
    return { policy, stderr: null, label: `soft, α = ${fmt(state.alpha)}`, computed: computed !== null };
  }
  const found = neighbours(app).find((one) => one.name === name);
  return found ? { policy: found, stderr: null, label: name, computed: true } : null;
}

/** The answers beside the posterior, at the present scale. @param {App} app @returns {Policy[]} */
export function neighbours(app) {
  const { neighbours: found, vsmc } = app.here();
  return [...(found ?? app.data.lastNeighbours), ...(vsmc ? [vsmc] : [])];
}

/** What an action is called in a state. @param {import("./types.js").Info} info @param {number} s @param {number} a */
export function actionName(info, s, a) {
  const { kind, roads, place, edges, labels } = info.picture;
  if (kind === "courses") return info.actions[a].replace(/^enrol /, "");
  const edge = kind === "map" ? roads[place[s]]?.[a] : undefined;
  return edge === undefined ? info.actions[a] : `to ${labels[edges[edge][1]]}`;
}

/** The mean total variation between two policies, weighted by the visits of the first.
 * @param {App} app @param {Policy} a @param {Policy} b */
export function distance(app, a, b) {
  const actions = app.info?.actions.length ?? 1;
  let sum = 0;
  let weight = 0;
  for (let s = 0; s < a.occupancy.length; s++) {
    if (app.info?.absorbing.has(s)) continue;
    sum += a.occupancy[s] * variation(a.policy, b.policy, s, actions);
    weight += a.occupancy[s];
  }
  return weight ? sum / weight : 0;
}

/** @param {Float32Array} p @param {Float32Array} q @param {number} s @param {number} actions */
export function variation(p, q, s, actions) {
  let sum = 0;
  for (let a = 0; a < actions; a++) sum += Math.abs(p[s * actions + a] - q[s * actions + a]);
  return sum / 2;
}

/** Whether the two most probable actions of a state are nearly even.
 * @param {import("./types.js").Info} info @param {Float32Array} policy @param {number} s */
export function isEven(info, policy, s) {
  const actions = info.actions.length;
  let first = 0;
  let second = 0;
  for (let a = 0; a < actions; a++) {
    const p = policy[s * actions + a];
    if (p > first) [first, second] = [p, first];
    else if (p > second) second = p;
  }
  return info.choices.has(s) && first - second < info.even;
}

/** @param {number|null|undefined} value @param {number} [digits] */
export function fmt(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3)) return value.toExponential(1);
  return String(Number(value.toPrecision(digits)));
}

/** @param {number} share */
export function percent(share) {
  if (share > 0 && share < 0.005) return "<1%";
  if (share < 1 && share > 0.995) return ">99%";
  return `${Math.round(100 * share)}%`;
}

/** @param {number|null} value @param {number|null} error @param {number} [digits] */
export function withError(value, error, digits = 3) {
  return fmt(value, digits) + (error ? ` ± ${fmt(error, 2)}` : "");
}
