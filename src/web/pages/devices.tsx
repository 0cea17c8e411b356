/** Owns the list of devices: search, filter, sort; only the rows in sight exist, so ten thousand scroll like ten. */
import { Button, CloseButton, Select, TextInput } from '@mantine/core';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useDeferredValue, useMemo, useRef, useState, type ReactNode } from 'react';
import type { Device, DeviceStatus } from '../../api/device.ts';
import { DeviceIcon, PlusIcon, SearchIcon } from '../look/icons.tsx';
import { applies } from '../model/force.ts';
import { plural } from '../model/words.ts';
import { AddDevice } from '../parts/add-device.tsx';
import { DeviceState } from '../parts/device-state.tsx';
import { Empty } from '../parts/states.tsx';
import { Tag } from '../parts/tag.tsx';
import { byText, deviceName, type Picture } from '../state/live.ts';
import { useMembers, useNames, usePicture, useStatuses } from '../state/organization.ts';

type Column = 'name' | 'address' | 'groups' | 'user' | 'seen';
const columns: readonly (readonly [Column, string])[] = [
  ['name', 'Name'],
  ['address', 'Address'],
  ['groups', 'In force'],
  ['user', 'User'],
  ['seen', 'Agent'],
];

interface Wanted {
  readonly text: string;
  readonly group: string | undefined;
  readonly user: string | undefined;
}

const matches = (device: Device, text: string): boolean =>
  [device.hostname, device.tunnel_ip, device.local_ip, device.public_key, device.id].some((value) =>
    value.toLowerCase().includes(text),
  );

function select({ devices, groupById }: Picture, { text, group, user }: Wanted): readonly Device[] {
  const wanted = text.trim().toLowerCase();
  const chosen = group === undefined ? undefined : groupById.get(group);
  return devices.filter(
    (device) =>
      (wanted === '' || matches(device, wanted)) &&
      (user === undefined || device.user_id === user) &&
      (group === undefined || (chosen !== undefined && applies(chosen, device))),
  );
}

function sortBy(
  devices: readonly Device[],
  column: Column,
  statuses: ReadonlyMap<string, DeviceStatus>,
  nameOf: (user: string) => string,
): readonly Device[] {
  // They come sorted by name.
  if (column === 'name') return devices;
  const keys: { readonly [C in Exclude<Column, 'name'>]: (device: Device) => string } = {
    address: ({ tunnel_ip }) => tunnel_ip,
    groups: ({ security_groups = [] }) => String(security_groups.length),
    user: ({ user_id }) => nameOf(user_id),
    seen: ({ id }) => statuses.get(id)?.reported_at ?? '',
  };
  const keyed = devices.map((device) => ({ device, key: keys[column](device) }));
  return keyed.toSorted((a, b) => byText(a.key, b.key)).map(({ device }) => device);
}

export function InForce({ device, picture }: { readonly device: Device; readonly picture: Picture }): ReactNode {
  const list = device.security_groups ?? [];
  if (list.length === 0) return <Tag>{picture.defaultGroup?.group_name ?? 'default'}</Tag>;
  const shown = list.slice(0, 3);
  return (
    <>
      {shown.map((id) => (
        <Tag key={id} tone="accent">
          {picture.groupById.get(id)?.group_name ?? 'unknown group'}
        </Tag>
      ))}
      {list.length > shown.length ? <Tag>+{list.length - shown.length}</Tag> : null}
    </>
  );
}

function Rows({ devices, org }: { readonly devices: readonly Device[]; readonly org: string }): ReactNode {
  const picture = usePicture();
  const statuses = useStatuses();
  const nameOf = useNames();
  const scroller = useRef<HTMLDivElement>(null);
  const narrow = window.matchMedia('(width < 860px)').matches;
  const rows = useVirtualizer({
    count: devices.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => (narrow ? 64 : 52),
    overscan: 12,
  });
  return (
    <div
      ref={scroller}
      className="list-window"
      role="region"
      aria-label="Devices"
      tabIndex={0} /* so that it scrolls by keyboard */
    >
      <ul style={{ height: rows.getTotalSize(), margin: 0, padding: 0, listStyle: 'none' }}>
        {rows.getVirtualItems().map(({ index, start }) => {
          const device = devices[index];
          if (device === undefined) return null;
          return (
            <li key={device.id} className="list-row" style={{ transform: `translateY(${start}px)` }}>
              <Link
                className="plain-link clip"
                to="/o/$org/devices/$device"
                params={{ org, device: device.id }}
                preload={false}
              >
                <strong>{deviceName(device)}</strong>
              </Link>
              <span className="mono clip">{device.tunnel_ip || '–'}</span>
              <span className="tags">
                <InForce device={device} picture={picture} />
              </span>
              <span className="clip small dimmed">{nameOf(device.user_id)}</span>
              <DeviceState status={statuses.get(device.id)} />
            </li>
          );
        })}
      </ul>
    </div>
  );
}

