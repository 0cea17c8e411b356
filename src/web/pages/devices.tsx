/** Owns the list of devices: searched and filtered by the URL, sorted by any column, with bulk actions. Only visible rows are rendered. */
import { Button } from '@mantine/core';
import { useNavigate, useSearch, Link } from '@tanstack/react-router';
import {
  useDeferredValue,
  useMemo,
  useState,
  memo,
  useCallback,
  useEffect,
  useRef,
  type ReactNode,
  type MouseEvent,
} from 'react';
import type { Device, DeviceStatus } from '../../api/device.ts';
import { DeviceIcon, PlusIcon } from '../components/icons.tsx';
import { Empty } from '../components/placeholders.tsx';
import { Page, Tag, Ago } from '../components/page.tsx';
import { AddDevice } from '../device/add-device.tsx';
import { BulkBar } from '../device/bulk-bar.tsx';
import {
  groupChoices,
  memberChoices,
  useFilter,
  FilterBar,
  type Choice,
  type FilterColumn,
} from '../components/filter-bar.tsx';
import { groupsOf } from '../../organization/of-records.ts';
import { selectDevices, sortDevices, versionOf, type DeviceColumn, type DeviceSearch } from '../model/device-search.ts';
import { grouped, plural } from '../../client/words/number.ts';
import {
  useMembers,
  useNames,
  useSnapshot,
  useRights,
  useStatuses,
  deviceName,
  useLive,
} from '../state/organization.ts';
import { mostUrgentFirst } from '../../api/enforcement/in-force.ts';
import { countDeviceStates } from '../model/device-state.ts';
import { countLabels, fittingLabels } from '../model/far-end.ts';
import { sortKey } from '../state/order.ts';
import { stateTitle, DeviceStateTag } from '../device/device-state.tsx';
import { useVirtualizer, type Rect, type Virtualizer } from '@tanstack/react-virtual';
import { groupsOn, type GroupOn } from '../model/device-policy.ts';

const none: readonly Device[] = [];
const nobody: ReadonlySet<string> = new Set();

/** The devices that the address asks for, in its order. Reports are looked at only where it depends on them. */
function useShown(search: DeviceSearch): readonly Device[] {
  const { devices, groups } = useSnapshot();
  const statuses = useStatuses();
  const { data: members } = useMembers();
  const nameOf = useNames();
  const { sort = 'name', state, version } = search;
  const needsStatuses =
    state !== undefined || version !== undefined || sort === 'state' || sort === 'version' || sort === 'seen';
  const reports = needsStatuses ? statuses : undefined;
  return useMemo(
    () => {
      return sortDevices(selectDevices({ devices, groups }, reports ?? new Map(), search), {
        column: sort,
        reverse: search.reverse === true,
        statuses: reports ?? new Map(),
        userName: nameOf,
        groupCount: (device) => groupsOf(device, groups).groups.length,
      });
    },
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- names change with members only
    [devices, groups, search, sort, reports, members],
  );
}

