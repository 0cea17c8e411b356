/** Owns the list of keyboard shortcuts, which opens with the question mark. */
import { useEffect, useState, type ReactNode } from 'react';
import { Dialog } from '../components/dialog.tsx';

const shortcuts: readonly (readonly [keys: string, effect: string])[] = [
  ['Ctrl K', 'Find a page, a device or a group; explain it, show its flows, isolate it, copy a command'],
  ['?', 'This list'],
  ['Ctrl S', 'Save the group that you edit'],
  ['↑ ↓ ← →', 'Move through the reachability matrix, or through what was found'],
  ['Shift and click', 'Select a range of devices'],
  ['Esc', 'Close a dialog'],
];

const wanted = new EventTarget();
export const showShortcuts = (): void => void wanted.dispatchEvent(new Event('show'));

/** Whether the key goes into a field. */
const isTyping = ({ target }: KeyboardEvent): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || target.matches('input, textarea, select'));

export function Shortcuts(): ReactNode {
  const [opened, setOpened] = useState(false);
  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    wanted.addEventListener('show', () => setOpened(true), { signal });
    addEventListener(
      'keydown',
      (event) => {
        if (event.key === '?' && !event.ctrlKey && !event.metaKey && !isTyping(event)) setOpened(true);
      },
      { signal },
    );
    return () => stop.abort();
  }, []);
  return !opened ? null : (
    <Dialog close={() => setOpened(false)} title="Keyboard shortcuts">
      <dl className="facts">
        {shortcuts.map(([keys, effect]) => (
          <div key={keys} className="fact">
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{effect}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