export function DevicesPage(): ReactNode {
  const { org } = useParams({ from: '/o/$org/devices' });
  const { group, user } = useSearch({ from: '/o/$org/devices' });
  const navigate = useNavigate({ from: '/o/$org/devices' });
  const picture = usePicture();
  const statuses = useStatuses();
  const members = useMembers();
  const nameOf = useNames();
  const [text, setText] = useState('');
  const [column, setColumn] = useState<Column>('name');
  const [reversed, setReversed] = useState(false);
  const [adding, setAdding] = useState(false);
  const wanted = useDeferredValue(text);
  const shown = useMemo(() => {
    const sorted = sortBy(select(picture, { text: wanted, group, user }), column, statuses, nameOf);
    return reversed ? sorted.toReversed() : sorted;
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- names change with members only
  }, [picture, wanted, group, user, column, reversed, statuses, members.data]);

  const sort = (next: Column): void => {
    setReversed(next === column ? !reversed : false);
    setColumn(next);
  };
  const filter = (next: { group?: string; user?: string }): void => void navigate({ search: next, replace: true });
  const total = picture.devices.length;
  return (
    <div className="page">
      <div className="page-head">
        <div>
          <h1>Devices</h1>
          <p className="dimmed">
            {shown.length === total
              ? plural(total, 'device')
              : `${shown.length.toLocaleString('en')} of ${plural(total, 'device')}`}
          </p>
        </div>
        <Button leftSection={<PlusIcon />} onClick={() => setAdding(true)}>
          Add devices
        </Button>
      </div>
      <AddDevice opened={adding} close={() => setAdding(false)} org={org} />
      {total === 0 ? (
        <div className="card">
          <Empty
            icon={<DeviceIcon size={40} />}
            title="No devices yet"
            action={<Button onClick={() => setAdding(true)}>Add devices</Button>}
          >
            Run the agent on a Linux machine with an enrollment key, and it appears here by itself.
          </Empty>
        </div>
      ) : (
        <>
          <div className="row">
            <TextInput
              className="grow"
              miw={200}
              aria-label="Search devices"
              placeholder="Search by name, address or key"
              leftSection={<SearchIcon size={16} />}
              value={text}
              onChange={(event) => setText(event.currentTarget.value)}
              rightSection={
                text === '' ? null : <CloseButton size="sm" aria-label="Clear the search" onClick={() => setText('')} />
              }
            />
            <Select
              className="filter"
              aria-label="Filter by group"
              placeholder="Every group"
              clearable
              searchable
              data={picture.groups.map(({ id, group_name }) => ({ value: id, label: group_name }))}
              value={group ?? null}
              onChange={(id) =>
                filter({ ...(id === null ? {} : { group: id }), ...(user === undefined ? {} : { user }) })
              }
              clearButtonProps={{ 'aria-label': 'Every group' }}
            />
            <Select
              className="filter"
              aria-label="Filter by user"
              placeholder="Every user"
              clearable
              searchable
              data={(members.data ?? []).map(({ user_id, username }) => ({ value: user_id, label: username }))}
              value={user ?? null}
              onChange={(id) =>
                filter({ ...(id === null ? {} : { user: id }), ...(group === undefined ? {} : { group }) })
              }
              clearButtonProps={{ 'aria-label': 'Every user' }}
            />
          </div>
          <div className="card list">
            <div className="list-head">
              {columns.map(([key, name]) => (
                <button
                  key={key}
                  type="button"
                  className="sort"
                  data-active={column === key || undefined}
                  aria-label={`Sort by ${name.toLowerCase()}${column === key ? (reversed ? ', now descending' : ', now ascending') : ''}`}
                  onClick={() => sort(key)}
                >
                  {name} {column === key ? (reversed ? '↓' : '↑') : ''}
                </button>
              ))}
            </div>
            {shown.length === 0 ? (
              <Empty
                title="No device matches"
                action={
                  <Button
                    variant="default"
                    onClick={() => {
                      setText('');
                      filter({});
                    }}
                  >
                    Show every device
                  </Button>
                }
              >
                Search looks at names, addresses, keys and ids.
              </Empty>
            ) : (
              <Rows devices={shown} org={org} />
            )}
          </div>
        </>
      )}
    </div>
  );
}