export function DevicesPage(): ReactNode {
  const search = useSearch({ from: '/o/$org/devices' });
  const navigate = useNavigate({ from: '/o/$org/devices' });
  const { devices, deviceById } = useSnapshot();
  const { mayWrite } = useRights();
  const [adding, setAdding] = useState(false);
  const [chosen, setChosen] = useState(nobody);
  const shown = useShown(useDeferredValue(search));
  // The first rows are drawn after the page around them, so that neither waits for the other.
  const isDrawn = useDeferredValue(true, false);

  const column = search.sort ?? 'name';
  const sort = (next: DeviceColumn): void =>
    void navigate({
      search: ({ sort: _sort, reverse: _reverse, ...before }) => ({
        ...before,
        ...(next !== 'name' && { sort: next }),
        ...(next === column && search.reverse !== true && { reverse: true }),
      }),
      replace: true,
    });
  const isReverse = search.reverse === true;
  const selection: Selection | undefined = mayWrite
    ? { chosen, choose: (ids) => setChosen(new Set([...ids].filter((id) => deviceById.has(id)))) }
    : undefined;
  const total = devices.length;
  const selected = useMemo(
    () => (chosen.size === 0 ? none : devices.filter(({ id }) => chosen.has(id))),
    [devices, chosen],
  );
  const hidden = selected.length === 0 ? 0 : selected.length - shown.filter(({ id }) => chosen.has(id)).length;
  return (
    <Page
      title="Devices"
      about={
        <span role="status">
          {shown.length === total ? plural(total, 'device') : `${grouped(shown.length)} of ${plural(total, 'device')}`}
          {search.admits === undefined ? '' : ', those that admit everything'}
        </span>
      }
      actions={
        mayWrite ? (
          <Button leftSection={<PlusIcon />} onClick={() => setAdding(true)}>
            Add devices
          </Button>
        ) : undefined
      }
    >
      {/* The same one while the first device joins: it shows a key that is shown only once. */}
      {adding ? <AddDevice close={() => setAdding(false)} /> : null}
      {total === 0 ? (
        <div className="card">
          <Empty icon={<DeviceIcon size={40} />} title="No devices yet">
            Run the agent on a Linux machine with an enrollment key, and it appears here by itself.
          </Empty>
        </div>
      ) : (
        <>
          <DeviceFilters />
          <div className="card list list-devices">
            <div className="list-head">
              {selection === undefined ? <span /> : <SelectAll devices={shown} selection={selection} />}
              {columns.map(([key, name, place]) => (
                <button
                  key={key}
                  type="button"
                  className={`sort ${place}`}
                  data-active={column === key || undefined}
                  aria-label={`Sort by ${name}${column === key ? (isReverse ? ', now descending' : ', now ascending') : ''}`}
                  onClick={() => sort(key)}
                >
                  {name} {column === key ? (isReverse ? '↓' : '↑') : ''}
                </button>
              ))}
            </div>
            {shown.length > 0 ? (
              <Rows devices={isDrawn ? shown : none} selection={selection} />
            ) : (
              <Empty
                title="No device matches"
                action={
                  <Button variant="default" onClick={() => void navigate({ search: {}, replace: true })}>
                    Show every device
                  </Button>
                }
              >
                Search looks at names, addresses, labels, keys and ids.
              </Empty>
            )}
          </div>
          <BulkBar devices={selected} hidden={hidden} clear={() => setChosen(nobody)} />
        </>
      )}
    </Page>
  );
}

const counted = (counts: Iterable<readonly [string, number]>): readonly Choice[] =>
  [...counts].map(([value, count]) => ({ value, label: `${value} (${count})` }));
const itself = (value: string): string => value;

function DeviceFilters(): ReactNode {
  const { sort: _sort, reverse: _reverse, ...values } = useSearch({ from: '/o/$org/devices' });
  const filter = useFilter();
  const { devices, groups } = useSnapshot();
  const statuses = useStatuses();
  const { data: members = [] } = useMembers();
  const labels = useMemo(() => counted(countLabels(devices)), [devices]);
  const states = useMemo((): readonly Choice[] => {
    const counts = countDeviceStates(devices, statuses);
    const words = mostUrgentFirst.map((value) => ({ value, label: `${stateTitle(value)} (${counts[value]})` }));
    return [{ value: 'pending', label: `Not in force (${devices.length - counts.yes})` }, ...words];
  }, [devices, statuses]);
  const versions = useMemo((): readonly Choice[] => {
    const counts = new Map<string, number>();
    for (const { id } of devices) {
      const version = versionOf(statuses.get(id));
      counts.set(version, (counts.get(version) ?? 0) + 1);
    }
    return counted([...counts].toSorted(([a], [b]) => (sortKey(a) < sortKey(b) ? -1 : 1)));
  }, [devices, statuses]);
  const columns: readonly FilterColumn[] = [
    { name: 'state', title: 'State', placeholder: 'Every state', choices: states },
    { name: 'label', title: 'Label', placeholder: 'Every label', choices: labels, words: itself },
    { name: 'group', title: 'Group', placeholder: 'Every group', choices: groupChoices(groups) },
    { name: 'user', title: 'User', placeholder: 'Every user', choices: memberChoices(members) },
    { name: 'version', title: 'Version', placeholder: 'Every version', choices: versions, words: itself },
    { name: 'admits', title: 'Admits', field: null },
  ];
  return (
    <FilterBar
      label="Devices"
      search={{ name: 'q', title: 'Search devices', placeholder: 'Name, address, label or key' }}
      columns={columns}
      values={values}
      filter={filter}
      clear="Show every device"
    />
  );
}

