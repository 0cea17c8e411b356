/** Owns the list of devices: search, filter, sort; only the rows in sight exist, so ten thousand scroll like ten. */
import { Button, CloseButton, Select, TextInput } from '@mantine/core';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, useDeferredValue, useMemo, useRef, useState, type ReactNode } from 'react';
import type { Device, DeviceStatus } from '../../api/device.ts';
import { DeviceIcon, PlusIcon, SearchIcon } from '../components/icons.tsx';
import { applies, byLabelIn } from '../model/device-policy.ts';
import { countLabels } from '../model/labels.ts';
import { plural } from '../model/rule-text.ts';
import { AddDevice } from '../device/add-device.tsx';
import { DeviceStateTag } from '../device/device-state.tsx';
import { Empty } from '../components/placeholders.tsx';
import { Tag } from '../components/tag.tsx';
import { deviceName, type Snapshot } from '../state/live.ts';
import { Ordered, sortKey } from '../state/order.ts';
import { useMembers, useNames, useSnapshot, useRights, useStatuses } from '../state/organization.ts';

const none: readonly Device[] = [];

type Column = 'name' | 'address' | 'labels' | 'groups' | 'user' | 'seen';
const columns: readonly (readonly [Column, string])[] = [
  ['name', 'Name'],
  ['address', 'Address'],
  ['labels', 'Labels'],
  ['groups', 'Groups'],
  ['user', 'User'],
  ['seen', 'Agent'],
];

interface Wanted {
  readonly text: string;
  readonly group: string | undefined;
  readonly user: string | undefined;
  readonly label: string | undefined;
}

const matches = (device: Device, text: string): boolean =>
  [device.hostname, device.tunnel_ip, device.local_ip, device.public_key, device.id].some((value) =>
    value.toLowerCase().includes(text),
  ) || [...(device.labels ?? []), ...(device.addresses ?? [])].some((value) => value.includes(text));

type Fleet = Pick<Snapshot, 'devices' | 'groups' | 'groupById'>;

function select({ devices, groups, groupById }: Fleet, { text, group, user, label }: Wanted): readonly Device[] {
  const wanted = text.trim().toLowerCase();
  const chosen = group === undefined ? undefined : groupById.get(group);
  const byLabel = byLabelIn(groups);
  return devices.filter(
    (device) =>
      (wanted === '' || matches(device, wanted)) &&
      (user === undefined || device.user_id === user) &&
      (label === undefined || device.labels?.includes(label) === true) &&
      (group === undefined || (chosen !== undefined && applies(chosen, device, byLabel))),
  );
}

function sortBy(
  devices: readonly Device[],
  column: Column,
  statuses: ReadonlyMap<string, DeviceStatus> | undefined,
  nameOf: (user: string) => string,
): readonly Device[] {
  // They come sorted by name.
  if (column === 'name') return devices;
  const keys: { readonly [C in Exclude<Column, 'name'>]: (device: Device) => string } = {
    address: ({ tunnel_ip }) => tunnel_ip,
    labels: ({ labels = [] }) => labels.join(),
    groups: ({ security_groups = [] }) => String(security_groups.length),
    user: ({ user_id }) => nameOf(user_id),
    seen: ({ id }) => statuses?.get(id)?.last_seen_at ?? '',
  };
  const ordered = new Ordered<Device>((device) => sortKey(keys[column](device)));
  ordered.replaceAll(devices);
  return ordered.list;
}

function GroupTags({
  list = [],
  groupById,
  defaultName,
}: {
  readonly list: readonly string[] | undefined;
  readonly groupById: Snapshot['groupById'];
  readonly defaultName: string;
}): ReactNode {
  if (list.length === 0) return <Tag>{defaultName}</Tag>;
  const shown = list.slice(0, 3);
  return (
    <>
      {shown.map((id) => (
        <Tag key={id} tone="accent">
          {groupById.get(id)?.group_name ?? 'unknown group'}
        </Tag>
      ))}
      {list.length > shown.length ? <Tag>+{list.length - shown.length}</Tag> : null}
    </>
  );
}

/** Drawn again only when something in it differs: scrolling draws the rows that come into sight and no others. */
const Row = memo(function Row({
  device,
  org,
  start,
  user,
  status,
  groupById,
  defaultName,
}: {
  readonly device: Device;
  readonly org: string;
  readonly start: number;
  readonly user: string;
  readonly status: DeviceStatus | undefined;
  readonly groupById: Snapshot['groupById'];
  readonly defaultName: string;
}): ReactNode {
  return (
    <li className="list-row" style={{ transform: `translateY(${start}px)` }}>
      <Link
        className="plain-link clip"
        to="/o/$org/devices/$device"
        params={{ org, device: device.id }}
        preload={false}
      >
        <strong>{deviceName(device)}</strong>
      </Link>
      <span className="mono clip">{device.tunnel_ip || '–'}</span>
      <span className="tags row-labels">
        {(device.labels ?? []).slice(0, 3).map((label) => (
          <Tag key={label}>{label}</Tag>
        ))}
        {(device.labels ?? []).length > 3 ? <Tag>+{(device.labels ?? []).length - 3}</Tag> : null}
      </span>
      <span className="tags">
        <GroupTags list={device.security_groups} groupById={groupById} defaultName={defaultName} />
      </span>
      <span className="clip small dimmed">{user}</span>
      <DeviceStateTag status={status} />
    </li>
  );
});

