// SPDX-License-Identifier: Apache-2.0
//
// What a view is: made once when first shown, told about every change while in sight. `unlisten` ends a view's
// interest when the engine changes and all views are made anew.
import type { Store, State } from "../ui/store";

export interface View {
  readonly root: HTMLElement;
  shown?(): void;                                    // came into sight, or its size changed
  changed?(state: Readonly<State>, before: Readonly<State>): void; // while in sight
  printed?(): HTMLElement;                           // stands in on paper for what scrolls on screen
  keys?(event: KeyboardEvent): boolean;              // true: handled
}

export type MakeView = (store: Store) => View;
