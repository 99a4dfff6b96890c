// SPDX-License-Identifier: Apache-2.0
//
// A table of any length: only the rows in sight exist. Rows have one height, so their place is arithmetic. Head, body
// and foot share one grid template and scroll sideways together. Selection: click, with Ctrl/Cmd one more, with Shift a
// range; keys: arrows, Page, Home, End, Space, Ctrl+A. A row keeps its element while it is in sight: a browser makes no
// click of a press and a release on two elements, so rows made anew by a scroll in between would swallow it.
import { h, type Child } from "./dom";
import { textWidth } from "./text_width";

export const kRowHeight = 26;
export const kTableScale = 13 / 11.5;
const kPadding = 16;

export interface GridColumn { id: string; title: string; tip: string; width: number; numeric: boolean; grow?: boolean }

export interface GridOptions {
  label: string;
  columns: () => readonly GridColumn[];
  cell: (row: number, column: GridColumn, room: number) => Child | readonly Child[];  // room: pixels for text
  rowTip?: (row: number) => string;
  sort: (column: GridColumn) => void;
  sortedBy: () => { id: string; descending: boolean } | null;
  select: (rows: ReadonlySet<number>, focus: number | null) => void;
  selected: () => ReadonlySet<number>;
  open?: (row: number) => void;
}

export class Grid {
  readonly root: HTMLElement;
  readonly foot = h("div", { class: "grid-foot" });
  private rows_: readonly number[] = [];
  private readonly head_ = h("div", { class: "grid-head", role: "row" });
  private readonly body_ = h("div", { class: "grid-body", role: "rowgroup" });
  private readonly scroller_: HTMLElement;
  private cursor_ = 0; // position in rows_
  private anchor_ = 0;
  private readonly drawn_ = new Map<number, HTMLElement>();
  private readonly filled_ = new Set<number>(); // rows whose cells are as they should be
  private rooms_ = "";

  constructor(private readonly options: GridOptions) {
    this.scroller_ = h("div", { class: "grid-scroll", tabindex: 0, role: "grid", "aria-label": options.label, "aria-multiselectable": "true" },
      this.head_, this.body_);
    this.root = h("div", { class: "grid" }, this.scroller_, this.foot);
    this.scroller_.addEventListener("scroll", () => {
      this.foot.scrollLeft = this.scroller_.scrollLeft;
      this.draw_();
    }, { passive: true });
    this.body_.addEventListener("click", (event) => this.click_(event));
    this.body_.addEventListener("dblclick", () => { const row = this.rows_[this.cursor_]; if (row !== undefined) options.open?.(row); });
    this.scroller_.addEventListener("keydown", (event) => this.key_(event));
    new ResizeObserver(() => this.draw_()).observe(this.scroller_);
  }

  get rows(): readonly number[] { return this.rows_; }

  // Wide enough for the title with its arrow; pictures' text is a little smaller than a table's.
  private width_(column: GridColumn): number {
    return Math.max(column.width, Math.ceil(textWidth(`${column.title} ▾`, true) * kTableScale) + 20);
  }

  setRows(rows: readonly number[]): void {
    this.rows_ = rows;
    this.cursor_ = Math.min(this.cursor_, Math.max(0, rows.length - 1));
    this.scroller_.setAttribute("aria-rowcount", String(rows.length + 1));
    this.refresh();
  }

  refresh(): void {
    const columns = this.options.columns();
    const widths = columns.map((column) => this.width_(column));
    this.root.style.setProperty("--grid-columns", widths.map((width, i) => (columns[i]!.grow ? `minmax(${width}px, 1fr)` : `${width}px`)).join(" "));
    const width = widths.reduce((sum, one) => sum + one, 0);
    this.body_.style.height = `${this.rows_.length * kRowHeight}px`;
    this.body_.style.minWidth = this.head_.style.minWidth = `${width}px`;
    const sorted = this.options.sortedBy();
    this.head_.replaceChildren(...columns.map((column) => {
      const direction = sorted?.id === column.id ? (sorted.descending ? "descending" : "ascending") : "none";
      return h("div", { role: "columnheader", "aria-sort": direction, class: column.numeric ? "number" : null },
        h("button", { type: "button", "data-tip": column.tip, "data-column": column.id, click: () => this.sort_(column) },
          column.title, direction === "none" ? "" : direction === "descending" ? " ▾" : " ▴"));
    }));
    this.filled_.clear();
    this.draw_();
  }

  // Another order is read from its beginning.
  private sort_(column: GridColumn): void {
    this.options.sort(column);
    this.scroller_.scrollTop = 0;
    this.draw_();
  }

