// SPDX-License-Identifier: Apache-2.0
//
// The colours of data as people see them who lack one kind of cone (one man in twelve): each pair must stay apart. The
// simulation is that of Machado, Oliveira and Fernandes (2009) at full severity; distances are those of CIE Lab, where 2.3
// is just noticeable side by side and 10 is told apart in a legend.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

type Triple = [number, number, number];

const kVision: Record<string, [Triple, Triple, Triple]> = {
  "all three cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};
const kLeast = 11;

const dot = (a: Triple, b: Triple) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

function lab(hex: string, vision: [Triple, Triple, Triple]): Triple {
  const linear = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)) as Triple;
  const seen = vision.map((row) => Math.min(1, Math.max(0, dot(row, linear)))) as Triple;
  const [x, y, z] = [dot([0.4124, 0.3576, 0.1805], seen) / 0.95047, dot([0.2126, 0.7152, 0.0722], seen), dot([0.0193, 0.1192, 0.9505], seen) / 1.08883]
    .map((v) => (v > 0.008856 ? Math.cbrt(v) : 7.787 * v + 16 / 116)) as Triple;
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

// The colours of a theme as the style sheet has them; the dark one changes some of the light one's.
function themes(): [name: string, colours: Map<string, string>][] {
  const css = readFileSync(`${process.env.LATHE_ROOT}/explorer/web/src/style/base.css`, "utf8");
  const block = (selector: string) => css.slice(css.indexOf(`${selector} {`)).split("}")[0]!;
  const read = (text: string): [string, string][] => [...text.matchAll(/--k-([a-z]+[0-9]?): (#[0-9a-f]{6})/g)].map((found) => [found[1]!, found[2]!]);
  const light = read(block(":root"));
  return [["light", new Map(light)], ["dark", new Map([...light, ...read(block(':root[data-theme="dark"]'))])]];
}

for (const [theme, colours] of themes()) {
  for (const [name, vision] of Object.entries(kVision)) {
    test(`colours of the ${theme} theme stay apart with ${name}`, () => {
      const keys = [...colours.keys()].filter((key) => !key.startsWith("heat"));
      assert.equal(keys.length, 9);
      const seen = new Map(keys.map((key) => [key, lab(colours.get(key)!, vision)]));
      const close = keys.flatMap((a, i) => keys.slice(i + 1).map((b): [string, number] => {
        const [p, q] = [seen.get(a)!, seen.get(b)!];
        return [`${a} and ${b}`, Math.hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2])];
      })).filter(([, distance]) => distance < kLeast);
      assert.deepEqual(close, []);
      // Steps of time are told by lightness alone, in one direction.
      const heat = [0, 1, 2, 3, 4].map((step) => lab(colours.get(`heat${step}`)!, vision)[0]);
      const steps = heat.slice(1).map((value, i) => value - heat[i]!);
      assert.ok(steps.every((step) => Math.abs(step) > 8 && Math.sign(step) === Math.sign(steps[0]!)), `lightness of heat: ${heat.map(Math.round)}`);
    });
  }
}
