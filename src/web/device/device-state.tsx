/** Owns how the state of devices is shown: whether the policy is in force on one and on how many, and whether a device is connected. */
import type { ReactNode } from 'react';
import type { DeviceStatus } from '../../api/device.ts';
import { inForceTitles, inForceMeanings, mostUrgentFirst, type InForce } from '../../api/enforcement/in-force.ts';
import { Tag, ago, type Tone } from '../components/page.tsx';
import { stateOf } from '../model/device-state.ts';
import type { Convergence } from '../../api/enforcement/convergence.ts';
import { grouped, plural } from '../../client/words/number.ts';

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

type Counts = Omit<Convergence, 'revision' | 'pending'>;
const countOf = (counts: Counts, word: InForce): number => counts[word === 'yes' ? 'in_force' : word];

export function InForceCount({ counts }: { readonly counts: Counts }): ReactNode {
  const rest = mostUrgentFirst.filter((word) => word !== 'yes' && countOf(counts, word) > 0);
  return (
    <span className="tags">
      <span>
        In force on {grouped(counts.in_force)} of {plural(counts.devices, 'device')}
      </span>
      {rest.map((word) => (
        <Tag key={word} tone={stateTones[word]}>
          {grouped(countOf(counts, word))} {inForceTitles[word]}
        </Tag>
      ))}
    </span>
  );
}
