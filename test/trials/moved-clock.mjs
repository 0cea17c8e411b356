/** Moves the clock of a program by the milliseconds that a file says, which may change while it runs. Preloaded by NODE_OPTIONS. */
import { readFileSync } from 'node:fs';

const now = Date.now.bind(Date);
let [moved, readAt] = [0, Number.NEGATIVE_INFINITY];
Date.now = () => {
  if (performance.now() - readAt > 100) {
    moved = Number(readFileSync(process.env['MOVED_CLOCK'] ?? '', 'utf8'));
    readAt = performance.now();
  }
  return now() + moved;
};
