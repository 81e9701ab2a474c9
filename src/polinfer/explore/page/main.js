// @ts-check
import { App } from "./app.js";
import { Client } from "./api/client.js";

// The token is in a cookie now: it need not stay in the address, where it could be copied with it.
if (location.search) history.replaceState(null, "", location.pathname + location.hash);
new App(/** @type {HTMLElement} */ (document.getElementById("app")), new Client()).start();
