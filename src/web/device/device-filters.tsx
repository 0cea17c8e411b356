/** Owns the search and the filters of the list of devices. Each is part of the URL, so that a view can be saved and shared. */
import { useCallback, useMemo, type ReactNode } from 'react';
import { mostUrgentFirst } from '../../api/enforcement/in-force.ts';
import { FilterBar, FilterPicker, SearchField, type Choice, type FilterChip } from '../components/filter-bar.tsx';
import { filterNames, isFiltered, versionOf, type DeviceSearch, type StateFilter } from '../model/device-search.ts';
import { countDeviceStates } from '../model/device-state.ts';
import { countLabels } from '../model/labels.ts';
import { useMembers, useSnapshot, useStatuses } from '../state/organization.ts';
import { sortKey } from '../state/order.ts';
import { stateTitle } from './device-state.tsx';

/** What is to change in the address; undefined takes a filter away. */
export type Filter = { readonly [Name in keyof DeviceSearch]?: DeviceSearch[Name] | undefined };

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
  const groupChoices = groups.map(({ id, group_name }): Choice => ({ value: id, label: group_name }));
  const userChoices = members.map(({ user_id, username }): Choice => ({ value: user_id, label: username }));
  const labelOf = (choices: readonly Choice[], value: string): string =>
    choices.find((choice) => choice.value === value)?.label ?? value;
  const { state, label, group, user, version, admits } = search;
  const chips: readonly (FilterChip | undefined)[] = [
    state && { of: 'State', value: labelOf(states, state), clear: () => filter({ state: undefined }) },
    label && { of: 'Label', value: label, clear: () => filter({ label: undefined }) },
    group && { of: 'Group', value: labelOf(groupChoices, group), clear: () => filter({ group: undefined }) },
    user && { of: 'User', value: labelOf(userChoices, user), clear: () => filter({ user: undefined }) },
    version && { of: 'Version', value: version, clear: () => filter({ version: undefined }) },
    admits && { of: 'Admits', value: admits, clear: () => filter({ admits: undefined }) },
  ].map((chip) => (chip === '' ? undefined : chip));
  const onSearch = useCallback((q: string | undefined) => filter({ q }), [filter]);
  return (
    <FilterBar
      label="Devices"
      search={
        <SearchField
          label="Search devices"
          placeholder="Name, address, label or key"
          q={search.q}
          onChange={onSearch}
        />
      }
      chips={chips.filter((chip) => chip !== undefined)}
      clearAll={isFiltered(search) ? { label: 'Show every device', act: () => filter(noFilter) } : undefined}
    >
      <FilterPicker
        of="state"
        all="Every state"
        data={states}
        value={state}
        onChange={(value) => filter({ state: value as StateFilter | undefined })}
      />
      <FilterPicker
        of="label"
        all="Every label"
        data={labels}
        value={label}
        onChange={(value) => filter({ label: value })}
      />
      <FilterPicker
        of="group"
        all="Every group"
        data={groupChoices}
        value={group}
        onChange={(value) => filter({ group: value })}
      />
      <FilterPicker
        of="user"
        all="Every user"
        data={userChoices}
        value={user}
        onChange={(value) => filter({ user: value })}
      />
      <FilterPicker
        of="version"
        all="Every version"
        data={versions}
        value={version}
        onChange={(value) => filter({ version: value })}
      />
    </FilterBar>
  );
}

/** Takes every filter away and leaves the order. */
export const noFilter: Filter = Object.fromEntries(filterNames.map((name) => [name, undefined]));
