// @ts-check
/** The same as the client, from records inside the page: a report that needs no server. */

import { Failure } from "./client.js";

export class Inline {
  /** @param {{start: any, records: Object<string, any>}} content */
  constructor(content) {
    this.content = content;
    this.live = false;
    this.onAlive = (/** @type {boolean} */ _alive) => {};
    this.onState = (/** @type {any} */ _state) => {};
  }

  async start() {
    return this.content.start;
  }

  /** @param {any} request */
  async ask(request) {
    const record = (request.scale ?? 1) === 1 ? this.content.records[request.kind] : undefined;
    if (record === undefined) throw new Failure("This page is a report; polinfer explore computes more.", true);
    return record;
  }

  async save() {
    throw new Failure("This page is a report; polinfer explore saves.");
  }

  async openTable() {
    throw new Failure("This page is a report; polinfer explore opens files.");
  }

  async cancel() {}
}
