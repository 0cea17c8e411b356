/** Owns the page of one group: its rules, and the devices it applies to. */
import { Link, useParams } from '@tanstack/react-router';
import { useMemo, type ReactNode } from 'react';
import { BackIcon } from '../look/icons.tsx';
import { devicesUnder } from '../model/force.ts';
import { plural } from '../model/words.ts';
import { RuleTable } from '../parts/rules.tsx';
import { Empty } from '../parts/states.tsx';
import { Tag } from '../parts/tag.tsx';
import { deviceName } from '../state/live.ts';
import { useNames, usePicture } from '../state/organization.ts';

const shownDevices = 50;

export function GroupPage(): ReactNode {
  const { org, group: id } = useParams({ from: '/o/$org/groups/$group' });
  const { groupById, devices } = usePicture();
  const nameOf = useNames();
  const group = groupById.get(id.toLowerCase());
  const under = useMemo(() => (group === undefined ? [] : devicesUnder(group, devices)), [group, devices]);
  const back = (
    <Link className="link row small" to="/o/$org/groups" params={{ org }}>
      <BackIcon size={16} /> Groups
    </Link>
  );
  if (group === undefined) {
    return (
      <div className="page">
        <Empty whole title="This group is gone" action={back}>
          It was deleted, or you may no longer see it.
        </Empty>
      </div>
    );
  }
  return (
    <div className="page">
      {back}
      <div className="page-head">
        <div>
          <h1>{group.group_name}</h1>
          <p className="dimmed">{group.group_description}</p>
        </div>
        <Tag tone="accent">
          {group.is_default === true
            ? 'default group'
            : group.user_id === undefined
              ? "the organization's"
              : nameOf(group.user_id)}
        </Tag>
      </div>
      <div className="columns">
        <div className="stack">
          {(['inbound', 'outbound'] as const).map((direction) => (
            <RuleTable
              key={direction}
              direction={direction}
              rules={(group[`${direction}_rules`] ?? []).map((rule) => ({ rule }))}
            />
          ))}
        </div>
        <section className="card" aria-label="Devices">
          <div className="card-head">
            <h2>Applies to</h2>
            <Tag>{plural(under.length, 'device')}</Tag>
          </div>
          <ul className="group-list">
            {under.slice(0, shownDevices).map((device) => (
              <li key={device.id}>
                <Link className="plain-link" to="/o/$org/devices/$device" params={{ org, device: device.id }}>
                  {deviceName(device)}
                </Link>
              </li>
            ))}
          </ul>
        </section>
      </div>
    </div>
  );
}
