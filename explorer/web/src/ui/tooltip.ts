// SPDX-License-Identifier: Apache-2.0
//
// One tooltip for all views: an element with data-tip shows its text beside the pointer at once, where the browser's own
// would wait; layers use data-layer and a text made on demand.
import { h } from "./dom";

export function installTooltip(describeLayer: (layer: number) => string): void {
  const box = h("div", { class: "tooltip", role: "tooltip", hidden: true });
  document.body.append(box);
  const place = (event: PointerEvent) => {
    const { offsetWidth: width, offsetHeight: height } = box;
    const x = event.clientX + 14 + width > innerWidth ? event.clientX - width - 10 : event.clientX + 14;
    const y = event.clientY + 16 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 16;
    box.style.transform = `translate(${Math.max(4, x)}px, ${Math.max(4, y)}px)`;
  };
  document.addEventListener("pointermove", (event) => {
    const target = event.target instanceof Element ? event.target.closest("[data-tip], [data-layer-tip]") : null;
    if (!target) {
      box.hidden = true;
      return;
    }
    const text = target.getAttribute("data-tip") ?? describeLayer(Number(target.getAttribute("data-layer-tip")));
    if (box.textContent !== text) box.textContent = text;
    box.hidden = text === "";
    place(event);
  });
  for (const name of ["pointerleave", "pointerdown", "keydown"]) document.addEventListener(name, () => { box.hidden = true; });
}
