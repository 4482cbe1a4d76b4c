// Elements made from data. Text becomes text nodes only, so nothing in a log can turn into markup.

type Child = Node | string | null | false | undefined;
type Attributes = Record<string, string | number | boolean | null | ((event: never) => void)>;

/** An element; functions among the attributes are listeners, `true` is an attribute without a value. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value as EventListener);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== null && child !== false && child !== undefined));
  return element;
}

/** A button; `title` says what it does where its face is a sign. */
export function button(face: string, title: string, press: () => void): HTMLButtonElement {
  return h("button", { type: "button", title, "aria-label": title, click: press }, face);
}

/** A section that links find by `id`, with a heading and a sentence about what it shows. */
export function section(id: string, title: string, caption: string, ...children: Child[]): HTMLElement {
  return h("section", { id }, h("h2", {}, title), caption !== "" && h("p", { class: "caption" }, caption), ...children);
}

/** Details whose body is made when they are opened, and again whenever `again` is called while they are open. */
export function lazyDetails(summary: string, body: () => Node): { element: HTMLDetailsElement; again: () => void } {
  const place = h("div", { class: "details" });
  const element = h("details", {}, h("summary", {}, summary), place);
  const again = () => {
    if (element.open) place.replaceChildren(body());
  };
  element.addEventListener("toggle", again);
  return { element, again };
}

/** A plain table. */
export function table(caption: string, heads: string[], rows: (string | Node)[][]): HTMLElement {
  const cells = (tag: "th" | "td", row: (string | Node)[]) => row.map((cell) => h(tag, tag === "th" ? { scope: "col" } : {}, cell));
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, ...cells("th", heads))),
      h("tbody", {}, ...rows.map((row) => h("tr", {}, ...cells("td", row))))),
  );
}
