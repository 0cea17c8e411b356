/** Owns the answer to "is it in force?" on the page of a device: what its agent reported, beside what should be in force. */
import type { ReactNode } from 'react';
import type { Device, DeviceStatus } from '../../api/device.ts';
import { deviceStateOf, neededRevision, type DeviceState } from '../model/device-state.ts';
import { plural } from '../model/rule-text.ts';
import { useSnapshot, useStatuses } from '../state/organization.ts';
import { DeviceStateTag } from './device-state.tsx';
import { Ago } from '../components/time.tsx';

const sentences: {
  readonly [S in DeviceState]: (status: DeviceStatus['status'] | undefined, needed: number) => string;
} = {
  applied: () => 'The policy on this page is in force on the device.',
  behind: (status, needed) =>
    `The device has revision ${status?.revision ?? 0} in force; the policy on this page is revision ${needed}. The change is on its way.`,
  starting: () => 'The agent has started and is about to apply its rules.',
  failed: () => 'The newest rules could not be applied. The rules before them stay in force.',
  silent: () =>
    'The agent has not reported for a while. A device keeps its rules while its agent or the server is away.',
  unseen: () => 'No agent has reported for this device. Rules take effect when an agent runs there.',
};

export function DeviceAgent({ device }: { readonly device: Device }): ReactNode {
  const snapshot = useSnapshot();
  const status = useStatuses().get(device.id);
  const said = status?.status;
  const state = deviceStateOf(device, status, snapshot, Date.now());
  const facts: readonly (readonly [string, ReactNode])[] =
    status === undefined || said === undefined
      ? []
      : [
          ['Last seen', <Ago key="seen" at={status.reported_at} />],
          ['Revision in force', said.revision === undefined ? '–' : said.revision.toLocaleString('en')],
          ['Interface', said.interface ?? '–'],
          ['Agent', said.agent_version ?? '–'],
          ...(said.drift_repairs === undefined || said.drift_repairs === 0
            ? []
            : [['Foreign changes', `${plural(said.drift_repairs, 'time')} undone`] as const]),
        ];
  return (
    <section className="card" aria-label="On the device">
      <div className="card-head">
        <h2>On the device</h2>
        <DeviceStateTag state={state} status={status} />
      </div>
      <div className="card-body stack">
        <p className={state === 'failed' ? 'fault' : 'small dimmed'} role="status">
          {sentences[state](said, neededRevision(device, snapshot))}
        </p>
        {said?.detail === undefined || said.detail === '' || state === 'applied' ? null : (
          <pre className="code" tabIndex={0} aria-label="Message of the agent">
            {said.detail}
          </pre>
        )}
        {facts.length === 0 ? null : (
          <dl className="facts">
            {facts.map(([name, value]) => (
              <div key={name} className="fact">
                <dt>{name}</dt>
                <dd>{value}</dd>
              </div>
            ))}
          </dl>
        )}
      </div>
    </section>
  );
}
