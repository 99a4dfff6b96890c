// SPDX-License-Identifier: Apache-2.0
//
// One tooltip for all views: an element with data-tip shows its text beside the pointer, or below what has the keyboard's focus, at once, where the browser's own
// would wait; layers use data-layer and a text made on demand.
import { h } from "./dom";

export function installTooltip(describeLayer: (layer: number) => string): void {
  const box = h("div", { class: "tooltip", role: "tooltip", hidden: true });
  document.body.append(box);
  const show = (from: EventTarget | null, left: number, top: number) => {
    const target = from instanceof Element ? from.closest("[data-tip], [data-layer-tip]") : null;
    if (!target) {
      box.hidden = true;
      return;
    }
    const text = target.getAttribute("data-tip") ?? describeLayer(Number(target.getAttribute("data-layer-tip")));
    if (box.textContent !== text) box.textContent = text;
    box.hidden = text === "";
    const { offsetWidth: width, offsetHeight: height } = box;
    const x = left + 14 + width > innerWidth ? left - width - 10 : left + 14;
    const y = top + 16 + height > innerHeight ? top - height - 10 : top + 16;
    box.style.transform = `translate(${Math.max(4, x)}px, ${Math.max(4, y)}px)`;
  };
  document.addEventListener("pointermove", (event) => show(event.target, event.clientX, event.clientY));
  // Who comes by keyboard has no pointer: the text stands below what has the focus.
  document.addEventListener("focusin", (event) => {
    const target = event.target as Element;
    if (!target.matches(":focus-visible")) return;
    const { left, bottom } = target.getBoundingClientRect();
    show(target, left - 14, bottom - 12);
  });
  for (const name of ["pointerleave", "pointerdown", "keydown", "focusout"]) document.addEventListener(name, () => { box.hidden = true; });
}