function Rows({ devices, org }: { readonly devices: readonly Device[]; readonly org: string }): ReactNode {
  const snapshot = useSnapshot();
  const statuses = useStatuses();
  const nameOf = useNames();
  const scroller = useRef<HTMLDivElement>(null);
  const narrow = window.matchMedia('(width < 860px)').matches;
  const rows = useVirtualizer({
    count: devices.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => (narrow ? 60 : 40),
    overscan: 8,
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
          const status = statuses.get(device.id);
          return (
            <Row
              key={device.id}
              device={device}
              org={org}
              start={start}
              user={nameOf(device.user_id)}
              status={status}
              groupById={snapshot.groupById}
              defaultName={snapshot.defaultGroup?.group_name ?? 'default'}
            />
          );
        })}
      </ul>
    </div>
  );
}

export function DevicesPage(): ReactNode {
  const { org } = useParams({ from: '/o/$org/devices' });
  const search = useSearch({ from: '/o/$org/devices' });
  const { group, user, label } = search;
  const navigate = useNavigate({ from: '/o/$org/devices' });
  const snapshot = useSnapshot();
  const statuses = useStatuses();
  const members = useMembers();
  const nameOf = useNames();
  const { mayWrite } = useRights();
  const [text, setText] = useState('');
  const [column, setColumn] = useState<Column>('name');
  const [reversed, setReversed] = useState(false);
  const [adding, setAdding] = useState(false);
  const wanted = useDeferredValue(text);
  const { devices, groups, groupById } = snapshot;
  const reports = column === 'seen' ? statuses : undefined;
  const shown = useMemo(() => {
    const sorted = sortBy(
      select({ devices, groups, groupById }, { text: wanted, group, user, label }),
      column,
      reports,
      nameOf,
    );
    return reversed ? sorted.toReversed() : sorted;
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- names change with members only
  }, [devices, groups, groupById, wanted, group, user, label, column, reversed, reports, members.data]);
  // The first rows are drawn after the page around them, so that neither waits for the other.
  const isDrawn = useDeferredValue(true, false);

  const sort = (next: Column): void => {
    setReversed(next === column ? !reversed : false);
    setColumn(next);
  };
  const labels = useMemo(() => [...countLabels(devices).keys()], [devices]);
  /** Other filters stay; one that is given nothing goes. */
  const filter = (next: { readonly [Name in 'group' | 'user' | 'label']?: string | null }): void => {
    const all = Object.entries({ ...search, ...next }).filter(([, value]) => value !== null);
    void navigate({ search: Object.fromEntries(all), replace: true });
  };
  const total = snapshot.devices.length;
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
        {mayWrite && total > 0 ? (
          <Button leftSection={<PlusIcon />} onClick={() => setAdding(true)}>
            Add devices
          </Button>
        ) : null}
      </div>
      <AddDevice opened={adding} close={() => setAdding(false)} org={org} />
      {total === 0 ? (
        <div className="card">
          <Empty
            icon={<DeviceIcon size={40} />}
            title="No devices yet"
            action={mayWrite ? <Button onClick={() => setAdding(true)}>Add devices</Button> : undefined}
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
              placeholder="Search by name, address, label or key"
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
              data={snapshot.groups.map(({ id, group_name }) => ({ value: id, label: group_name }))}
              value={group ?? null}
              onChange={(id) => filter({ group: id })}
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
              onChange={(id) => filter({ user: id })}
              clearButtonProps={{ 'aria-label': 'Every user' }}
            />
            {labels.length === 0 && label === undefined ? null : (
              <Select
                className="filter"
                aria-label="Filter by label"
                placeholder="Every label"
                clearable
                searchable
                data={labels}
                value={label ?? null}
                onChange={(value) => filter({ label: value })}
                clearButtonProps={{ 'aria-label': 'Every label' }}
              />
            )}
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
                      filter({ group: null, user: null, label: null });
                    }}
                  >
                    Show every device
                  </Button>
                }
              >
                Search looks at names, addresses, labels, keys and ids.
              </Empty>
            ) : (
              <Rows devices={isDrawn ? shown : none} org={org} />
            )}
          </div>
        </>
      )}
    </div>
  );
}