/** Each with its place in a narrow window, where a device has two lines. */
const columns: readonly (readonly [DeviceColumn, title: string, place: string])[] = [
  ['name', 'Name', ''],
  ['state', 'State', 'right'],
  ['address', 'Address', 'only-wide'],
  ['labels', 'Labels', 'only-wide'],
  ['groups', 'Groups', 'below'],
  ['user', 'User', 'only-wide'],
  ['version', 'Version', 'only-wide'],
  ['seen', 'Last seen', 'below right'],
];

/** As high as the style sheet makes a row, in a wide and in a narrow window. */
const rowHeight = { wide: 34, narrow: 62 } as const;
const isNarrow = '(width < 1220px)';
/** Pixels that the style sheet leaves to labels. */
const labelRoom = { widest: 340, wide: 210, narrow: 116 } as const;
/** The same for groups in a narrow window. */
const narrowGroups = 110;

/** The browser says how large the list is once it has laid out the page anyway: asking it would make it do that twice. */
function observeSize(rows: Virtualizer<HTMLDivElement, Element>, tell: (size: Rect) => void): () => void {
  const observer = new ResizeObserver(([entry]) => {
    const size = entry?.borderBoxSize[0];
    if (size !== undefined) tell({ width: size.inlineSize, height: size.blockSize });
  });
  if (rows.scrollElement !== null) observer.observe(rows.scrollElement);
  return () => observer.disconnect();
}

function useMedia(wanted: string): boolean {
  const [is, setIs] = useState(() => window.matchMedia(wanted).matches);
  useEffect(() => {
    const query = window.matchMedia(wanted);
    const look = (): void => setIs(query.matches);
    query.addEventListener('change', look);
    return () => query.removeEventListener('change', look);
  }, [wanted]);
  return is;
}

function useLabelRoom(): number {
  const [isWidest, isWide] = [useMedia('(width >= 1900px)'), useMedia('(width >= 1400px)')];
  return labelRoom[isWidest ? 'widest' : isWide ? 'wide' : 'narrow'];
}

function Tags({ children, rest }: { readonly children: readonly ReactNode[]; readonly rest: number }): ReactNode {
  return (
    <>
      {children}
      {rest > 0 ? <span className="tag tag-plain tag-count">+{rest}</span> : null}
    </>
  );
}

const groupNameOf = ({ group }: GroupOn): string => group?.group_name ?? 'unknown group';

/** As many as can be read; the others are counted. */
function GroupTags({ groups, room }: { readonly groups: readonly GroupOn[]; readonly room: number }): ReactNode {
  const fitting = fittingLabels(groups.slice(0, 2).map(groupNameOf), room, 1).length;
  const shown = groups.slice(0, fitting);
  return (
    <Tags rest={groups.length - shown.length}>
      {shown.map((one) => (
        <Tag key={one.id} tone={one.by === 'default' ? 'plain' : 'accent'}>
          {groupNameOf(one)}
        </Tag>
      ))}
    </Tags>
  );
}

interface RowProps {
  readonly device: Device;
  readonly start: number;
  readonly user: string;
  readonly status: DeviceStatus | undefined;
  readonly isTold: boolean;
  readonly decidingOn: (device: Device) => readonly GroupOn[];
  /** Pixels for labels. */
  readonly room: number;
  readonly isSelected: boolean;
  readonly toggle: ((id: string, range: boolean) => void) | undefined;
}

