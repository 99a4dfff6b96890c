// SPDX-License-Identifier: Apache-2.0
//
// What stands above every view: what ran where and when, and, before anything else is read, whether its times can be used.
import { layersUsable } from "../data/engine_model";
import type { Engine } from "../data/schema";
import { h } from "../ui/dom";

export function contextLine(engine: Engine): HTMLElement {
  const { context } = engine;
  const parts = context ? [context.device, context.threads, context.shapes, context.precision, context.date, context.version] : [engine.device.name];
  return h("p", { class: "context" }, parts.filter((part) => part !== "").map((part) => h("span", {}, part)));
}

export function measurementBanner(engines: readonly Engine[], shown: Engine): HTMLElement | null {
  const poor = engines.filter((engine) => !layersUsable(engine));
  if (poor.length === 0) return null;
  const about = layersUsable(shown) ? poor[0]! : shown;
  return h("div", { class: "banner", role: "alert" }, h("b", {}, engines.length > 1 ? `${about.name}: ` : ""), about.measurement!.text);
}
