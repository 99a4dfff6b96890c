// SPDX-License-Identifier: Apache-2.0
//
// What the user has chosen, in one place, and who wants to know. Views read it and listen; nothing else connects them,
// so a click in one selects in all.
import type { EngineModel, ColourMode } from "../data/engine_model";
import { kNoFacets, type FacetChoice } from "../data/filter";
import type { ViewId } from "../data/link";
import type { Analysis } from "../data/schema";

export interface State {
  view: ViewId;
  engine: number;              // which engine the views show
  focus: number | null;        // the layer whose details are open
  node: number | null;         // the model's node whose details are open
  selected: ReadonlySet<number>;
  filter: string;
  facets: FacetChoice;
  colours: ColourMode;
}

type Listener = (state: Readonly<State>, before: Readonly<State>) => void;

export class Store {
  private state_: State = {
    view: "summary", engine: 0, focus: null, node: null, selected: new Set(), filter: "", facets: kNoFacets, colours: "type",
  };
  private readonly listeners_ = new Set<Listener>();

  constructor(readonly analysis: Analysis, readonly models: readonly EngineModel[]) {}

  get state(): Readonly<State> { return this.state_; }
  get model(): EngineModel { return this.models[this.state_.engine]!; }

  update(change: Partial<State>): void {
    const before = this.state_;
    this.state_ = { ...before, ...change };
    // Another engine has other layers: indices of the old one mean nothing there.
    if (change.engine !== undefined && change.engine !== before.engine) {
      this.state_ = { ...this.state_, focus: change.focus ?? null, node: null, selected: new Set(change.selected ?? []), facets: kNoFacets };
    }
    for (const listener of [...this.listeners_]) listener(this.state_, before);
  }

  // One layer: select it and open its details.
  focus(layer: number | null): void {
    this.update({ focus: layer, selected: new Set(layer === null ? [] : [layer]) });
  }

  show(view: ViewId, layer: number | null = this.state_.focus): void {
    this.update({ view, focus: layer, selected: layer === null ? this.state_.selected : new Set([layer]) });
  }

  listen(listener: Listener): () => void {
    this.listeners_.add(listener);
    return () => this.listeners_.delete(listener);
  }
}
