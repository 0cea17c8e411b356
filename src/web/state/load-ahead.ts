/**
 * Owns the files of the pages that load on demand. All of them load while the browser is idle, so every page and dialog
 * also opens while the server is down.
 */
type Load = () => Promise<unknown>;

const waiting: Load[] = [];

/** Registers a dynamic import, so that `loadAhead` finds it. */
export function onDemand<T>(load: () => Promise<T>): () => Promise<T> {
  waiting.push(load);
  return load;
}

const whenIdle = (act: () => void): void => {
  // Safari has no idle callbacks.
  if (typeof requestIdleCallback === 'function') requestIdleCallback(act, { timeout: 2_000 });
  else setTimeout(act, 200);
};

/** The mark in the browser's timeline from which on files load ahead: the page itself needed only those before it. */
const mark = 'load-ahead';

function loadNext(): void {
  const load = waiting.shift();
  if (load !== undefined) whenIdle(() => void load().then(loadNext, loadNext));
}

/** What the page shows comes first: its own requests, and drawing their answers. */
const restMs = 2_500;
let isPlanned = false;

/** Loads one file after the other, each in an idle moment, once the page has settled. A file that fails loads when somebody asks for it. */
export function loadAhead(): void {
  if (isPlanned) return;
  isPlanned = true;
  setTimeout(() => {
    performance.mark(mark);
    loadNext();
  }, restMs);
}
