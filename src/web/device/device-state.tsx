/** Owns what is known of a device's agent: in a word, and in a sentence that answers whether a change is in force. */
import type { ReactNode } from 'react';
import type { DeviceStatus } from '../../api/device.ts';
import type { DeviceState } from '../model/device-state.ts';
import { Tag, type Tone } from '../components/tag.tsx';
import { ago } from '../components/time.tsx';

export const stateLabels: { readonly [S in DeviceState]: readonly [Tone, string] } = {
  applied: ['good', 'In force'],
  behind: ['accent', 'On its way'],
  starting: ['plain', 'Starting'],
  failed: ['bad', 'Failed'],
  silent: ['warn', 'Silent'],
  unseen: ['plain', 'Not seen yet'],
};

/** A native title instead of a tooltip: this stands in every row of a long list. */
export function DeviceStateTag({
  state,
  status,
}: {
  readonly state: DeviceState;
  readonly status: DeviceStatus | undefined;
}): ReactNode {
  if (status === undefined) return <span className="small dimmed">not seen yet</span>;
  const [tone, word] = stateLabels[state];
  const detail = status.status.detail ?? '';
  const reported = `reported ${ago(Date.parse(status.reported_at), Date.now())}`;
  return (
    <span title={detail === '' ? `${word}, ${reported}` : `${detail} (${reported})`}>
      <Tag tone={tone}>{word}</Tag>
    </span>
  );
}
