/** Owns how a device's state is shown: whether its policy is in force, and whether it is connected. */
import type { ReactNode } from 'react';
import type { DeviceStatus } from '../../api/device.ts';
import { inForceTitles, inForceMeanings, type InForce } from '../../api/enforcement/in-force.ts';
import { Tag, type Tone } from '../components/tag.tsx';
import { ago } from '../components/time.tsx';
import { stateOf } from '../model/device-state.ts';

export const stateTones: { readonly [Word in InForce]: Tone } = {
  yes: 'good',
  behind: 'warn',
  failed: 'bad',
  reverted: 'bad',
  offline: 'warn',
  never_seen: 'plain',
  not_understood: 'bad',
};

/** With a capital, as the pages write it. */
export const stateTitle = (word: InForce): string =>
  `${inForceTitles[word].charAt(0).toUpperCase()}${inForceTitles[word].slice(1)}`;

/** A full dot while the device is connected, a ring while it is away. */
const Presence = ({ isOnline }: { readonly isOnline: boolean }): ReactNode => (
  <span className={isOnline ? 'presence presence-on' : 'presence'}>
    <span className="visually-hidden">{isOnline ? 'online' : 'away'}</span>
  </span>
);

/** Uses a native title instead of a tooltip, because it appears in every row of a long list. */
export function DeviceStateTag({
  status,
  isTold = true,
  isIsolated = false,
}: {
  readonly status: DeviceStatus | undefined;
  /** Whether the server has said yet how devices stand. */
  readonly isTold?: boolean;
  /** Isolation comes first. A device that does not enforce it yet says so in the same tag, because a row of a list has no room for two. */
  readonly isIsolated?: boolean;
}): ReactNode {
  if (!isTold) return isIsolated ? <Tag tone="bad">Isolated</Tag> : <span className="dimmed">…</span>;
  const state = stateOf(status);
  const seen =
    status?.last_seen_at === undefined ? 'never seen' : `last seen ${ago(Date.parse(status.last_seen_at), Date.now())}`;
  return (
    <span
      className="tags tags-state"
      title={`The device ${status?.detail ?? inForceMeanings[state]} (${status?.online === true ? 'online' : seen})`}
    >
      {isIsolated ? (
        <Tag tone="bad">{state === 'yes' ? 'Isolated' : `Isolated, ${inForceTitles[state]}`}</Tag>
      ) : (
        <Tag tone={stateTones[state]}>{stateTitle(state)}</Tag>
      )}
      {status === undefined || state === 'never_seen' ? null : <Presence isOnline={status.online} />}
    </span>
  );
}
