/** Owns the answer to "has it arrived?" on the page of a device: what its agent reported, beside what should be in force. */
import type { ReactNode } from 'react';
import type { Device, DeviceStatus } from '../../api/device.ts';
import { arrivalOf, neededRevision, type Arrival } from '../model/device-state.ts';
import { plural } from '../model/rule-text.ts';
import { usePicture, useStatuses } from '../state/organization.ts';
import { DeviceState } from './device-state.tsx';
import { Ago } from '../components/time.tsx';

const sentences: { readonly [A in Arrival]: (status: DeviceStatus['status'] | undefined, needed: number) => string } = {
  applied: () => 'What stands on this page is in force on the device.',
  behind: (status, needed) =>
    `The device has revision ${status?.revision ?? 0} in force; what stands on this page is revision ${needed}. The change is on its way.`,
  starting: () => 'The agent has started and is about to apply its rules.',
  failed: () => 'The newest rules could not be applied. The rules before them stay in force.',
  silent: () =>
    'The agent has not reported for a while. A device keeps its rules while its agent or the server is away.',
  unseen: () => 'No agent has reported for this device. Rules count from the moment one runs there.',
};

export function DeviceAgent({ device }: { readonly device: Device }): ReactNode {
  const picture = usePicture();
  const status = useStatuses().get(device.id);
  const said = status?.status;
  const arrival = arrivalOf(device, status, picture, Date.now());
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
        <DeviceState arrival={arrival} status={status} />
      </div>
      <div className="card-body stack">
        <p className={arrival === 'failed' ? 'fault' : 'small dimmed'} role="status">
          {sentences[arrival](said, neededRevision(device, picture))}
        </p>
        {said?.detail === undefined || said.detail === '' || arrival === 'applied' ? null : (
          <pre className="code" tabIndex={0} aria-label="What the agent said">
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
