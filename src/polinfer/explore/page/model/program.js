// @ts-check
/** A Python program that computes what is shown. */

/** @typedef {import("../app.js").App} App */

const SOLVERS = {
  "control as inference": "polinfer.exact.control_as_inference(table)",
  optimum: "polinfer.exact.stationary_optimum(table)",
  "optimum with a clock": "polinfer.exact.finite_horizon_optimum(table)",
};

/** @param {number} value */
const number = (value) => String(Number(value.toPrecision(12)));
/** @param {string} text a string as Python writes it; JSON's escapes are Python's, too */
const quoted = (text) => JSON.stringify(text);

/** @param {App} app @returns {string} */
export function program(app) {
  const { state, info } = app;
  const lines = ["import polinfer", "", ...problemLines(app), ...answerLines(app)];
  if (info && state.select !== null && info.states[state.select]) {
    lines.push(`for action, share in zip(table.action_names, policy[${state.select}]):  # in ${quoted(info.states[state.select])}`,
      '    print(f"{action:12} {share:.3f}")');
  } else lines.push("print(policy.round(3))");
  return lines.join("\n");
}

/** @param {App} app @returns {string[]} */
function problemLines(app) {
  const { state, limits } = app;
  const problem = /** @type {any} */ (state.problem) ?? {};
  const scale = (problem.reward_scale ?? 1) * state.scale;
  /** @type {string[]} */ const options = [];
  if (problem.type === "opened") {
    if (problem.horizon) options.push(`horizon=${problem.horizon}`);
    if (scale !== 1) options.push(`reward_scale=${number(scale)}`);
    const file = app.files.get(problem.digest);
    const own = file ? `polinfer.load_table(${quoted(file)})` : limits.source_is_run ? `${limits.source}.mdp` : limits.source;
    return [`table = mdp = polinfer.tabulate(${own})${options.length ? `.with_problem(${options.join(", ")})` : ""}`];
  }
  if (problem.type === "grid") {
    options.push(`map=${quoted(problem.map)}`);
    for (const name of ["success_prob", "horizon", "gravel_reward", "goal_reward", "swamp_reward", "step_reward"])
      if (problem[name] !== undefined) options.push(`${name}=${number(problem[name])}`);
  } else {
    /** @type {Object<string, any>} */ const settings = { ...limits.settings?.[problem.name], ...(problem.horizon ? { horizon: problem.horizon } : {}) };
    for (const [name, value] of Object.entries(settings)) options.push(`${name}=${value === true ? "True" : value}`);
  }
  if (scale !== 1) options.push(`reward_scale=${number(scale)}`);
  const name = quoted(problem.type === "grid" ? "gridworld" : (problem.name ?? "").split(" ")[0]);
  const made = options.length > 1 ? `mdp = polinfer.make(\n    ${[name, ...options].join(",\n    ")},\n)` : `mdp = polinfer.make(${[name, ...options].join(", ")})`;
  return [made, "table = polinfer.tabulate(mdp)"];
}

/** @param {App} app @returns {string[]} */
function answerLines(app) {
  const { state, info, limits } = app;
  const mean = "policy = posterior.table_probs().mean(axis=0)  # a row a state, a column an action";
  if (state.shown === "soft") {
    // The page slides alpha in the problem's own rewards.
    return [`policy = polinfer.exact.soft_value_iteration(table, alpha=${number(state.alpha * state.scale)}).policy`];
  }
  if (state.shown === "uniform") return ["policy = polinfer.exact.uniform_policy(table)"];
  const solver = /** @type {Object<string, string>} */ (SOLVERS)[state.shown];
  if (solver) return [`policy = ${solver}.policy`];
  if (state.shown !== "posterior") return ['posterior = polinfer.infer(mdp, "vsmc", sweeps=2000, seed=0)', mean];
  const problem = /** @type {any} */ (state.problem);
  const waiting = app.here().answer?.draft ? ["# The page shows its first answer still; this is the whole one."] : [];
  const run = problem?.type === "opened" && problem.digest === limits.problem?.digest && limits.source_is_run && state.scale === 1 && !problem.horizon;
  const lines = [...waiting, run ? `posterior = ${limits.source}` : "posterior = polinfer.infer(mdp, seed=0)"];
  if (state.given.length && info) {
    const unique = new Set(info.states).size === info.states.length;
    const pairs = state.given.map(([s, a]) => unique ? `${quoted(info.states[s])}: ${quoted(info.actions[a])}` : `(posterior.states[${s}], ${a})`);
    lines.push(`posterior = posterior.given(${unique ? `{${pairs.join(", ")}}` : `[${pairs.join(", ")}]`})`);
  }
  return [...lines, mean];
}
