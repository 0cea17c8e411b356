/** Owns rows of observed traffic: who with whom, how often and when, and the rule that decides or comes nearest, in plain words. */
import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Flow } from '../../api/flows/flow.ts';
import { flowDirection, flowReason, flowTraffic, type DecisionTense } from '../../client/words/flow.ts';
import { Tag, Ago } from '../components/page.tsx';
import { serviceName } from '../model/rule-text.ts';
import { plural } from '../../client/words/number.ts';
import { useDeviceNames, deviceName, useSnapshot } from '../state/organization.ts';
import type { FlowRow } from './flow-search.ts';
import { DeviceLink, GroupLink } from '../components/record-link.tsx';

function DeviceEnd({ id, hostname }: { readonly id: string; readonly hostname: string | undefined }): ReactNode {
  const known = useSnapshot().deviceById.get(id);
  if (known === undefined)
    return <strong>{hostname === undefined ? 'a deleted device' : hostname || 'a device'}</strong>;
  return (
    <DeviceLink id={id}>
      <strong>{deviceName(known)}</strong>
    </DeviceLink>
  );
}

function FarEnd({ flow: { far, far_devices } }: { readonly flow: Flow }): ReactNode {
  const [first, ...others] = far_devices;
  if (first === undefined) return <strong className="mono">{far}</strong>;
  return (
    <>
      <DeviceEnd id={first.device_id} hostname={first.hostname} />
      {others.length === 0 ? null : ` and ${plural(others.length, 'other')}`}{' '}
      <span className="small dimmed mono">{far}</span>
    </>
  );
}

/** `tcp 5432 (PostgreSQL)`. */
function Traffic({ flow }: { readonly flow: Flow }): ReactNode {
  const { protocol, port = 0 } = flow;
  const isNamed = protocol === 'tcp' || protocol === 'udp';
  const service = isNamed ? serviceName({ ip_protocol: protocol, from_port: port, to_port: port }) : undefined;
  return (
    <>
      {flowTraffic(flow)}
      {service === undefined ? null : ` (${service})`}
    </>
  );
}

/** Which rule decides, or comes nearest; the group is a link. */
function Why({ flow, tense }: { readonly flow: Flow; readonly tense: DecisionTense }): ReactNode {
  const names = useDeviceNames();
  const { groupById } = useSnapshot();
  const reason = flowReason(flow, { names, tense });
  if (reason === undefined) return 'The present policy of the device is not known.';
  const { before, rule, after } = reason;
  if (rule === undefined) return `${before}.`;
  return (
    <>
      {before}{' '}
      {groupById.has(rule.group_id) ? <GroupLink id={rule.group_id}>{rule.group_name}</GroupLink> : rule.group_name}:{' '}
      {rule.words}
      {after === undefined ? '.' : `; ${after}.`}
    </>
  );
}

const wouldWords: { readonly [V in Flow['verdict']]: string } = { refused: 'would refuse', admitted: 'would admit' };

function Row({
  row: { flow, packets },
  would,
  allow,
}: {
  readonly row: FlowRow;
  readonly would: boolean;
  readonly allow: ((flow: Flow) => void) | undefined;
}): ReactNode {
  const { device_id, hostname, direction, verdict, until } = flow;
  const here = <DeviceEnd id={device_id} hostname={hostname} />;
  const there = <FarEnd flow={flow} />;
  const [from, to] = direction === 'in' ? [there, here] : [here, there];
  return (
    <li className="flow">
      <Tag tone={verdict === 'refused' ? 'bad' : 'plain'}>{would ? wouldWords[verdict] : verdict}</Tag>
      <span className="flow-ends">
        {from} <span aria-label="to">→</span> {to}, <Traffic flow={flow} />
      </span>
      <span className="small dimmed flow-count">{plural(packets, 'packet')}</span>
      <span className="small dimmed flow-seen">
        <Ago at={until} />
      </span>
      <span className="small dimmed flow-why">
        {hostname === undefined ? 'Observed' : `On ${hostname || 'the device'}`}, {flowDirection(flow)}.{' '}
        <Why flow={flow} tense={would ? 'would' : 'now'} />
      </span>
      {allow === undefined ? null : (
        <span className="flow-act">
          <Button size="compact-sm" variant="light" onClick={() => allow(flow)}>
            Allow this…
          </Button>
        </span>
      )}
    </li>
  );
}

export function FlowList({
  rows,
  label,
  would = false,
  allow,
}: {
  readonly rows: readonly FlowRow[];
  readonly label: string;
  /** Whether the verdicts are those of a policy that was not in force. */
  readonly would?: boolean;
  /** What the button of a row does; undefined for rows that have none. */
  readonly allow?: (flow: Flow) => ((flow: Flow) => void) | undefined;
}): ReactNode {
  return (
    <ul className={would ? 'rows flows-would' : 'rows'} aria-label={label}>
      {rows.map((row) => (
        <Row key={row.key} row={row} would={would} allow={allow?.(row.flow)} />
      ))}
    </ul>
  );
}
