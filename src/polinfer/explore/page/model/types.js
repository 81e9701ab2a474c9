// @ts-check
/**
 * The records of the server (polinfer/explore/answers.py), as the page holds them.
 *
 * @typedef {{dtype: "u16"|"f32"|"i16", data: string}} Numbers
 * @typedef {{type: string, map?: string, name?: string, digest?: string, horizon?: number|null,
 *   reward_scale?: number, success_prob?: number, gravel_reward?: number, goal_reward?: number,
 *   swamp_reward?: number, step_reward?: number}} ProblemRequest
 * @typedef {{kind: string, width: number, height: number, letters: string, cell: number[],
 *   directions: [number, number][], nodes: [number, number][], labels: string[], marks: string[],
 *   place: number[], edges: [number, number][], roads: number[][], rows: string[], chart: number[][],
 *   records: string[], sets: number[][]}} Picture
 * @typedef {{name: string, policy: Float32Array, occupancy: Float32Array, returned: number,
 *   success: number|null, entropy: number, length: number, note: string, averaged: number|null}} Policy
 * @typedef {{branches: number, successor: Float32Array, probability: Float32Array, reward: Float32Array}} Outcomes
 * @typedef {{title: string, states: string[], actions: string[], horizon: number, initial: Float32Array,
 *   absorbing: Set<number>, choices: Set<number>, illegal: Set<string>, endings: Object<string, number[]>,
 *   log_policies: number, picture: Picture, grid: ProblemRequest|null, outcomes: Outcomes|null,
 *   even: number, clear: number}} Info
 * @typedef {{executed: Policy, stderr: Float32Array|null, method: string, reason: string, draft: boolean,
 *   seconds: number, log_evidence: number|null, log_evidence_stderr: number|null, expected_return: number|null,
 *   expected_return_stderr: number|null, posterior_entropy: number|null, draws: number,
 *   drawn: Float32Array|null, chance: number|null, chance_stderr: number|null}} Answer
 * @typedef {{scale: number, executed: Policy, soft: Policy, returned_stderr: number, expected_return: number,
 *   expected_return_stderr: number, log_evidence: number, log_evidence_stderr: number,
 *   posterior_entropy: number}} Point
 * @typedef {{points: Point[], uniform: number, optimum: number, stationary: number, enumerated: boolean}} Path
 * @typedef {{state: number, visits: number, verdict: string, disagrees: boolean,
 *   actions: {action: number, probability: number, returned: number, loss: number}[]}} Choice
 */
export {};
