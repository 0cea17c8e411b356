/**
 * Owns the list of devices: searched by text, state, label, group, user and version, sorted by any column, with bulk
 * actions.
 */
import { Button } from '@mantine/core';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useDeferredValue, useMemo, useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { DeviceIcon, PlusIcon } from '../components/icons.tsx';
import { Empty } from '../components/placeholders.tsx';
import { Page } from '../components/page.tsx';
import { AddDevice } from '../device/add-device.tsx';
import { BulkBar } from '../device/bulk-bar.tsx';
import { useFilter } from '../components/filter-bar.tsx';
import { DeviceFilters } from '../device/device-filters.tsx';
import { DeviceTable } from '../device/device-table.tsx';
import { groupsOf } from '../../organization/of-records.ts';
import { selectDevices, sortDevices, type DeviceColumn, type DeviceSearch } from '../model/device-search.ts';
import { grouped, plural } from '../../client/words/number.ts';
import { useMembers, useNames, useSnapshot, useRights, useStatuses } from '../state/organization.ts';

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
