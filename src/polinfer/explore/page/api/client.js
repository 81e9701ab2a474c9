// @ts-check
/** Talking to the server: requests, progress by server-sent events, and knowing when it is gone. */

/** @typedef {{key: string, state: string, kind: string, done: number, note: string, row: [number, number]|null}} JobState */

export class Client {
  constructor() {
    /** @type {Map<string, {resolve: (record: any) => void, reject: (error: Error) => void, onProgress?: (state: JobState) => void}>} */
    this.waiting = new Map();
    /** @type {(alive: boolean) => void} */ this.onAlive = () => {};
    /** @type {(state: JobState) => void} */ this.onState = () => {};
    this.live = true;
    this.misses = 0;
  }

  async start() {
    const info = await this._json("GET", "/api/start");
    this._listen();
    return info;
  }

  _listen() {
    const events = new EventSource("/api/events");
    events.onmessage = (event) => this._hear(JSON.parse(event.data));
    events.onopen = () => this.onAlive(true);
    events.onerror = () => this.onAlive(false);
    // An event may be lost while the connection is made anew: look for what is still waited for.
    setInterval(() => {
      for (const key of this.waiting.keys()) this._look(key).catch(() => {});
    }, 3000);
  }

  /** @param {JobState} state */
  _hear(state) {
    this.onState(state);
    const waiting = this.waiting.get(state.key);
    if (!waiting) return;
    if (state.state === "running") waiting.onProgress?.(state);
    else if (state.state !== "queued") this._look(state.key).catch(() => {});
  }

  /** @param {string} key */
  async _look(key) {
    const answer = await fetch(`/api/jobs/${key}`);
    const waiting = this.waiting.get(key);
    if (!waiting) return;
    const record = await answer.json();
    if (answer.status === 202 && (record.state === "queued" || record.state === "running")) return;
    this.waiting.delete(key);
    if (answer.status === 200) waiting.resolve(record);
    else waiting.reject(new Failure(record.note || record.error || record.state, record.state === "cancelled"));
  }

  /**
   * @param {any} request a JobRequest
   * @param {(state: JobState) => void} [onProgress]
   */
  async ask(request, onProgress) {
    const state = await this._json("POST", "/api/jobs", request);
    return this._wait(state, onProgress);
  }

  /** @param {any} request a SaveRequest */
  async save(request) {
    return this._wait(await this._json("POST", "/api/save", request));
  }

  /** @param {string} text */
  async openTable(text) {
    return this._json("POST", "/api/tables", text);
  }

  async cancel() {
    await this._json("DELETE", "/api/jobs");
  }

  /** @param {JobState} state @param {(state: JobState) => void} [onProgress] @returns {Promise<any>} */
  _wait(state, onProgress) {
    return new Promise((resolve, reject) => {
      const other = this.waiting.get(state.key);
      this.waiting.set(state.key, {
        resolve: (record) => (other?.resolve(record), resolve(record)),
        reject: (error) => (other?.reject(error), reject(error)),
        onProgress,
      });
      this._look(state.key).catch(() => {});
    });
  }

  /** @param {string} method @param {string} path @param {any} [body] */
  async _json(method, path, body) {
    let answer;
    try {
      answer = await fetch(path, {
        method,
        headers: body === undefined ? {} : { "content-type": "application/json" },
        body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
      });
    } catch {
      this.onAlive(false);
      throw new Failure("The server does not answer; start polinfer explore again.");
    }
    const record = await answer.json();
    if (!answer.ok) throw new Failure(record.error ?? "The server refused this.");
    return record;
  }
}

export class Failure extends Error {
  /** @param {string} sentence @param {boolean} [cancelled] */
  constructor(sentence, cancelled = false) {
    super(sentence);
    this.cancelled = cancelled;
  }
}
