// SPDX-License-Identifier: Apache-2.0
//
// Colours have names here and values in style.css (`--k-...`, with `--i-...` for text on them), so that both themes and
// print choose their own. The set is Okabe and Ito's, which people with any kind of colour blindness can tell apart.
// Nine families are as many as a reader can tell apart at once, so layer types share them by what they do.
export interface Colour { fill: string; ink: string; key: string }

export function colour(key: string): Colour {
  return { fill: `var(--k-${key})`, ink: `var(--i-${key})`, key };
}

const kTypeFamilies: [key: string, label: string, types: RegExp][] = [
  ["vermillion", "reformat, copy, cast", /^(reformat|copy|cast|nooprefor)/i],
  ["blue", "convolution", /^(conv|deconv|caskconv|caskdeconv|depthwise)/i],
  ["green", "matrix product", /^(mat|gemm|fullyconnected|feedforward|einsum)/i],
  ["purple", "attention", /attention|mha/i],
  ["sky", "normalisation, softmax", /norm|softmax|^lrn/i],
  ["orange", "pointwise", /^(pointwise|elementwise|unary|activation|scale|quantize|dequantize|clip|select|kgen)/i],
  ["yellow", "pooling, reduction", /^(pool|reduce|squeezeexcite|topk|cumsum|argm)/i],
  ["grey", "data movement", /^(shuffle|slice|concat|gather|scatter|resize|transpose|reshape|pad|split|expand|view|shape|tile|onehot|nonzero|identity)/i],
];
const kOther: [string, string] = ["dark", "other"];

export function typeFamily(type: string, kind = "compute"): [key: string, label: string] {
  if (kind === "reformat" || kind === "copy" || kind === "cast") return [kTypeFamilies[0]![0], kTypeFamilies[0]![1]];
  const found = kTypeFamilies.find(([, , types]) => types.test(type));
  return found ? [found[0], found[1]] : kOther;
}

const kPrecisions: Record<string, string> = {
  FP64: "dark", FP32: "blue", TF32: "sky", FP16: "orange", BF16: "green", FP8: "yellow", FP4: "vermillion",
  INT8: "purple", UINT8: "purple", INT4: "vermillion", INT32: "grey", INT64: "grey", BOOL: "grey",
};

export function precisionKey(precision: string): string {
  return kPrecisions[precision.toUpperCase()] ?? "dark";
}

const kVerdicts: Record<string, string> = { compute: "blue", memory: "orange", launch: "purple", unknown: "grey" };

export function verdictKey(verdict: string): string {
  return kVerdicts[verdict] ?? "grey";
}

// Five steps from light to dark by share of the largest value.
export function heatKey(share: number): string {
  return `heat${Math.min(4, Math.max(0, Math.floor(Math.sqrt(share) * 5)))}`;
}
