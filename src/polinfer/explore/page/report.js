// @ts-check
import { App } from "./app.js";
import { Inline } from "./api/inline.js";

const content = JSON.parse(/** @type {HTMLElement} */ (document.getElementById("content")).textContent ?? "{}");
new App(/** @type {HTMLElement} */ (document.getElementById("app")), new Inline(content)).start();