/** Drawn again only when something in it differs: scrolling draws the rows that come into sight and no others. */
const Row = memo(function Row({
  device,
  start,
  user,
  status,
  isTold,
  decidingOn,
  room,
  isSelected,
  toggle,
}: RowProps): ReactNode {
  const { id: org } = useLive();
  const name = deviceName(device);
  const labels = device.labels ?? [];
  const groups = decidingOn(device);
  const shown = fittingLabels(labels, room, 1);
  const seen = status?.last_seen_at;
  return (
    <li
      className={isSelected ? 'list-row list-row-selected' : 'list-row'}
      style={{ transform: `translateY(${start}px)` }}
    >
      {toggle === undefined ? (
        <span />
      ) : (
        <input
          type="checkbox"
          className="pick"
          aria-label={`Select ${name}`}
          checked={isSelected}
          onChange={() => undefined}
          onClick={(event: MouseEvent) => toggle(device.id, event.shiftKey)}
        />
      )}
      <Link
        className="plain-link clip"
        to="/o/$org/devices/$device"
        params={{ org, device: device.id }}
        preload={false}
      >
        <strong>{name}</strong>
      </Link>
      <span className="right">
        <DeviceStateTag status={status} isTold={isTold} isIsolated={device.isolated !== undefined} />
      </span>
      <span className="mono clip only-wide">{device.tunnel_ip || '–'}</span>
      <span className="tags only-wide" title={shown.length < labels.length ? labels.join(', ') : undefined}>
        <Tags rest={labels.length - shown.length}>
          {shown.map((label) => (
            <Tag key={label}>{label}</Tag>
          ))}
        </Tags>
      </span>
      <span className="tags" title={groups.length > 1 ? groups.map(groupNameOf).join(', ') : undefined}>
        <GroupTags groups={groups} room={room === labelRoom.narrow ? narrowGroups : room} />
      </span>
      <span className="clip small dimmed only-wide">{user}</span>
      <span className="clip small dimmed only-wide">{status?.status === undefined ? '–' : versionOf(status)}</span>
      <span className="clip small dimmed right">{seen === undefined ? isTold ? 'never' : '…' : <Ago at={seen} />}</span>
    </li>
  );
});

interface Selection {
  readonly chosen: ReadonlySet<string>;
  readonly choose: (ids: ReadonlySet<string>) => void;
}

function useToggle(devices: readonly Device[], selection: Selection): (id: string, range: boolean) => void {
  const now = useRef({ devices, selection });
  now.current = { devices, selection };
  const last = useRef<string>(undefined);
  return useCallback((id, range) => {
    const { devices: all, selection: of } = now.current;
    const next = new Set(of.chosen);
    const [from, to] = [all.findIndex((one) => one.id === last.current), all.findIndex((one) => one.id === id)];
    const adds = !next.has(id);
    // With Shift, everything between this row and the one before follows it.
    const ids =
      range && from !== -1 ? all.slice(Math.min(from, to), Math.max(from, to) + 1).map((one): string => one.id) : [id];
    for (const one of ids) {
      if (adds) next.add(one);
      else next.delete(one);
    }
    last.current = id;
    of.choose(next);
  }, []);
}

function Rows({
  devices,
  selection,
}: {
  readonly devices: readonly Device[];
  readonly selection: Selection | undefined;
}): ReactNode {
  const { groups, groupById } = useSnapshot();
  const statuses = useStatuses();
  const nameOf = useNames();
  const scroller = useRef<HTMLDivElement>(null);
  const room = useLabelRoom();
  const height = useMedia(isNarrow) ? rowHeight.narrow : rowHeight.wide;
  const rows = useVirtualizer({
    count: devices.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
    overscan: 8,
    initialRect: { width: 0, height: window.innerHeight },
    observeElementRect: observeSize,
  });
  useEffect(() => rows.measure(), [rows, height]);
  const decidingOn = useCallback((device: Device) => groupsOn(device, { groups, groupById }), [groups, groupById]);
  const toggle = useToggle(devices, selection ?? { chosen: new Set(), choose: () => undefined });
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
            <Row
              key={device.id}
              device={device}
              start={start}
              user={nameOf(device.user_id)}
              status={statuses.get(device.id)}
              isTold={statuses.size > 0}
              decidingOn={decidingOn}
              room={room}
              isSelected={selection?.chosen.has(device.id) === true}
              toggle={selection && toggle}
            />
          );
        })}
      </ul>
    </div>
  );
}

function SelectAll({
  devices,
  selection,
}: {
  readonly devices: readonly Device[];
  readonly selection: Selection;
}): ReactNode {
  const { chosen, choose } = selection;
  const isAll = devices.length > 0 && devices.every(({ id }) => chosen.has(id));
  const isSome = chosen.size > 0 && !isAll;
  return (
    <input
      type="checkbox"
      className="pick"
      aria-label={`Select ${devices.length === 1 ? 'the 1 device' : `all ${plural(devices.length, 'device')}`}`}
      checked={isAll}
      ref={(box) => {
        if (box !== null) box.indeterminate = isSome;
      }}
      onChange={() => choose(new Set(isAll ? [] : devices.map(({ id }) => id)))}
    />
  );
}
