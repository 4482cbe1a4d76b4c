// Hands on the timeline: wheel, pointer, two fingers, keys. Says what is wanted; others do it.

import type { View } from "../view";
import type { Plane } from "./geometry";

/** A press that moves no further than this is a click. */
const CLICK_PX = 4;
const WHEEL_ZOOM = 0.0022;

export interface Hands {
  view: View;
  plane: Plane;
  canvas: HTMLCanvasElement;
  /** The element that scrolls the rows. */
  scroller: HTMLElement;
  /** The pointer is here; or nowhere. */
  hover(at: { x: number; y: number } | null): void;
  click(at: { x: number; y: number }): void;
  /** A stretch of time is measured; or none. */
  measure(from: number, to: number): void;
  /** Whether dragging measures without the shift key. */
  rulerOn(): boolean;
  /** Whether `key` was one that means something here; asked before the keys that move the window. */
  key(key: string, shift: boolean): boolean;
}

interface Press {
  x: number;
  y: number;
}

export function listen(hands: Hands): void {
  const { canvas } = hands;
  const fingers = new Map<number, Press>();
  let start: (Press & { t: number; ruler: boolean; moved: boolean }) | null = null;
  const place = (event: MouseEvent): Press => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  canvas.addEventListener("wheel", (event) => wheel(hands, event, place(event).x), { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const at = place(event);
    fingers.set(event.pointerId, at);
    canvas.setPointerCapture(event.pointerId);
    const ruler = event.shiftKey || hands.rulerOn();
    start = { ...at, t: hands.plane.t(at.x), ruler, moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = place(event);
    const before = fingers.get(event.pointerId);
    if (!before || !start) return hands.hover(at);
    if (Math.hypot(at.x - start.x, at.y - start.y) > CLICK_PX) start.moved = true;
    if (fingers.size === 2) pinch(hands, fingers, event.pointerId, at);
    else if (start.moved && start.ruler) hands.measure(start.t, hands.plane.t(at.x));
    else if (start.moved) drag(hands, before, at, event.pointerType);
    fingers.set(event.pointerId, at);
  });
  const release = (event: PointerEvent) => {
    if (!fingers.delete(event.pointerId) || fingers.size > 0) return;
    if (event.type === "pointerup" && start && !start.moved) hands.click(place(event));
    start = null;
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  // A finger that is lifted leaves what it tapped to be read.
  canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hands.hover(null));
  canvas.addEventListener("dblclick", (event) => hands.view.zoom(0.25, hands.plane.t(place(event).x)));
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (hands.key(event.key, event.shiftKey) || keys(hands, event.key)) event.preventDefault();
  });
}

function wheel({ view, plane, scroller }: Hands, event: WheelEvent, x: number): void {
  const unit = event.deltaMode === 1 ? 16 : 1;
  const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
  if (event.shiftKey) {
    scroller.scrollTop += dy || dx;
  } else if (Math.abs(dx) > Math.abs(dy)) {
    view.pan(dx / plane.inner);
  } else {
    // All is seen and more is wanted: then the wheel is the page's.
    if (dy > 0 && view.to - view.from >= view.span) return;
    const around = Math.max(view.from, Math.min(view.to, plane.t(x)));
    view.zoom(Math.exp(Math.max(-240, Math.min(240, dy)) * WHEEL_ZOOM), around);
  }
  event.preventDefault();
}

function drag({ view, plane, scroller }: Hands, before: Press, at: Press, pointer: string): void {
  view.pan((before.x - at.x) / plane.inner);
  // A finger scrolls by itself.
  if (pointer === "mouse") scroller.scrollTop += before.y - at.y;
}

function pinch({ view, plane }: Hands, fingers: Map<number, Press>, moved: number, at: Press): void {
  const [before, other] = [fingers.get(moved), [...fingers].find(([id]) => id !== moved)?.[1]];
  if (!before || !other) return;
  const wide = (press: Press) => Math.max(12, Math.abs(press.x - other.x));
  view.pan((before.x - at.x) / 2 / plane.inner);
  view.zoom(wide(before) / wide(at), plane.t((at.x + other.x) / 2));
}

/** Keys that move the window; whether `key` was one. */
function keys({ view }: Hands, key: string): boolean {
  const around = view.cursor ?? (view.from + view.to) / 2;
  const deeds: Record<string, () => void> = {
    "+": () => view.zoom(0.5, around),
    "=": () => view.zoom(0.5, around),
    "-": () => view.zoom(2, around),
    "_": () => view.zoom(2, around),
    "0": () => view.show(0, view.span),
    Home: () => view.show(0, view.to - view.from),
    End: () => view.show(view.span - (view.to - view.from), view.span),
    ArrowLeft: () => view.pan(-0.15),
    ArrowRight: () => view.pan(0.15),
  };
  deeds[key]?.();
  return key in deeds;
}
