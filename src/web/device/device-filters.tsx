/** Owns the filters above the list of devices. Each is part of the URL, so that a view can be saved and shared. */
import { Button, CloseButton, Select, TextInput } from '@mantine/core';
import { useEffect, useMemo, useRef, useState, type ReactNode } from 'react';
import { mostUrgentFirst } from '../../api/enforcement/in-force.ts';
import { SearchIcon } from '../components/icons.tsx';
import { filterNames, isFiltered, versionOf, type DeviceSearch, type StateFilter } from '../model/device-search.ts';
import { countDeviceStates } from '../model/device-state.ts';
import { countLabels } from '../model/labels.ts';
import { useMembers, useSnapshot, useStatuses } from '../state/organization.ts';
import { sortKey } from '../state/order.ts';
import { stateTitle } from './device-state.tsx';

/** What is to change in the address; undefined takes a filter away. */
export type Filter = { readonly [Name in keyof DeviceSearch]?: DeviceSearch[Name] | undefined };

interface Choice {
  readonly value: string;
  readonly label: string;
}

/** Typing is quick, the address need not follow every letter. */
const settleMs = 150;

function SearchField({
  q,
  filter,
}: {
  readonly q: string | undefined;
  readonly filter: (next: Filter) => void;
}): ReactNode {
  const [text, setText] = useState(q ?? '');
  const told = useRef(q ?? '');
  // Somebody else changed the address: a link, the button for every device, the way back.
  useEffect(() => {
    if ((q ?? '') === told.current) return;
    told.current = q ?? '';
    setText(q ?? '');
  }, [q]);
  useEffect(() => {
    if (text === told.current) return undefined;
    const timer = setTimeout(() => {
      told.current = text;
      filter({ q: text === '' ? undefined : text });
    }, settleMs);
    return () => clearTimeout(timer);
  }, [text, filter]);
  return (
    <TextInput
      className="search"
      aria-label="Search devices"
      placeholder="Search by name, address, label or key"
      leftSection={<SearchIcon size={16} />}
      value={text}
      onChange={(event) => setText(event.currentTarget.value)}
      rightSection={
        text === '' ? null : <CloseButton size="sm" aria-label="Clear the search" onClick={() => setText('')} />
      }
    />
  );
}

function Picker({
  of,
  all,
  data,
  value,
  onChange,
}: {
  readonly of: string;
  /** The text while nothing is chosen. The clear button brings it back. */
  readonly all: string;
  readonly data: readonly Choice[];
  readonly value: string | undefined;
  readonly onChange: (value: string | undefined) => void;
}): ReactNode {
  // A view that was kept may name what is no longer there: it says so instead of showing nothing.
  const known = value === undefined || data.some((choice) => choice.value === value);
  return (
    <Select
      className="filter"
      aria-label={`Filter by ${of}`}
      placeholder={all}
      clearable
      searchable
      data={known ? [...data] : [...data, { value, label: `${value} (none)` }]}
      value={value ?? null}
      onChange={(next) => onChange(next ?? undefined)}
      clearButtonProps={{ 'aria-label': all }}
      comboboxProps={{ width: 'max-content', position: 'bottom-start' }}
      maxDropdownHeight={320}
    />
  );
}

export function DeviceFilters({
  search,
  filter,
}: {
  readonly search: DeviceSearch;
  readonly filter: (next: Filter) => void;
}): ReactNode {
  const { devices, groups } = useSnapshot();
  const statuses = useStatuses();
  const { data: members = [] } = useMembers();
  const labels = useMemo(
    () => [...countLabels(devices)].map(([value, count]) => ({ value, label: `${value} (${count})` })),
    [devices],
  );
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
    return [...counts]
      .toSorted(([a], [b]) => (sortKey(a) < sortKey(b) ? -1 : 1))
      .map(([value, count]) => ({ value, label: `${value} (${count})` }));
  }, [devices, statuses]);
  return (
    <div className="filters" role="search" aria-label="Devices">
      <SearchField q={search.q} filter={filter} />
      <Picker
        of="state"
        all="Every state"
        data={states}
        value={search.state}
        onChange={(value) => filter({ state: value as StateFilter | undefined })}
      />
      <Picker of="label" all="Every label" data={labels} value={search.label} onChange={(label) => filter({ label })} />
      <Picker
        of="group"
        all="Every group"
        data={groups.map(({ id, group_name }) => ({ value: id, label: group_name }))}
        value={search.group}
        onChange={(group) => filter({ group })}
      />
      <Picker
        of="user"
        all="Every user"
        data={members.map(({ user_id, username }) => ({ value: user_id, label: username }))}
        value={search.user}
        onChange={(user) => filter({ user })}
      />
      <Picker
        of="version"
        all="Every version"
        data={versions}
        value={search.version}
        onChange={(version) => filter({ version })}
      />
      {isFiltered(search) ? (
        <Button variant="subtle" size="compact-sm" onClick={() => filter(noFilter)}>
          Show every device
        </Button>
      ) : null}
    </div>
  );
}

/** Takes every filter away and leaves the order. */
export const noFilter: Filter = Object.fromEntries(filterNames.map((name) => [name, undefined]));
