/** Owns Ctrl+K from the first moment of the page: a key that comes before the palette is drawn opens it as soon as it is. */

/** Milliseconds after which an early key is forgotten: a person may have to sign in first. */
const rememberedMs = 10_000;

let open: (() => void) | undefined;
let pressedAt = Number.NEGATIVE_INFINITY;

addEventListener('keydown', (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== 'k') return;
  event.preventDefault();
  if (open === undefined) pressedAt = event.timeStamp;
  else open();
});

let typed: string | undefined;
/** When this is over, the palette did not come, and keys go where they belong. */
let keptUntil = 0;
/** Milliseconds in which the palette usually comes, many times over. */
const keptMs = 3_000;

/** Keeps what is typed from now on, until the palette's field has the focus: the palette is loaded when it is first opened. */
export function keepTyping(): void {
  typed ??= '';
  keptUntil = performance.now() + keptMs;
}

/** What was typed so far; nothing more is kept. */
export function takeTyped(): string {
  const text = typed ?? '';
  typed = undefined;
  return text;
}

addEventListener('keydown', (event) => {
  if (event.timeStamp > keptUntil) typed = undefined;
  if (typed === undefined || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === 'Escape') typed = undefined;
  if (event.key.length !== 1) return;
  event.preventDefault();
  typed += event.key;
});

/** Opens the palette with the key from now on, and at once if the key came a moment ago. Returns how to end this. */
export function onPaletteKey(handler: () => void): () => void {
  open = handler;
  if (performance.now() - pressedAt < rememberedMs) handler();
  pressedAt = Number.NEGATIVE_INFINITY;
  return () => {
    if (open === handler) open = undefined;
  };
}
