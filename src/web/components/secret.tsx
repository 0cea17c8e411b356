/** Owns a text to copy: shown in full, copied with one click, and selected where the browser allows no copying. */
import { Button } from '@mantine/core';
import { useRef, useState, type ReactNode } from 'react';
import { CheckIcon, CopyIcon } from './icons.tsx';

const words = { ready: 'Copy', copied: 'Copied', selected: 'Selected: press Ctrl+C' } as const;

export function TakeAway({
  text,
  copied = text,
  label,
}: {
  readonly text: string;
  /** What goes to the clipboard, where it differs from what is shown. */
  readonly copied?: string;
  readonly label: string;
}): ReactNode {
  const shown = useRef<HTMLPreElement>(null);
  const [state, setState] = useState<keyof typeof words>('ready');
  const select = (): void => {
    if (shown.current !== null) getSelection()?.selectAllChildren(shown.current);
    setState('selected');
  };
  const copy = (): void => {
    // There is no clipboard for pages that came over plain HTTP from elsewhere.
    if (!('clipboard' in navigator)) select();
    else navigator.clipboard.writeText(copied).then(() => setState('copied'), select);
  };
  return (
    <div className="take-away">
      <pre ref={shown} className="code" tabIndex={0} aria-label={label}>
        {text}
      </pre>
      <Button
        variant="default"
        leftSection={state === 'copied' ? <CheckIcon size={16} /> : <CopyIcon size={16} />}
        onClick={copy}
      >
        <span aria-live="polite">{words[state]}</span>
      </Button>
    </div>
  );
}
