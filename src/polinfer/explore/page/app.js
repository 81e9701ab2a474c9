// @ts-check
/** The page: one state (it is in the address), what was computed for it, and the views that draw both. */

import { fromHash, toHash } from "./model/address.js";
import { Data } from "./model/data.js";
import { numbersAt, way } from "./model/path.js";
import { answerOf, infoOf, pathOf, policyOf } from "./model/records.js";
import { actionName, fmt, namedPolicy, percent, shownPolicy } from "./model/shown.js";
import { AskView } from "./views/ask.js";
import { CompareView } from "./views/compare.js";
import { CoursesView } from "./views/courses.js";
import { h, keepFocus, replace } from "./views/dom.js";
import { Editor } from "./views/editor.js";
import { GridView } from "./views/grid.js";
import { JudgeView } from "./views/judge.js";
import { ListView } from "./views/list.js";
import { CardsView, GraphView, RoadsView } from "./views/nodes.js";
import { Slider } from "./views/slider.js";
import { TakeAwayView } from "./views/takeaway.js";
import { WatchView } from "./views/watch.js";

const TABS = [["ask", "Ask"], ["watch", "Watch"], ["compare", "Compare"], ["judge", "Judge"], ["take", "Take away"]];
const STAGES = { problem: "reading the problem", draft: "first answer", path: "reward scales", answer: "posterior", explain: "reasons", certificate: "certificate", neighbours: "neighbours", vsmc: "VSMC", given: "conditional posterior" };

export class App {
  /** @param {HTMLElement} root @param {any} client */
  constructor(root, client) {
    this.root = root;
    this.client = client;
    /** @type {import("./model/address.js").State} */ this.state = fromHash("", { type: "named", name: "gridworld/multimodal" });
    /** @type {import("./model/types.js").Info|null} */ this.info = null;
    this.data = new Data();
    this.stale = false;
    this.sliding = false;
    this.epoch = 0;
    /** @type {Object<string, string>} */ this.failed = {};
    /** @type {any} */ this.limits = { max_side: 30 };
    /** Names of the files that were opened, by digest. @type {Map<string, string>} */ this.files = new Map();
    /** @type {any} */ this.picture = null;
    /** @type {Editor|null} */ this.editor = null;
    /** @type {Map<string, string>} */ this.running = new Map();
    this.frame = 0;
    /** When sliding was put into the address last. */ this.slid = -Infinity;
    this.timer = 0;
    /** A remark above the picture, until something changes. */ this.remark = "";
    /** The name of the state that stays selected while the map is changed. @type {string|null} */ this.follows = null;
    /** A pointer is down where controls are: they stay, so that the click finds them. */ this.held = false;
    this.due = false;
  }

  async start() {
    try {
      this.limits = await this.client.start();
    } catch (error) {
      replace(this.root, h("p", { class: "alone" }, /** @type {Error} */ (error).message));
      return;
    }
    this.client.onAlive = (/** @type {boolean} */ alive) => this._alive(alive);
    this.client.onState = (/** @type {any} */ state) => this._progress(state);
    this._build();
    this.state = fromHash(location.hash, this.limits.problem);
    history.replaceState(null, "", toHash(this.state));
    addEventListener("popstate", () => this._restore());
    addEventListener("keydown", (event) => this._key(event));
    await this.load();
  }

