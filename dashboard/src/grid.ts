// A table that sorts by a press on its heads, and shows no more rows than somebody asks for.

import { h } from "./dom";
import { count } from "./format";

export interface Column<T> {
  title: string;
  /** What the column says, where the title alone does not. */
  help?: string;
  cell(row: T): string | Node;
  /** Sorts by this; no head to press without it. */
  key?(row: T): number | string;
  number?: boolean;
  /** Its text may take several lines. */
  long?: boolean;
}

const SHOWN_FIRST = 40;

export class Grid<T> {
  readonly element: HTMLElement;
  private readonly body = h("tbody", {});
  private readonly more = h("div", { class: "more" });
  private rows: T[] = [];
  private by = -1;
  private down = false;
  private shown = SHOWN_FIRST;

  constructor(
    caption: string,
    private readonly columns: Column<T>[],
    private readonly press: ((row: T) => void) | null,
    private readonly compare: (a: string, b: string) => number,
  ) {
    const heads = columns.map((column, i) => this.head(column, i));
    const table = h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, ...heads)), this.body);
    this.element = h("div", {}, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, table), this.more);
  }

  set(rows: T[]): void {
    this.rows = rows;
    this.fill();
  }

  private head(column: Column<T>, i: number): HTMLElement {
    const th = h("th", { scope: "col", class: column.number ? "number" : "", title: column.help ?? null });
    if (!column.key) th.append(column.title);
    else th.append(h("button", { type: "button", click: () => this.sort(i) }, column.title));
    return th;
  }

  private sort(i: number): void {
    // Numbers are looked at from the greatest down, names from the first.
    this.down = this.by === i ? !this.down : Boolean(this.columns[i].number);
    this.by = i;
    const key = this.columns[i].key;
    if (!key) return;
    const order = (a: number | string, b: number | string) =>
      typeof a === "number" && typeof b === "number" ? a - b : this.compare(String(a), String(b));
    this.rows = [...this.rows].sort((a, b) => order(key(a), key(b)) * (this.down ? -1 : 1));
    this.element.querySelectorAll("th").forEach((th, at) => {
      if (at === i) th.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
    this.fill();
  }

  private fill(): void {
    this.body.replaceChildren(...this.rows.slice(0, this.shown).map((row) => this.row(row)));
    const left = this.rows.length - this.shown;
    const all = () => {
      this.shown = this.rows.length;
      this.fill();
    };
    this.more.replaceChildren(...(left > 0 ? [h("button", { type: "button", click: all }, `show ${count(left)} more`)] : []));
  }

  private row(row: T): HTMLElement {
    const cells = this.columns.map(({ cell, number, long }, i) => {
      const shown = cell(row);
      const press = this.press;
      if (i > 0 || !press) return h("td", { class: number ? "number" : long ? "long" : "" }, shown);
      return h("th", { scope: "row" }, h("button", { type: "button", class: "link", click: () => press(row) }, shown));
    });
    return h("tr", {}, ...cells);
  }
}
