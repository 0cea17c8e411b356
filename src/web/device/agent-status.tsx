/** Owns the answer to "is it in force?" on a device's page: what its agent reported, beside the desired policy. */
import type { ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import type { InForce } from '../../api/enforcement/in-force.ts';
import { packetWords } from '../../client/words/packets.ts';
import { stateOf } from '../model/device-state.ts';
import { plural } from '../model/rule-text.ts';
import { useSnapshot, useStatuses } from '../state/organization.ts';
import { DeviceStateTag } from './device-state.tsx';
import { Facts, type Fact } from '../components/facts.tsx';
import { Ago } from '../components/time.tsx';
import { Card } from '../components/page.tsx';

const sentences: { readonly [Word in InForce]: string } = {
  yes: 'The policy on this page is in force on the device: its agent has read it back from the kernel.',
  behind: 'The device is connected and has not reported the newest change yet. It is on its way.',
  failed: 'The newest rules are not in force. Other rules stay in force until they are.',
  reverted: 'The newest rules cut the device off, so the ones before them are in force again.',
  offline:
    'The device is away and is not known to have the newest change. It keeps its rules while its agent or the server is away.',
  never_seen: 'No agent has reported for this device. Rules take effect when an agent runs there.',
  not_understood: 'The agent does not understand the newest rules and holds the ones before them. Update the agent.',
};

export function DeviceAgent({ device }: { readonly device: Device }): ReactNode {
  const status = useStatuses().get(device.id);
  const said = status?.status;
  const { groupById } = useSnapshot();
  const nameOf = (id: string): string => groupById.get(id)?.group_name ?? 'a group that you may not see';
  const state = stateOf(status);
  const why = status?.detail ?? said?.detail ?? '';
  const facts: readonly Fact[] =
    status === undefined || said === undefined
      ? []
      : [
          ['Connected', status.online ? 'yes' : 'no'],
          ['Last seen', status.last_seen_at === undefined ? '–' : <Ago key="seen" at={status.last_seen_at} />],
          ['Revision in force', said.revision ?? '–'],
          ['Interface', said.interface ?? '–'],
          ['Agent', said.agent_version ?? '–'],
          ...(said.drift_repairs === undefined || said.drift_repairs === 0
            ? []
            : [['Foreign changes', `${plural(said.drift_repairs, 'time')} undone`] as const]),
          ...(said.group_packets ?? []).map(
            (counted) => [`Matched by ${nameOf(counted.group_id)}`, packetWords(counted)] as const,
          ),
        ];
  return (
    <Card title="On the device" about={<DeviceStateTag status={status} />}>
      <div className="card-body stack">
        <p
          className={
            state === 'failed' || state === 'reverted' || state === 'not_understood' ? 'fault' : 'small dimmed'
          }
          role="status"
        >
          {sentences[state]}
        </p>
        {why === '' || state === 'yes' ? null : (
          <pre className="code code-wraps" tabIndex={0} aria-label="Message of the agent">
            {why}
          </pre>
        )}
        {facts.length === 0 ? null : <Facts facts={facts} />}
      </div>
    </Card>
  );
}
