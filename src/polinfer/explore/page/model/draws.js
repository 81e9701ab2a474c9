// @ts-check
/** Questions that policies drawn from the posterior answer at once, before the server has computed them. */

/** @typedef {import("./types.js").Answer} Answer @typedef {import("./types.js").Info} Info */

/** @param {Answer} answer @param {Info} info @param {[number, number][]} choices @returns {number[]} which draws */
export function matching(answer, info, choices) {
  /** @type {number[]} */ const found = [];
  if (!answer.drawn) return found;
  const states = info.states.length;
  for (let n = 0; n < answer.draws; n++) {
    if (choices.every(([s, a]) => /** @type {Float32Array} */ (answer.drawn)[n * states + s] === a)) found.push(n);
  }
  return found;
}

/** @param {Answer} answer @param {Info} info @param {[number, number][]} choices */
export function chance(answer, info, choices) {
  if (!answer.draws) return null;
  const share = matching(answer, info, choices).length / answer.draws;
  return { share, stderr: Math.sqrt((share * (1 - share)) / answer.draws) };
}

/**
 * The marginal policy of the draws that make some choices; null where they are too few to say.
 * @param {Answer} answer @param {Info} info @param {[number, number][]} choices
 */
export function conditional(answer, info, choices) {
  const kept = matching(answer, info, choices);
  if (!answer.drawn || kept.length < 20) return null;
  const states = info.states.length;
  const actions = info.actions.length;
  const policy = new Float32Array(states * actions);
  const stderr = new Float32Array(states * actions);
  for (const n of kept) for (let s = 0; s < states; s++) policy[s * actions + answer.drawn[n * states + s]] += 1 / kept.length;
  for (let s = 0; s < states; s++) {
    if (!info.choices.has(s)) policy.set(answer.executed.policy.subarray(s * actions, (s + 1) * actions), s * actions);
  }
  for (let i = 0; i < policy.length; i++) stderr[i] = Math.sqrt((policy[i] * (1 - policy[i])) / kept.length);
  return { policy, stderr, draws: kept.length };
}
