/** Owns the help on what the fields of a rule take, behind a question mark. */
import { ActionIcon, Popover } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Direction } from '../../policy/rule.ts';

export function SyntaxHelp({ direction }: { readonly direction: Direction }): ReactNode {
  return (
    <Popover width={360} position="bottom-end" trapFocus={false}>
      <Popover.Target>
        <ActionIcon size="lg" variant="default" aria-label={`How to write ${direction} rules`}>
          ?
        </ActionIcon>
      </Popover.Target>
      <Popover.Dropdown>
        <div className="stack small">
          <p>
            <strong>Ports</strong>: <code>443</code>, <code>8000-8010</code>, or nothing for all.
          </p>
          <p>
            <strong>{direction === 'inbound' ? 'From' : 'To'}</strong>: addresses and ranges such as{' '}
            <code>10.0.0.0/8</code>, <code>label:app</code> or <code>label:app+prod</code> (devices that carry all of
            these), <code>device:web-1</code> and <code>all-devices</code>. Nothing means any address.
          </p>
          <p className="dimmed">
            All devices and single devices trust their users with their addresses; labels trust owners only.
          </p>
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}
