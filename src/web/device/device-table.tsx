/**
 * Owns the rows of the list of devices: only visible rows are rendered, each can be selected, and each column sorts.
 */
import { Link } from '@tanstack/react-router';
import { useVirtualizer, type Rect, type Virtualizer } from '@tanstack/react-virtual';
import { memo, useCallback, useEffect, useRef, useState, type MouseEvent, type ReactNode } from 'react';
import type { Device, DeviceStatus } from '../../api/device.ts';
import { Tag, Ago } from '../components/page.tsx';
import { groupsOn, type GroupOn } from '../model/device-policy.ts';
import { versionOf, type DeviceColumn } from '../model/device-search.ts';
import { fittingLabels } from '../model/far-end.ts';
import { plural } from '../../client/words/number.ts';
import { deviceName, useNames, useSnapshot, useStatuses, useLive } from '../state/organization.ts';
import { DeviceStateTag } from './device-state.tsx';

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
  readonly groupsOf: (device: Device) => readonly GroupOn[];
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
  groupsOf,
  room,
  isSelected,
  toggle,
}: RowProps): ReactNode {
  const { id: org } = useLive();
  const name = deviceName(device);
  const labels = device.labels ?? [];
  const groups = groupsOf(device);
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
  const groupsOf = (device: Device): readonly GroupOn[] => groupsOn(device, { groups, groupById });
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
              groupsOf={groupsOf}
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

export function DeviceTable({
  devices,
  column,
  reverse,
  sort,
  selection,
  empty,
}: {
  readonly devices: readonly Device[];
  readonly column: DeviceColumn;
  readonly reverse: boolean;
  readonly sort: (column: DeviceColumn) => void;
  /** Absent where nothing can be done with a selection. */
  readonly selection: Selection | undefined;
  /** Shown when there are no rows. */
  readonly empty: ReactNode;
}): ReactNode {
  return (
    <div className="card list list-devices">
      <div className="list-head">
        {selection === undefined ? <span /> : <SelectAll devices={devices} selection={selection} />}
        {columns.map(([key, name, place]) => (
          <button
            key={key}
            type="button"
            className={`sort ${place}`}
            data-active={column === key || undefined}
            aria-label={`Sort by ${name}${column === key ? (reverse ? ', now descending' : ', now ascending') : ''}`}
            onClick={() => sort(key)}
          >
            {name} {column === key ? (reverse ? '↓' : '↑') : ''}
          </button>
        ))}
      </div>
      {empty ?? <Rows devices={devices} selection={selection} />}
    </div>
  );
}
