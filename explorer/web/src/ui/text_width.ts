// SPDX-License-Identifier: Apache-2.0
//
// How wide a text will be, so that labels in pictures end inside their boxes whatever font the machine has. Widths are
// summed per character and remembered: kerning aside that is exact, and ten thousand labels cost nothing.
const kSize = 11.5; // as in style/views.css
const kWidths = new Map<string, number>();
let context: CanvasRenderingContext2D | null = null;

function characterWidth(character: string, bold: boolean): number {
  const key = bold ? `b${character}` : character;
  const known = kWidths.get(key);
  if (known !== undefined) return known;
  context ??= document.createElement("canvas").getContext("2d");
  let width = kSize * 0.62;
  if (context) {
    context.font = `${bold ? 600 : 400} ${kSize}px ${getComputedStyle(document.body).fontFamily}`;
    width = context.measureText(character).width;
  }
  kWidths.set(key, width);
  return width;
}

export function textWidth(text: string, bold = false): number {
  let width = 0;
  for (const character of text) width += characterWidth(character, bold);
  return width;
}

// The text, or as much of it as fits with an ellipsis: its beginning, or its end where that says more. '' when nothing
// useful fits.
export function fitText(text: string, room: number, { bold = false, keepEnd = false, least = 3 } = {}): string {
  if (textWidth(text, bold) <= room) return text;
  const characters = keepEnd ? [...text].reverse() : [...text];
  let left = room - characterWidth("…", bold);
  let count = 0;
  while (count < characters.length && left >= characterWidth(characters[count]!, bold)) {
    left -= characterWidth(characters[count]!, bold);
    count += 1;
  }
  if (count < least) return "";
  const kept = characters.slice(0, count);
  return keepEnd ? `…${kept.reverse().join("")}` : `${kept.join("")}…`;
}
