/** * Owns the list of devices: searched by text, state, label, group, user and version, sorted by any column, with bulk
 * actions. */
import { Button } from '@mantine/core';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useDeferredValue, useMemo, useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { DeviceIcon, PlusIcon } from '../components/icons.tsx';
import { Empty } from '../components/placeholders.tsx';
import { Page } from '../components/page.tsx';
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
import { DeviceTable } from '../device/device-table.tsx';
import { groupsOf } from '../../organization/of-records.ts';
import { selectDevices, sortDevices, versionOf, type DeviceColumn, type DeviceSearch } from '../model/device-search.ts';
import { grouped, plural } from '../../client/words/number.ts';
import { useMembers, useNames, useSnapshot, useRights, useStatuses } from '../state/organization.ts';
import { mostUrgentFirst } from '../../api/enforcement/in-force.ts';
import { countDeviceStates } from '../model/device-state.ts';
import { countLabels } from '../model/far-end.ts';
import { sortKey } from '../state/order.ts';
import { stateTitle } from '../device/device-state.tsx';

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

  const filter = useFilter();
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
          <DeviceFilters search={search} filter={filter} />
          <DeviceTable
            devices={isDrawn ? shown : none}
            column={column}
            reverse={search.reverse === true}
            sort={sort}
            selection={
              mayWrite
                ? { chosen, choose: (ids) => setChosen(new Set([...ids].filter((id) => deviceById.has(id)))) }
                : undefined
            }
            empty={
              shown.length > 0 ? undefined : (
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
              )
            }
          />
          <BulkBar devices={selected} hidden={hidden} clear={() => setChosen(nobody)} />
        </>
      )}
    </Page>
  );
}

const counted = (counts: Iterable<readonly [string, number]>): readonly Choice[] =>
  [...counts].map(([value, count]) => ({ value, label: `${value} (${count})` }));
const itself = (value: string): string => value;

function DeviceFilters({
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
