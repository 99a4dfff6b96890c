// SPDX-License-Identifier: Apache-2.0
//
// What a timeline draws: tracks of spans. A typical run (averages, a track per stream), single runs of the profile one below the
// other from a common start, or the queries of the measurement as they really followed each other.
import type { EngineModel } from "./engine_model";

export interface Span { layer: number; run: number; start: number; end: number } // layer -1: a whole query, `run` says which
export interface Track { name: string; tip: string; spans: Span[] }
export type TimelineMode = "typical" | "runs" | "queries";

function streamsOf(model: EngineModel): number[] {
  return [...new Set(model.layers.map((layer) => layer.stream))].sort((a, b) => a - b);
}

function typicalTracks(model: EngineModel): Track[] {
  return streamsOf(model).map((stream) => ({
    name: `Stream ${stream}`, tip: "Average times, one layer after another",
    spans: model.layers.flatMap((layer, i): Span[] => (layer.stream === stream && layer.time
      ? [{ layer: i, run: -1, start: layer.time.start_ms, end: layer.time.start_ms + layer.time.average_ms }] : [])).sort((a, b) => a.start - b.start),
  }));
}

// Layers of a stream stand one after another: the profile times each by itself.
function runTracks(model: EngineModel): Track[] {
  const runs = model.engine.layer_runs;
  if (!runs) return [];
  const streams = streamsOf(model);
  return runs.times_ms.flatMap((times, run) => streams.map((stream): Track => {
    let at = 0;
    const spans = model.layers.flatMap((layer, i): Span[] => {
      if (layer.stream !== stream) return [];
      const start = at;
      at += times[i] ?? 0;
      return at > start ? [{ layer: i, run, start, end: at }] : [];
    });
    return { name: `Run ${runs.numbers[run]!}${streams.length > 1 ? `, ${stream}` : ""}`, tip: `Run ${runs.numbers[run]!} of ${runs.count} of the layer profile`, spans };
  }));
}

// Queries that overlap are on different streams or threads: each goes to the first track that is free.
function queryTracks(model: EngineModel): Track[] {
  const times = model.engine.iterations;
  if (!times || times.start_ms.length !== times.compute_ms.length || !times.start_ms.some((start) => start > 0)) return [];
  const first = times.start_ms.reduce((a, b) => Math.min(a, b), Infinity);
  const spans = times.compute_ms.map((ms, run): Span => ({ layer: -1, run, start: times.start_ms[run]! - first, end: times.start_ms[run]! - first + ms }))
    .sort((a, b) => a.start - b.start || a.run - b.run);
  const tracks: Span[][] = [];
  for (const span of spans) {
    // Rounding of the file's six digits is no overlap.
    const rounding = 1e-3 + 1e-5 * (span.start + first);
    const free = tracks.find((track) => track[track.length - 1]!.end <= span.start + rounding);
    if (free) free.push(span);
    else tracks.push([span]);
  }
  return tracks.map((track, i) => ({ name: tracks.length > 1 ? `Stream ${i}` : "Queries", tip: "Queries as they followed each other", spans: track }));
}

export function tracksOf(model: EngineModel, mode: TimelineMode): Track[] {
  return mode === "typical" ? typicalTracks(model) : mode === "runs" ? runTracks(model) : queryTracks(model);
}

export function modesOf(model: EngineModel): readonly (readonly [TimelineMode, string])[] {
  const modes: (readonly [TimelineMode, string])[] = [["typical", "Typical run"]];
  if (model.engine.layer_runs) modes.push(["runs", "Single runs"]);
  if (queryTracks(model).length > 0) modes.push(["queries", "Queries"]);
  return modes;
}
