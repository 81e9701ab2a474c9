// @ts-check
/** The state of the page in its address, behind the '#': it never leaves the browser. */

const REWARDS = ["success_prob", "horizon", "reward_scale", "gravel_reward", "goal_reward", "swamp_reward", "step_reward"];

/** What can be shared: everything that decides what the page shows. */
export const INITIAL = {
  /** @type {import("./types.js").ProblemRequest|null} */ problem: null,
  tab: "ask",
  view: "picture",
  scale: 1,
  alpha: 1,
  /** @type {number|null} */ select: null,
  /** @type {[number, number][]} */ given: [],
  shown: "posterior",
  against: "",
  mode: "thompson",
  seed: 1,
};

const POLICIES = ["posterior", "soft", "control as inference", "optimum", "optimum with a clock", "uniform", "VSMC (paper)"];
/** Words that the page knows; an address with others is read without them. @type {Object<string, string[]>} */
const KNOWN = { tab: ["ask", "watch", "compare", "judge", "take"], view: ["picture", "list"], mode: ["thompson", "stepwise"], shown: POLICIES, against: POLICIES };
/** The smallest and the largest of a number. @type {Object<string, [number, number]>} */
const BOUNDS = { scale: [1e-4, 1e4], alpha: [0.01, 100], seed: [0, 99999], select: [0, 1e6] };

/** @typedef {typeof INITIAL} State */

/** @param {State} state @returns {string} */
export function toHash(state) {
  const out = new URLSearchParams();
  const problem = state.problem;
  if (problem) {
    if (problem.type === "grid") out.set("map", (problem.map ?? "").replaceAll("\n", "/"));
    if (problem.type === "named") out.set("problem", problem.name ?? "");
    if (problem.type === "opened") out.set("opened", problem.digest ?? "");
    for (const name of REWARDS) {
      const value = /** @type {any} */ (problem)[name];
      if (value !== undefined && value !== null) out.set(name, String(value));
    }
  }
  for (const name of ["tab", "view", "scale", "alpha", "select", "shown", "against", "mode", "seed"]) {
    const value = /** @type {any} */ (state)[name];
    if (value !== /** @type {any} */ (INITIAL)[name] && value !== null) {
      out.set(name, typeof value === "number" ? String(Number(value.toPrecision(6))) : value);
    }
  }
  if (state.given.length) out.set("given", state.given.map((pair) => pair.join(".")).join("_"));
  return "#" + out.toString();
}

/** @param {string} hash @param {import("./types.js").ProblemRequest} fallback @returns {State} */
export function fromHash(hash, fallback) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  /** @type {State} */
  const state = { ...INITIAL, given: [], problem: fallback };
  /** @type {any} */
  let problem = null;
  if (given.has("map")) problem = { type: "grid", map: (given.get("map") ?? "").replaceAll("/", "\n") };
  else if (given.has("problem")) problem = { type: "named", name: given.get("problem") };
  else if (given.has("opened")) problem = { type: "opened", digest: given.get("opened") };
  if (problem) {
    for (const name of REWARDS) {
      const value = Number(given.get(name));
      const kept = problem.type === "grid" || name === "horizon" || name === "reward_scale";
      if (given.has(name) && Number.isFinite(value) && kept) problem[name] = value;
    }
    state.problem = problem;
  }
  for (const name of ["tab", "view", "shown", "against", "mode"]) {
    const word = given.get(name);
    if (word !== null && KNOWN[name].includes(word)) /** @type {any} */ (state)[name] = word;
  }
  for (const name of ["scale", "alpha", "seed", "select"]) {
    const value = Number(given.get(name));
    const [low, high] = BOUNDS[name];
    if (given.has(name) && value >= low && value <= high) /** @type {any} */ (state)[name] = value;
  }
  const pairs = (given.get("given") ?? "").split("_").filter(Boolean);
  state.given = pairs
    .map((text) => /** @type {[number, number]} */ (text.split(".").map(Number)))
    .filter((pair) => pair.length === 2 && pair.every(Number.isInteger));
  return state;
}
