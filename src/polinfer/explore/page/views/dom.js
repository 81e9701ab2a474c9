// @ts-check
/** Making elements.  Text is always set as text, never as markup. */

/** @typedef {Node|string|number|null|undefined|false} Child */

/**
 * @param {string} tag @param {Object<string, any>} [attributes] @param {...(Child|Child[])} children
 * @returns {any}
 */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/**
 * @param {string} tag @param {Object<string, any>} [attributes] @param {...(Child|Child[])} children
 * @returns {any}
 */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** @param {any} element @param {Object<string, any>} attributes @param {any[]} children */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    // ARIA has words for yes and no; of other attributes the presence counts.
    else if (name.startsWith("aria-") && typeof value === "boolean") element.setAttribute(name, String(value));
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** @param {Element} parent @param {...(Child|Child[])} children */
export function replace(parent, ...children) {
  const kept = /** @type {any[]} */ (children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  parent.replaceChildren(...kept);
}

const FOCUSABLE = "button, input, select, [tabindex]";

/** Redraw an element; what had the focus in it has it afterwards, and the caret is where it was. @param {Element} root @param {() => void} redraw */
export function keepFocus(root, redraw) {
  const focused = document.activeElement;
  const inside = focused && focused !== root && root.contains(focused);
  const at = inside ? [...root.querySelectorAll(FOCUSABLE)].indexOf(focused) : -1;
  const id = inside ? focused.id : "";
  const caret = focused instanceof HTMLInputElement ? [focused.selectionStart, focused.selectionEnd] : [null, null];
  redraw();
  if (!inside || root.contains(document.activeElement)) return;
  const found = (id && document.getElementById(id)) || root.querySelectorAll(FOCUSABLE)[at];
  if (found instanceof HTMLElement) found.focus({ preventScroll: true });
  if (found instanceof HTMLInputElement && caret[0] !== null) found.setSelectionRange(caret[0], caret[1]);
}
