/** Owns what is known of a device's agent, in a word. */
import { Tooltip } from '@mantine/core';
import type { ReactNode } from 'react';
import type { DeviceStatus } from '../../api/device.ts';
import { Tag, type Tone } from './tag.tsx';
import { Ago } from './time.tsx';

/** An agent reports more often than this; silence beyond it is worth a word. */
const silentAfter = 10 * 60_000;

const words: { readonly [S in DeviceStatus['status']['state']]: readonly [Tone, string] } = {
  applied: ['good', 'In force'],
  starting: ['plain', 'Starting'],
  failed: ['bad', 'Failed'],
};

export function DeviceState({ status }: { readonly status: DeviceStatus | undefined }): ReactNode {
  if (status === undefined) return <span className="small dimmed">not seen yet</span>;
  const silent = Date.now() - Date.parse(status.reported_at) > silentAfter;
  const [tone, word] = silent ? (['warn', 'Silent'] as const) : words[status.status.state];
  return (
    <Tooltip
      label={
        <>
          {status.status.detail ?? words[status.status.state][1]}, reported <Ago at={status.reported_at} />
        </>
      }
    >
      <span>
        <Tag tone={tone}>{word}</Tag>
      </span>
    </Tooltip>
  );
}
