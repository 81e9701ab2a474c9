// @ts-check
/** Episodes, played in the page from the table of the problem; a seed and a number always give the same one. */

/** @typedef {import("./types.js").Info} Info */

/** @param {number} seed */
export function random(seed) {
  let word = seed >>> 0;
  return () => {
    word = (word + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(word ^ (word >>> 15), word | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** @param {ArrayLike<number>} weights @param {number} from @param {number} count @param {number} at */
function pick(weights, from, count, at) {
  let left = at;
  let last = 0;
  for (let i = 0; i < count; i++) {
    const weight = weights[from + i];
    if (weight <= 0) continue;
    last = i;
    if (left < weight) return i;
    left -= weight;
  }
  return last;
}

/**
 * Play one episode.
 * @param {Info} info
 * @param {Float32Array} policy [S, A]
 * @param {Float32Array|null} drawn [draws, S]; with it, one whole policy is drawn and kept to
 * @param {number} draws
 * @param {number} seed @param {number} number
 */
export function play(info, policy, drawn, draws, seed, number) {
  const table = info.outcomes;
  if (!table) throw new Error("The problem is too large for the page to play.");
  const chance = random(Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b));
  const states = info.states.length;
  const actions = info.actions.length;
  const member = drawn ? Math.floor(chance() * draws) : -1;
  let state = pick(info.initial, 0, states, chance());
  const steps = [];
  let total = 0;
  while (steps.length < info.horizon && !info.absorbing.has(state)) {
    const draw = chance();
    const action = drawn ? drawn[member * states + state] : pick(policy, state * actions, actions, draw);
    const row = (state * actions + action) * table.branches;
    const branch = pick(table.probability, row, table.branches, chance());
    const reward = table.reward[row + branch];
    total += reward;
    steps.push({ state, action, reward, total });
    state = table.successor[row + branch];
  }
  return { steps, last: state, total, member };
}
