// SPDX-License-Identifier: Apache-2.0
//
// Deep links: "#layers&layer=Conv_0%20%2B%20Relu_1&engine=1&filter=type%3Aconv". The part after '#' is never sent
// anywhere, and a link works in a mailed file.
export const kViews = ["summary", "layers", "timeline", "graph", "charts", "roofline", "memory", "findings", "compare", "model"] as const;
export type ViewId = (typeof kViews)[number];

export interface Link { view: ViewId; layer: string | null; engine: number; filter: string }

export function parseLink(hash: string): Link {
  const [view, ...parts] = hash.replace(/^#/, "").split("&");
  const fields = new URLSearchParams(parts.join("&"));
  const engine = Number(fields.get("engine") ?? 0);
  return {
    view: kViews.find((known) => known === view) ?? "summary",
    layer: fields.get("layer"),
    engine: Number.isInteger(engine) && engine >= 0 ? engine : 0,
    filter: fields.get("filter") ?? "",
  };
}

export function formatLink(link: Link): string {
  const parts: string[] = [link.view];
  if (link.layer !== null) parts.push(`layer=${encodeURIComponent(link.layer)}`);
  if (link.engine !== 0) parts.push(`engine=${link.engine}`);
  if (link.filter !== "") parts.push(`filter=${encodeURIComponent(link.filter)}`);
  return `#${parts.join("&")}`;
}