  _build() {
    this.editor = new Editor(this);
    this.slider = new Slider(this);
    this.views = /** @type {Object<string, any>} */ ({ ask: new AskView(this), watch: new WatchView(this), compare: new CompareView(this), judge: new JudgeView(this), take: new TakeAwayView(this) });
    this.pictures = /** @type {Object<string, any>} */ ({ grid: new GridView(this), cards: new CardsView(this), map: new RoadsView(this), graph: new GraphView(this), courses: new CoursesView(this), list: new ListView(this) });
    const options = Object.entries(this.limits.presets ?? {});
    const others = (this.limits.names ?? []).filter((/** @type {string} */ name) => !(name in this.limits.presets));
    this.presets = h("select", { id: "preset", "aria-label": "Problem", disabled: !this.client.live, onchange: () => this._preset() },
      h("option", { value: "" }, this.limits.title || "your map"),
      h("optgroup", { label: "Presets" }, options.map(([name, title]) => h("option", { value: name }, title))),
      h("optgroup", { label: "More" }, others.map((/** @type {string} */ name) => h("option", { value: name }, name))));
    this.title = h("p", { class: "title" });
    this.banner = h("div", { class: "banner", role: "alert", hidden: true });
    this.status = h("div", { class: "status", role: "status", "aria-live": "off" });
    this.speech = h("p", { class: "unseen", "aria-live": "polite" });
    this.stage = h("div", { class: "stage" });
    this.kinds = h("div", { class: "switch", role: "group", "aria-label": "View" },
      ["picture", "list"].map((name) => h("button", { id: `view-${name}`, "aria-pressed": false, onclick: () => this.set({ view: name }) }, name === "picture" ? "Picture" : "List")));
    this.tabs = h("div", { class: "tabs", role: "tablist" }, TABS.map(([name, title]) =>
      h("button", { role: "tab", id: `tab-${name}`, "aria-controls": "side", onclick: () => this.set({ tab: name }), onkeydown: (/** @type {KeyboardEvent} */ event) => this._tabKey(event) }, title)));
    this.side = h("div", { id: "side", role: "tabpanel", tabindex: -1, "aria-labelledby": "tab-ask" });
    this.theme = h("button", { class: "icon", id: "theme", title: "Light or dark", "aria-label": "Light or dark", onclick: () => this._theme() }, "◐");
    for (const part of [this.side, this.stage]) part.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => this._hold(event));
    // Menus may keep the release of the pointer to themselves.
    for (const kind of ["pointerup", "pointercancel", "change", "keydown", "blur"]) addEventListener(kind, () => setTimeout(() => this._release()));
    addEventListener("pointermove", (event) => event.buttons || this._release());
    try {
      const kept = localStorage.getItem("polinfer-theme");
      if (kept) document.documentElement.dataset.theme = kept;
    } catch { /* a page opened from a file may have no storage */ }
    replace(this.root,
      h("header", {}, h("h1", {}, "polinfer ", h("span", {}, "explore")), this.presets, this.title, h("span", { class: "grow" }), this.status, this.theme),
      this.banner,
      h("main", {}, this.editor.element,
        h("div", { class: "centre" }, h("div", { class: "caption" }, (this.caption = h("p", { class: "soft" })), this.kinds), this.stage, this.slider.element),
        h("section", { class: "side", "aria-label": "Questions" }, this.tabs, this.side)),
      this.speech);
  }

  /** Compute what the state asks for; what was computed before stays, grey, until the new answer is there. */
  async load() {
    const epoch = ++this.epoch;
    this.stale = true;
    this.failed = {};
    if (!this.banner.dataset.gone) this.banner.hidden = true;
    this.draw();
    try {
      const info = infoOf(await this._ask("problem"));
      if (epoch !== this.epoch) return;
      // Nothing was there before: what is to be solved can be seen, and drawn on, already.
      if (!this.data.answer) {
        this.info = info;
        this._fit(info);
      }
      this.draw();
      const answer = answerOf(await this._ask("draft"));
      if (epoch !== this.epoch) return;
      this.info = info;
      this.data = new Data();
      this.data.keep(1).answer = answer;
      this.stale = false;
      this.say(answer.draft ? "A first answer is there." : "The answer is there.");
      this._fit(info);
      this.draw();
      this._more(epoch);
    } catch (error) {
      if (epoch === this.epoch) this._fail("problem", /** @type {any} */ (error));
    }
  }

  /** Keep what is selected and given, where it is in this problem. @param {import("./model/types.js").Info} info */
  _fit(info) {
    this.state.given = this.state.given.filter(([s, a]) => info.choices.has(s) && info.actions[a] !== undefined);
    if (this.follows !== null) this.state.select = info.states.includes(this.follows) ? info.states.indexOf(this.follows) : null;
    else if (this.state.select !== null && !info.states[this.state.select]) this.state.select = null;
    else return;
    this.follows = null;
    history.replaceState(null, "", toHash(this.state));
  }

  /** Ask for what follows the first answer: the server does it one by one. @param {number} epoch */
  _more(epoch) {
    const keep = (/** @type {(record: any) => void} */ use) => (/** @type {any} */ record) => {
      if (epoch !== this.epoch) return;
      use(record);
      this.draw();
    };
    const fail = (/** @type {string} */ kind) => (/** @type {any} */ error) => epoch === this.epoch && this._fail(kind, error);
    this._ask("path").then(keep((record) => { this.data.path = pathOf(record); this._agree(); })).catch(fail("path"));
    const explain = (/** @type {boolean} */ draft) => this._ask("explain", { draft }).then(keep((record) => { this.data.keep(1).explanation = record; })).catch(fail("explain"));
    explain(this.data.answer?.draft ?? false);
    if (this.data.answer?.draft) {
      this._ask("answer").then(keep((record) => {
        this.data.keep(1).answer = answerOf(record);
        this.say("The answer is there.");
        this._agree();
        explain(false);
      })).catch(fail("answer"));
    }
    this._lazy();
  }

  /** At scale 1 the path says what the answer says, which was computed more precisely. */
  _agree() {
    const { path, answer } = this.data;
    const at = path?.points.findIndex((point) => Math.abs(Math.log(point.scale)) < 1e-9) ?? -1;
    if (!path || !answer || answer.draft || at < 0) return;
    const points = [...path.points];
    points[at] = {
      ...points[at],
      executed: answer.executed,
      returned_stderr: 0,
      log_evidence: answer.log_evidence ?? points[at].log_evidence,
      log_evidence_stderr: answer.log_evidence_stderr ?? 0,
      posterior_entropy: answer.posterior_entropy ?? points[at].posterior_entropy,
    };
    this.data.path = { ...path, points };
  }

  /** What was computed at the scale where the slider stands. */
  here() {
    return this.data.at(this.state.scale);
  }

  /** Ask for what the open tab and the address need. */
  _lazy() {
    if (!this.info || this.stale || this.sliding) return;
    const { state, data } = this;
    const { tab, scale } = state;
    const others = [state.shown, state.against].some((name) => name && !["posterior", "soft", "VSMC (paper)"].includes(name));
    if (tab === "compare" || others) this._need("neighbours");
    if ([state.shown, state.against].includes("VSMC (paper)") && !this.here().vsmc) this._need("vsmc");
    // Of the soft policy the path knows some temperatures only; the one that is shown is computed.
    if (state.shown === "soft" || state.against === "soft" || tab === "compare") this._need("soft", 1 / state.alpha);
    // The path answers for every scale at once; what needs whole policies or errors is computed at this one.
    if (scale !== 1 && (tab === "watch" || state.given.length || (tab === "ask" && state.select !== null))) this._need("draft");
    if (scale !== 1 && tab === "ask" && state.select !== null) this._need("explain", scale, { draft: true });
    // What is taken away is what the program beside it computes, not the path's picture of it.
    if (scale !== 1 && (tab === "judge" || tab === "take")) this._need("answer");
    if (tab === "judge") this._need("certificate");
    this._lazyGiven();
  }

  _lazyGiven() {
    const { state, data } = this;
    const wanted = state.given.length ? JSON.stringify([state.given, state.scale]) : "";
    const draft = this.here().answer?.draft ?? true;
    if (wanted === data.givenFor && (draft || !data.givenDraft)) return;
    if (wanted !== data.givenFor) data.given = null;
    data.givenFor = wanted;
    data.givenDraft = draft;
    if (wanted) this.fetch("given", { given: state.given, scale: state.scale, draft });
  }

  /** Ask for something at a scale, once. @param {string} kind @param {number} [scale] @param {Object<string, any>} [more] */
  _need(kind, scale = this.state.scale, more = {}) {
    const { asked } = this.data.keep(scale);
    if (asked.has(kind)) return;
    asked.add(kind);
    this.fetch(kind, { scale, ...more });
  }

  /** @param {string} kind @param {Object<string, any>} [more] @param {(state: any) => void} [onProgress] */
  async fetch(kind, more = {}, onProgress = undefined) {
    const epoch = this.epoch;
    const data = this.data;
    const { givenFor, givenDraft } = data;
    const place = data.keep(more.scale ?? 1);
    const current = () => epoch === this.epoch && (kind !== "given" || (givenFor === data.givenFor && givenDraft === data.givenDraft));
    delete this.failed[kind];
    try {
      const record = await this._ask(kind, more, onProgress);
      if (!current()) return;
      if (kind === "given") data.given = answerOf(record);
      else if (kind === "neighbours") place.neighbours = data.lastNeighbours = record.map(policyOf);
      else if (kind === "vsmc") place.vsmc = policyOf(record);
      else if (kind === "soft") place.soft = policyOf(record);
      else if (kind === "explain") place.explanation = record;
      else if (kind === "certificate") place.certificate = record;
      else if (!place.answer || place.answer.draft) place.answer = answerOf(record);
    } catch (error) {
      if (/** @type {any} */ (error).cancelled) place.asked.delete(kind);
      if (current() && (kind === "given" || place === this.here())) this._fail(kind, /** @type {any} */ (error));
      if (/** @type {any} */ (error).cancelled) return;
    }
    this.draw();
  }

  /** @param {string} kind @param {Object<string, any>} [more] @param {(state: any) => void} [onProgress] */
  _ask(kind, more = {}, onProgress = undefined) {
    return this.client.ask({ kind, problem: this.state.problem, ...more }, onProgress);
  }

  /** @param {string} kind @param {{message: string, cancelled?: boolean}} error */
  _fail(kind, error) {
    this.failed[kind] = error.message;
    const needed = ["problem", "path", "answer"].includes(kind);
    if (error.cancelled && this.client.live && needed) {
      this.complain("Another page asked for something else, and this computation was stopped.", ["Go on", () => this.load()]);
    } else if (needed && !error.cancelled) this.complain(error.message);
    if (!error.cancelled) this.draw();
  }

  /** @param {string} sentence @param {[string, () => void]} [remedy] what a button does about it */
  complain(sentence, remedy = undefined) {
    this.banner.hidden = false;
    replace(this.banner, sentence.charAt(0).toUpperCase() + sentence.slice(1), /[.!?]$/.test(sentence) ? "" : ".",
      remedy && h("button", { class: "link", id: "remedy", onclick: remedy[1] }, remedy[0]),
      h("button", { class: "plain", "aria-label": "Close", onclick: () => { this.banner.hidden = true; } }, "✕"));
  }

  /** @param {boolean} alive */
  _alive(alive) {
    document.body.classList.toggle("gone", !alive);
    if (!alive) {
      this.running.clear();
      this._status();
      this.complain("The server has stopped. What you see stays; to go on, start polinfer explore again and open the address that it prints. With what stands behind # here, it shows this again.");
      this.banner.dataset.gone = "yes";
    } else if (this.banner.dataset.gone) {
      delete this.banner.dataset.gone;
      this.banner.hidden = true;
    }
  }

  /** @param {any} state */
  _progress(state) {
    if (state.state === "running") {
      const share = state.done > 0 ? ` ${Math.round(100 * state.done)}%` : state.note ? ` (${state.note})` : "";
      this.running.set(state.key, `${/** @type {any} */ (STAGES)[state.kind] ?? state.kind}${share}`);
    } else this.running.delete(state.key);
    this._status();
  }

  _status() {
    const words = [...this.running.values()];
    this.status.classList.toggle("busy", words.length > 0);
    const done = this.data.answer ? (this.data.answer.draft ? "first answer" : `${this.data.answer.method}, done`) : "";
    this.status.textContent = words.length ? words.join(", ") : done;
  }

  // What the views may do.

  /** @param {Partial<import("./model/address.js").State>} change */
  set(change) {
    Object.assign(this.state, change);
    this.remark = "";
    this.remember();
    this.draw();
  }

  /** Put the state into the address, as a place to come back to; sliding that goes on is one place. */
  remember(sliding = false) {
    const hash = toHash(this.state);
    if (hash === location.hash) return;
    const goesOn = sliding && performance.now() - this.slid < 1500;
    if (goesOn) history.replaceState(null, "", hash);
    else history.pushState(null, "", hash);
    this.slid = sliding ? performance.now() : -Infinity;
  }

  /** @param {any} problem @param {Object<string, any>} [more] */
  open(problem, more = {}) {
    this.follows = null;
    Object.assign(this.state, { problem, select: null, given: [], scale: 1, shown: "posterior", against: "", ...more });
    this.remember();
    this.load();
  }

  /** A change of the map: shown at once, solved shortly after. @param {any} problem @param {boolean} [goesOn] a stroke: one place to come back to */
  edit(problem, goesOn = false) {
    // Walls change the numbers of states: what is selected is found again by its name.
    if (this.state.select !== null && this.info) this.follows ??= this.info.states[this.state.select] ?? null;
    this.state.problem = problem;
    this.state.given = [];
    this.stale = true;
    this.remark = "";
    if (goesOn) history.replaceState(null, "", toHash(this.state));
    else this.remember();
    this.draw();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), 250);
  }

  /** @param {number} s */
  select(s) {
    this.follows = this.stale && this.info ? this.info.states[s] ?? null : null;
    this.set({ select: s < 0 ? null : s, tab: this.state.tab === "watch" || this.state.tab === "compare" ? this.state.tab : "ask" });
    if (this.info && s >= 0) this.say(`${this.info.states[s]}. ${this.describe(s)}`);
  }

  /** @param {number} s @param {number|null} a */
  give(s, a) {
    const kept = this.state.given.filter((pair) => pair[0] !== s);
    this.set({ given: a === null ? kept : [...kept, [s, a]], shown: "posterior" });
  }

  /** @param {number} scale */
  slide(scale) {
    this.sliding = true;
    this.state.scale = scale;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      this.drawPicture();
      this.slider?.draw();
    });
  }

  /** @param {number} alpha */
  slideAlpha(alpha) {
    this.sliding = true;
    this.state.alpha = alpha;
    this.state.shown = "soft";
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.drawPicture());
  }

  /** Sliding has ended. */
  settle() {
    this.sliding = false;
    this.remember(true);
    this.draw();
  }

  shown() {
    return shownPolicy(this);
  }

  against() {
    return namedPolicy(this, this.state.against);
  }

  /** @param {number} s @returns {import("./model/types.js").Choice|undefined} */
  choiceOf(s) {
    const found = this.here().explanation ?? this.data.at(1).explanation;
    return found?.choices.find((/** @type {any} */ choice) => choice.state === s);
  }

  /** @param {number} s */
  describe(s) {
    const shown = this.shown();
    if (!this.info || !shown) return "";
    if (this.info.absorbing.has(s)) return "The episode ends here.";
    const count = this.info.actions.length;
    const info = this.info;
    return info.actions.map((_, a) => ({ name: actionName(info, s, a), p: shown.policy.policy[s * count + a] }))
      .filter((one) => one.p > 0.004).sort((a, b) => b.p - a.p).slice(0, 5).map((one) => `${one.name} ${percent(one.p)}`).join(", ");
  }

  /** Say why nothing happened. @param {string} words */
  note(words) {
    this.remark = words;
    this.say(words);
    this.drawPicture();
  }

  /** For screen readers. @param {string} words */
  say(words) {
    if (this.speech) this.speech.textContent = words;
  }

  // Drawing.

  /** A map is drawn on while the pointer is down; everything else waits for its click. @param {PointerEvent} event */
  _hold(event) {
    this.held = event.button === 0 && !(event.target instanceof Element && event.target.closest("svg.grid"));
  }

  _release() {
    this.held = false;
    if (this.due) this.draw();
  }

  draw() {
    if (!this.editor) return;
    this.due = this.held;
    if (this.held) return;
    this._lazy();
    this.drawPicture();
    this.slider?.draw();
    this.editor.draw();
    this.side.setAttribute("aria-labelledby", `tab-${this.state.tab}`);
    for (const tab of this.tabs.children) {
      const on = tab.id === `tab-${this.state.tab}`;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
    }
    for (const button of this.kinds.children) button.setAttribute("aria-pressed", String(button.id === `view-${this.state.view}`));
    const view = this.views?.[this.state.tab] ?? this.views?.ask;
    if (this.side.firstChild !== view.element) replace(this.side, view.element);
    keepFocus(view.element, () => view.draw());
    const name = this.state.problem?.type === "named" ? this.state.problem.name : "";
    this.presets.value = name;
    this._title();
    this._status();
  }

  drawPicture() {
    const grid = this.state.problem?.type === "grid";
    const kind = this.state.view === "list" ? "list" : grid ? "grid" : this.info?.picture.kind ?? "grid";
    const view = this.pictures?.[kind];
    if (this.picture !== view) {
      this.picture = view;
      replace(this.stage, view.element);
    }
    view.draw();
    if (this.state.tab !== "watch") view.agentAt(null);
    const shown = this.shown();
    const against = this.state.against ? `, against ${this.against()?.label ?? this.state.against}` : "";
    this.caption.textContent = this.remark || (this.stale ? this._waiting() : shown ? shown.label + against + this._hint() : this._missing());
    this.caption.title = this.caption.textContent;
    view.element.setAttribute("aria-label", `${this.caption.textContent}; arrow keys move, Enter chooses`);
  }

  /** What the picture is while there is no answer to this problem. */
  _waiting() {
    const old = this.data.answer !== null;
    if (this.failed.problem) return old ? "not solved; the grey answer is that of another problem" : "not solved";
    return old ? "solving; the grey answer is the old one" : "solving …";
  }

  /** Why there is no picture of what should be shown. */
  _missing() {
    if (!this.info) return "";
    if (!this.client.live) return `${this.state.shown}: not part of this report at this reward scale`;
    return `${this.state.shown}: ${this.failed.vsmc || this.failed.neighbours || "being computed …"}`;
  }

  /** Say so where rewards hardly matter, and where they would. */
  _hint() {
    const { path } = this.data;
    if (!path || this.state.shown !== "posterior" || this.state.against || this.state.given.length) return "";
    if (this.state.scale !== 1) return this.here().answer || numbersAt(path, this.state.scale).computed ? "" : ", between two computed scales";
    const found = way(path);
    if (!found || found.share > 0.05) return "";
    return `; nearly the prior${found.half ? `, half-way to the optimum at × ${fmt(found.half, 2)}` : " at this reward scale"}`;
  }

  _title() {
    const info = this.info;
    if (!info) return;
    const policies = info.log_policies < 25 ? Math.round(Math.exp(info.log_policies)).toLocaleString("en") : `10^${Math.round(info.log_policies / Math.LN10)}`;
    this.title.textContent = [[info.states.length.toLocaleString("en"), "state"], [policies, "policy"], [info.horizon, "step"]]
      .map(([count, what]) => `${count} ${what === "policy" ? (count === "1" ? what : "policies") : what + (String(count) === "1" ? "" : "s")}`).join(", ");
  }

  _preset() {
    const name = this.presets.value;
    if (name) this.open({ type: "named", name }, name === "continuation" ? { tab: "compare" } : {});
    else this.open(this.limits.problem.type === "named" ? this.editor?.grid ?? this.limits.problem : this.limits.problem);
  }

  _restore() {
    const before = JSON.stringify(this.state.problem);
    this.follows = null;
    this.slid = -Infinity;
    this.state = fromHash(location.hash, this.limits.problem);
    if (JSON.stringify(this.state.problem) !== before) this.load();
    else this.draw();
  }

  _theme() {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("polinfer-theme", document.documentElement.dataset.theme);
    } catch { /* not kept, then */ }
  }

  /** @param {KeyboardEvent} event */
  _key(event) {
    if (event.target instanceof HTMLInputElement && event.target.type !== "range" && event.target.type !== "radio") return;
    if (event.target instanceof HTMLSelectElement) return;
    if (this.editor?.key(event)) event.preventDefault();
  }

  /** @param {KeyboardEvent} event */
  _tabKey(event) {
    const at = TABS.findIndex(([name]) => name === this.state.tab);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: TABS.length - 1 }[event.key];
    if (to === undefined) return;
    const next = TABS[(to + TABS.length) % TABS.length][0];
    event.preventDefault();
    this.set({ tab: next });
    document.getElementById(`tab-${next}`)?.focus();
  }
}
