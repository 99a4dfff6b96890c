// SPDX-License-Identifier: Apache-2.0
//
// Elements from data. Text only ever becomes a text node or an attribute value, never markup: layer names come from
// files of strangers.
type Handler = (event: never) => void;
export type Attributes = Record<string, string | number | boolean | null | undefined | Handler>;
export type Child = Node | string | number | null | undefined | false;

const kSvg = "http://www.w3.org/2000/svg";

function fill<E extends Element>(element: E, attributes: Attributes, children: readonly (Child | readonly Child[])[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value as unknown as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function append(parent: Element, children: readonly (Child | readonly Child[])[]): void {
  for (const child of children.flat() as Child[]) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(typeof child === "object" ? child : String(child));
  }
}

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: (Child | readonly Child[])[]): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

export function s<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: (Child | readonly Child[])[]): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(kSvg, tag) as SVGElementTagNameMap[K], attributes, children);
}

export function swatch(colour: { key: string }, label: string): HTMLElement {
  return h("span", { class: "legend-item" }, h("i", { class: `swatch k-${colour.key}` }), label);
}

// A name that may break after '/', '_' and '+' rather than anywhere, and not behind the arrow of a reformat.
export function breakable(text: string): HTMLElement {
  return h("span", { class: "breakable" }, text.replace(/^([→←]) /, "$1\u00a0").split(/(?<=[/_+])/).flatMap((part, i) => (i === 0 ? [part] : [h("wbr"), part])));
}

// A row of buttons of which one is pressed.
export function choice<T extends string>(label: string, options: readonly (readonly [value: T, title: string])[], current: T,
                                         change: (value: T) => void): HTMLElement {
  const group = h("span", { class: "choice", role: "group", "aria-label": label });
  const buttons = options.map(([value, title]) => {
    const button = h("button", { type: "button", "aria-pressed": String(value === current), "data-value": value }, title);
    button.addEventListener("click", () => {
      buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
      change(value);
    });
    return button;
  });
  group.append(h("span", { class: "choice-label" }, label), ...buttons);
  return group;
}

export function section(title: string, ...children: (Child | readonly Child[])[]): HTMLElement {
  return h("section", { class: "panel" }, h("h2", {}, title), ...children);
}

// A plain table of text: [header..., rows...].
export function simpleTable(head: readonly string[], rows: readonly (readonly Child[])[], numeric: readonly number[] = []): HTMLTableElement {
  const cellClass = (i: number) => (numeric.includes(i) ? "number" : null);
  return h("table", { class: "simple" },
    head.length > 0 && h("thead", {}, h("tr", {}, head.map((title, i) => h("th", { class: cellClass(i), scope: "col" }, title)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) => h("td", { class: cellClass(i) }, cell))))));
}

// Names and values; values that are empty are left out.
export function facts(entries: readonly (readonly [name: string, value: Child, tip?: string])[]): HTMLElement {
  return h("dl", { class: "facts" }, entries.filter(([, value]) => value !== "" && value !== null && value !== undefined)
    .flatMap(([name, value, tip]) => [h("dt", { title: tip }, name), h("dd", {}, value)]));
}

export function download(name: string, type: string, text: string): void {
  saveBlob(name, new Blob([text], { type }));
}

export function saveBlob(name: string, blob: Blob): void {
  const address = URL.createObjectURL(blob);
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

// A button that copies text and says so. Without clipboard access (old browsers on file://) it selects instead.
export function copyButton(text: () => string, title = "Copy"): HTMLButtonElement {
  const button = h("button", { type: "button", class: "copy" }, title);
  button.addEventListener("click", async () => {
    button.textContent = (await copied(text())) ? "Copied" : "Not allowed here";
    setTimeout(() => { button.textContent = title; }, 1200);
  });
  return button;
}

async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "off-screen" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