  // Brings a row into sight if it is not.
  reveal(row: number): void {
    const position = this.rows_.indexOf(row);
    if (position < 0) return;
    this.cursor_ = this.anchor_ = position;
    this.revealPosition_(position, true);
    this.draw_();
  }

  focus(): void { this.scroller_.focus({ preventScroll: true }); }

  private revealPosition_(position: number, centre: boolean): void {
    const view = this.scroller_.clientHeight - this.head_.offsetHeight;
    const top = position * kRowHeight;
    const above = top < this.scroller_.scrollTop;
    const below = top + kRowHeight > this.scroller_.scrollTop + view;
    if (!above && !below) return;
    this.scroller_.scrollTop = centre ? top - view / 2 : above ? top : top + kRowHeight - view;
  }

  private draw_(): void {
    const columns = this.options.columns();
    const first = Math.max(0, Math.floor(this.scroller_.scrollTop / kRowHeight) - 8);
    const last = Math.min(this.rows_.length, first + Math.ceil(this.scroller_.clientHeight / kRowHeight) + 16);
    const selected = this.options.selected();
    const widths = columns.map((column) => this.width_(column));
    const spare = Math.max(0, this.scroller_.clientWidth - widths.reduce((sum, width) => sum + width, 0));
    const growing = columns.filter((column) => column.grow).length;
    const rooms = columns.map((column, i) => widths[i]! + (column.grow ? spare / growing : 0) - kPadding);
    if (this.rooms_ !== rooms.join()) {
      this.rooms_ = rooms.join();
      this.filled_.clear();
    }
    const inSight = new Set(this.rows_.slice(first, last));
    for (const [row, element] of this.drawn_) {
      if (inSight.has(row)) continue;
      element.remove();
      this.drawn_.delete(row);
      this.filled_.delete(row);
    }
    let next = this.body_.firstElementChild;
    for (let position = first; position < last; position += 1) {
      const row = this.rows_[position]!;
      const element = this.rowElement_(row, position, selected.has(row));
      if (!this.filled_.has(row)) {
        element.replaceChildren(...columns.map((column, i) =>
          h("div", { role: "gridcell", class: column.numeric ? "number" : null }, this.options.cell(row, column, rooms[i]!))));
        this.filled_.add(row);
      }
      if (element === next) next = next.nextElementSibling;
      else this.body_.insertBefore(element, next);
    }
  }

  private rowElement_(row: number, position: number, selected: boolean): HTMLElement {
    let element = this.drawn_.get(row);
    if (!element) this.drawn_.set(row, element = h("div", { role: "row", "data-row": row }));
    element.className = position === this.cursor_ ? "grid-row cursor" : "grid-row";
    element.setAttribute("aria-rowindex", String(position + 2));
    element.setAttribute("aria-selected", String(selected));
    element.dataset.position = String(position);
    element.style.transform = `translateY(${position * kRowHeight}px)`;
    return element;
  }

  private click_(event: MouseEvent): void {
    const element = (event.target as Element).closest<HTMLElement>("[data-position]");
    if (!element) return;
    const position = Number(element.dataset.position);
    this.moveTo_(position, event.shiftKey, event.ctrlKey || event.metaKey);
  }

  private moveTo_(position: number, range: boolean, toggle: boolean): void {
    const row = this.rows_[position];
    if (row === undefined) return;
    this.cursor_ = position;
    if (range) {
      const [from, to] = [Math.min(this.anchor_, position), Math.max(this.anchor_, position)];
      this.options.select(new Set(this.rows_.slice(from, to + 1)), row);
    } else if (toggle) {
      const rows = new Set(this.options.selected());
      if (!rows.delete(row)) rows.add(row);
      this.anchor_ = position;
      this.options.select(rows, rows.has(row) ? row : null);
    } else {
      this.anchor_ = position;
      this.options.select(new Set([row]), row);
    }
    this.revealPosition_(position, false);
    this.draw_();
  }

  private key_(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(this.scroller_.clientHeight / kRowHeight) - 3);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.rows_.length, End: this.rows_.length };
    const step = steps[event.key];
    if (step !== undefined) {
      const last = this.rows_.length - 1;
      this.moveTo_(Math.min(last, Math.max(0, this.cursor_ + step)), event.shiftKey, false);
    } else if (event.key === " ") {
      this.moveTo_(this.cursor_, false, true);
    } else if (event.key === "a" && (event.ctrlKey || event.metaKey)) {
      this.options.select(new Set(this.rows_), this.rows_[this.cursor_] ?? null);
      this.draw_();
    } else if (event.key === "Enter") {
      const row = this.rows_[this.cursor_];
      if (row !== undefined) this.options.open?.(row);
    } else {
      return;
    }
    event.preventDefault();
  }
}
