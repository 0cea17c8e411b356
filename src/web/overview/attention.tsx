/**
 * Owns what needs attention: isolated devices first, then devices that are not in force with the reason, the worst
 * first, and devices that admit everything.
 */
import { Link } from '@tanstack/react-router';
import { useMemo, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { inForceAdvice, inForceMeanings } from '../../api/enforcement/in-force.ts';
import type { Overview } from '../../api/enforcement/overview.ts';
import { CheckIcon, WarnIcon } from '../components/icons.tsx';
import { Empty } from '../components/placeholders.tsx';
import { Tag } from '../components/tag.tsx';
import { Ago } from '../components/time.tsx';
import { stateTitle, stateTones } from '../device/device-state.tsx';
import { openDevices } from '../model/open-devices.ts';
import { plural } from '../model/rule-text.ts';
import { deviceName } from '../state/live.ts';
import { useSnapshot } from '../state/organization.ts';

const shownDevices = 8;

type Urgent = Overview['urgent'][number];

function UrgentDevice({ device, org }: { readonly device: Urgent; readonly org: string }): ReactNode {
  const { device_id, hostname, in_force, detail, last_seen_at } = device;
  const advice = inForceAdvice[in_force];
  const known = useSnapshot().deviceById.get(device_id);
  const name = known === undefined ? hostname || 'a device' : deviceName(known);
  return (
    <li className="urgent">
      <Link className="plain-link clip urgent-name" to="/o/$org/devices/$device" params={{ org, device: device_id }}>
        <strong>{name}</strong>
      </Link>
      <Tag tone={stateTones[in_force]}>{stateTitle(in_force)}</Tag>
      <details className="small dimmed urgent-why">
        <summary>{detail ?? inForceMeanings[in_force]}</summary>
        {advice === undefined ? null : <p>What to do: {advice}.</p>}
      </details>
      <span className="small dimmed urgent-seen">
        {last_seen_at === undefined ? 'never seen' : <Ago at={last_seen_at} />}
      </span>
    </li>
  );
}

/** It stays on top until somebody releases the device. */
function IsolatedDevice({ device, org }: { readonly device: Device; readonly org: string }): ReactNode {
  const { isolated } = device;
  return (
    <li className="urgent">
      <Link className="plain-link clip urgent-name" to="/o/$org/devices/$device" params={{ org, device: device.id }}>
        <strong>{deviceName(device)}</strong>
      </Link>
      <Tag tone="bad">Isolated</Tag>
      <span className="small dimmed urgent-why">{isolated?.reason}</span>
      <span className="small dimmed urgent-seen">
        {isolated?.until === undefined ? (
          'no end'
        ) : (
          <>
            ends <Ago at={isolated.until} />
          </>
        )}
      </span>
    </li>
  );
}

export function Attention({ overview, org }: { readonly overview: Overview; readonly org: string }): ReactNode {
  const pending = overview.devices - overview.in_force;
  const shown = overview.urgent.slice(0, shownDevices);
  const { devices } = useSnapshot();
  const isolated = useMemo(() => devices.filter((device) => device.isolated !== undefined), [devices]);
  const moreIsolated = isolated.length - shownDevices;
  return (
    <section className="card" aria-label="Needs attention">
      <div className="card-head card-head-dense">
        <h2>Needs attention</h2>
        {pending > shown.length ? (
          <Link
            className="link small"
            to="/o/$org/devices"
            params={{ org }}
            search={{ state: 'pending', sort: 'state' }}
          >
            All {plural(pending, 'device')}
          </Link>
        ) : null}
      </div>
      {shown.length + isolated.length === 0 ? (
        <Empty icon={<CheckIcon size={32} />} title="All is well">
          Every device has its policy in force. Devices that fail, go offline or fall behind appear here.
        </Empty>
      ) : (
        <ul className="urgents">
          {isolated.slice(0, shownDevices).map((device) => (
            <IsolatedDevice key={`isolated ${device.id}`} device={device} org={org} />
          ))}
          {moreIsolated > 0 ? <li className="urgent small">and {moreIsolated} more isolated</li> : null}
          {shown.map((device) => (
            <UrgentDevice key={device.device_id} device={device} org={org} />
          ))}
        </ul>
      )}
    </section>
  );
}

/** A device that admits everything is easily forgotten: nothing about it fails. */
export function OpenDevices({ org }: { readonly org: string }): ReactNode {
  const { devices, groups } = useSnapshot();
  const open = useMemo(() => openDevices({ devices, groups }), [devices, groups]);
  return (
    <section className="card stat" aria-label="Devices that admit everything">
      <h2>Admit everything</h2>
      {open.length === 0 ? (
        <p className="stat-figure">
          <strong>None</strong>
        </p>
      ) : (
        <Link
          className="stat-figure plain-link figure-warn"
          to="/o/$org/devices"
          params={{ org }}
          search={{ admits: 'everything' }}
        >
          <WarnIcon size={20} /> <strong>{plural(open.length, 'device')}</strong>
        </Link>
      )}
      <p className="small dimmed">
        {open.length === 0
          ? 'Every device has a group that closes it.'
          : 'Any packet from anywhere gets in: they have the default group, or one that is as open.'}
      </p>
    </section>
  );
}
