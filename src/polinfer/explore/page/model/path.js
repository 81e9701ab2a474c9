// @ts-check
/** Moving through the path over reward scales: computed points, and straight lines between them. */

/** @typedef {import("./types.js").Path} Path @typedef {import("./types.js").Policy} Policy */

/** @param {Float32Array} a @param {Float32Array} b @param {number} share */
function blend(a, b, share) {
  const out = new Float32Array(a.length);
  for (let i = 0; i < a.length; i++) out[i] = a[i] + share * (b[i] - a[i]);
  return out;
}

/** @param {number} a @param {number} b @param {number} share */
const mix = (a, b, share) => a + share * (b - a);

/** @param {Path} path @param {number} scale @returns {{low: number, share: number}} */
function locate(path, scale) {
  const points = path.points;
  if (scale <= points[0].scale) return { low: 0, share: 0 };
  for (let i = 1; i < points.length; i++) {
    if (scale <= points[i].scale) {
      const share = Math.log(scale / points[i - 1].scale) / Math.log(points[i].scale / points[i - 1].scale);
      return share > 0.999 ? { low: i, share: 0 } : { low: i - 1, share: share < 0.001 ? 0 : share };
    }
  }
  return { low: points.length - 1, share: 0 };
}

/** @param {Policy} a @param {Policy} b @param {number} share @returns {Policy} */
function between(a, b, share) {
  return {
    ...a,
    policy: blend(a.policy, b.policy, share),
    occupancy: blend(a.occupancy, b.occupancy, share),
    returned: mix(a.returned, b.returned, share),
    success: a.success === null || b.success === null ? null : mix(a.success, b.success, share),
    entropy: mix(a.entropy, b.entropy, share),
    length: mix(a.length, b.length, share),
  };
}

/** @param {Path} path @param {number} scale @param {"executed"|"soft"} which @returns {Policy} */
export function policyAt(path, scale, which) {
  const { low, share } = locate(path, scale);
  const first = path.points[low][which];
  return share === 0 ? first : between(first, path.points[low + 1][which], share);
}

/** @param {Path} path @param {number} scale */
export function numbersAt(path, scale) {
  const { low, share } = locate(path, scale);
  const a = path.points[low];
  const b = share === 0 ? a : path.points[low + 1];
  return {
    computed: share === 0,
    returned: mix(a.executed.returned, b.executed.returned, share),
    returned_stderr: Math.max(a.returned_stderr, b.returned_stderr),
    entropy: mix(a.posterior_entropy, b.posterior_entropy, share),
    log_evidence: mix(a.log_evidence, b.log_evidence, share),
    log_evidence_stderr: Math.max(a.log_evidence_stderr, b.log_evidence_stderr),
  };
}

/**
 * Scales worth a mark: the ends, one, and where the return is half-way from the uniform policy to the optimum.
 * @param {Path} path
 */
export function marks(path) {
  const first = path.points[0].scale;
  const last = path.points[path.points.length - 1].scale;
  const found = [
    { name: "uniform", scale: first },
    { name: "1", scale: 1 },
    { name: "optimum", scale: last },
  ];
  const half = halfWay(path);
  if (half !== null) found.push({ name: "half-way", scale: half });
  return found;
}

/** The scale at which the return is half-way from the uniform policy to the optimum. @param {Path} path */
function halfWay(path) {
  const middle = (path.uniform + path.stationary) / 2;
  for (let i = 1; i < path.points.length; i++) {
    const a = path.points[i - 1].executed.returned;
    const b = path.points[i].executed.returned;
    if (a < middle && b >= middle) {
      const share = (middle - a) / (b - a);
      return path.points[i - 1].scale * (path.points[i].scale / path.points[i - 1].scale) ** share;
    }
  }
  return null;
}

/** How far the posterior at scale 1 is from the uniform policy to the optimum. @param {Path} path */
export function way(path) {
  const whole = path.stationary - path.uniform;
  if (whole <= 1e-9) return null;
  return { share: (policyAt(path, 1, "executed").returned - path.uniform) / whole, half: halfWay(path) };
}
