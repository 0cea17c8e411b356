/** Owns the filters of the page of flows. Each is part of the URL, so that a view can be saved and shared. */
import { TextInput } from '@mantine/core';
import { useCallback, type ReactNode } from 'react';
import { FilterBar, FilterPicker, SearchField, type Choice, type FilterChip } from '../components/filter-bar.tsx';
import { useDeviceNames } from '../state/fleet.ts';
import { deviceName } from '../state/live.ts';
import { useRights, useSnapshot } from '../state/organization.ts';
import { isFiltered, noFilter, spans, type FlowSearch } from './flow-search.ts';

/** What is to change in the URL; undefined takes a filter away. */
export type FlowFilter = { readonly [Name in keyof FlowSearch]?: FlowSearch[Name] | undefined };

const directionChoices: readonly Choice[] = [
  { value: 'in', label: 'Inbound: to the device' },
  { value: 'out', label: 'Outbound: from the device' },
];
const protocolChoices: readonly Choice[] = [
  { value: 'tcp', label: 'TCP' },
  { value: 'udp', label: 'UDP' },
  { value: 'icmp', label: 'Ping (IPv4)' },
  { value: 'icmpv6', label: 'Ping (IPv6)' },
];

const labelOf = (choices: readonly Choice[], value: string): string =>
  choices.find((choice) => choice.value === value)?.label ?? value;

export function FlowFilters({
  search,
  filter,
}: {
  readonly search: FlowSearch;
  readonly filter: (next: FlowFilter) => void;
}): ReactNode {
  const { devices, groups } = useSnapshot();
  const { isOwner, me } = useRights();
  const names = useDeviceNames();
  const readable = isOwner ? devices : devices.filter(({ user_id }) => user_id === me.id);
  const deviceChoices = readable.map((device): Choice => ({ value: device.id, label: deviceName(device) }));
  const groupChoices = groups.map(({ id, group_name }): Choice => ({ value: id, label: group_name }));
  const chip = (of: string, name: keyof FlowSearch, choices: readonly Choice[] = []): readonly FilterChip[] => {
    const value = search[name];
    return value === undefined
      ? []
      : [{ of, value: labelOf(choices, value).replace('T', ' '), clear: () => filter({ [name]: undefined }) }];
  };
  const onSearch = useCallback((far: string | undefined) => filter({ far }), [filter]);
  const far = search.far === undefined ? undefined : names.nameOf(search.far);
  return (
    <FilterBar
      label="Flows"
      search={<SearchField label="Far end" placeholder="Device, address or range" q={far} onChange={onSearch} />}
      chips={[
        ...(far === undefined ? [] : [{ of: 'Far end', value: far, clear: () => filter({ far: undefined }) }]),
        ...chip('Device', 'device', deviceChoices),
        ...chip('Group', 'group', groupChoices),
        ...chip('Direction', 'direction', directionChoices),
        ...chip('Protocol', 'protocol', protocolChoices),
        ...chip('Port', 'port'),
        ...chip('Since', 'since', spans),
        ...chip('Until', 'until'),
      ]}
      clearAll={isFiltered(search) ? { label: 'Show all flows', act: () => filter(noFilter) } : undefined}
    >
      <FilterPicker
        of="device"
        all="Every device"
        data={deviceChoices}
        value={search.device}
        onChange={(device) => filter({ device })}
      />
      <FilterPicker
        of="group"
        all="Every group"
        data={groupChoices}
        value={search.group}
        onChange={(group) => filter({ group })}
      />
      <FilterPicker
        of="direction"
        all="Both directions"
        data={directionChoices}
        value={search.direction}
        onChange={(direction) => filter({ direction: direction as FlowSearch['direction'] })}
      />
      <FilterPicker
        of="protocol"
        all="Every protocol"
        data={protocolChoices}
        value={search.protocol}
        onChange={(protocol) => filter({ protocol })}
      />
      <TextInput
        aria-label="Filter by port"
        placeholder="Any port"
        inputMode="numeric"
        maxLength={5}
        value={search.port ?? ''}
        onChange={(event) => {
          const port = event.currentTarget.value.replaceAll(/\D/g, '');
          filter({ port: port === '' || Number(port) > 65_535 ? undefined : port });
        }}
      />
      <FilterPicker
        of="time"
        all="Any time"
        data={spans}
        value={spans.some(({ value }) => value === search.since) ? search.since : undefined}
        onChange={(since) => filter({ since })}
      />
      <TextInput
        className="filter-time"
        type="datetime-local"
        aria-label="Since"
        leftSection={<span className="small">Since</span>}
        leftSectionWidth={54}
        value={search.since?.includes('T') === true ? search.since : ''}
        onChange={(event) => filter({ since: event.currentTarget.value || undefined })}
      />
      <TextInput
        className="filter-time"
        type="datetime-local"
        aria-label="Until"
        leftSection={<span className="small">Until</span>}
        leftSectionWidth={54}
        value={search.until ?? ''}
        onChange={(event) => filter({ until: event.currentTarget.value || undefined })}
      />
    </FilterBar>
  );
}
