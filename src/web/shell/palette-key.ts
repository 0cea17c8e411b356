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

/** Opens the palette with the key from now on, and at once if the key came a moment ago. Returns how to end this. */
export function onPaletteKey(handler: () => void): () => void {
  open = handler;
  if (performance.now() - pressedAt < rememberedMs) handler();
  pressedAt = Number.NEGATIVE_INFINITY;
  return () => {
    if (open === handler) open = undefined;
  };
}
