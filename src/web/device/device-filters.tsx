/** Owns the filters of the list of devices. Each is part of the URL, so that a view can be saved and shared. */
import { useMemo, type ReactNode } from 'react';
import { mostUrgentFirst } from '../../api/enforcement/in-force.ts';
import { FilterBar, type Choice, type FilterColumn } from '../components/filter-bar.tsx';
import { versionOf, type DeviceSearch } from '../model/device-search.ts';
import { countDeviceStates } from '../model/device-state.ts';
import { countLabels } from '../model/labels.ts';
import { useMembers, useSnapshot, useStatuses } from '../state/organization.ts';
import { sortKey } from '../state/order.ts';
import { stateTitle } from './device-state.tsx';

const counted = (counts: Iterable<readonly [string, number]>): readonly Choice[] =>
  [...counts].map(([value, count]) => ({ value, label: `${value} (${count})` }));
const itself = (value: string): string => value;

export function DeviceFilters({
  search: { sort: _sort, reverse: _reverse, ...values },
  filter,
}: {
  readonly search: DeviceSearch;
  readonly filter: (next: { readonly [name: string]: string | undefined }) => void;
}): ReactNode {
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
    {
      name: 'group',
      title: 'Group',
      placeholder: 'Every group',
      choices: groups.map(({ id, group_name }) => ({ value: id, label: group_name })),
    },
    {
      name: 'user',
      title: 'User',
      placeholder: 'Every user',
      choices: members.map(({ user_id, username }) => ({ value: user_id, label: username })),
    },
    { name: 'version', title: 'Version', placeholder: 'Every version', choices: versions, words: itself },
    { name: 'admits', title: 'Admits', placeholder: '', choices: [], field: null },
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
