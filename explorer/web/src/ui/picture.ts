// SPDX-License-Identifier: Apache-2.0
//
// Pictures that leave the page: an SVG with the page's styles written into it, or a PNG of it at twice its size.
import { h, saveBlob, download, type Child } from "./dom";

const kStyles = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "font-size", "font-family", "font-weight", "opacity", "text-anchor", "paint-order"];
const kScale = 2;
const kMost = 16000; // pixels that browsers still make a picture of

export interface Frame { x: number; y: number; width: number; height: number }

export function standaloneSvg(svg: SVGSVGElement, frame?: Frame): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const from = svg.querySelectorAll<SVGElement>("*");
  copy.querySelectorAll<SVGElement>("*").forEach((element, i) => {
    const style = getComputedStyle(from[i]!);
    for (const name of kStyles) element.style.setProperty(name, style.getPropertyValue(name));
  });
  if (frame) copy.setAttribute("viewBox", `${frame.x} ${frame.y} ${frame.width} ${frame.height}`);
  const size = frame ?? svg.getBoundingClientRect();
  copy.setAttribute("width", String(Math.ceil(size.width)));
  copy.setAttribute("height", String(Math.ceil(size.height)));
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("style", `background:${getComputedStyle(document.body).backgroundColor}`);
  return new XMLSerializer().serializeToString(copy);
}

export async function pngOf(text: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const scale = Math.min(kScale, kMost / Math.max(image.width, image.height, 1));
  const canvas = h("canvas", { width: Math.ceil(image.width * scale), height: Math.ceil(image.height * scale) });
  const context = canvas.getContext("2d")!;
  context.fillStyle = getComputedStyle(document.body).backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, failed) => canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("the picture is too large"))), "image/png"));
}

// Saves the picture that `find` returns; a page without one says so on the button.
export function pngButton(name: () => string, find: () => SVGSVGElement | null, text = (svg: SVGSVGElement) => standaloneSvg(svg)): HTMLButtonElement {
  const button = h("button", { type: "button", class: "save-picture", "data-tip": "Save this picture as PNG" }, "PNG");
  button.addEventListener("click", async () => {
    const svg = find();
    if (svg) saveBlob(`${name()}.png`, await pngOf(text(svg)));
  });
  return button;
}

export function svgButton(name: () => string, text: () => string): HTMLButtonElement {
  return h("button", { type: "button", "data-tip": "Save the picture as SVG", click: () => download(`${name()}.svg`, "image/svg+xml", text()) }, "SVG");
}

// A panel around a picture that can be saved.
export function pictureSection(title: string, name: string, area: HTMLElement, ...children: (Child | readonly Child[])[]): HTMLElement {
  return h("section", { class: "panel" }, h("header", { class: "panel-head" }, h("h2", {}, title), h("span", { class: "spring" }), pngButton(() => name, () => area.querySelector("svg"))), ...children, area);
}
