/** Owns the filters of the page of flows. Each is part of the URL, so that a view can be saved and shared. */
import { Select, TextInput } from '@mantine/core';
import type { ReactNode } from 'react';
import { FilterBar, type FilterColumn } from '../components/filter-bar.tsx';
import { useDeviceNames } from '../state/fleet.ts';
import { deviceName } from '../state/live.ts';
import { useRights, useSnapshot } from '../state/organization.ts';
import { spans, type FlowSearch } from './flow-search.ts';

const directions = [
  { value: 'in', label: 'Inbound: to the device' },
  { value: 'out', label: 'Outbound: from the device' },
];
const protocols = [
  { value: 'tcp', label: 'TCP' },
  { value: 'udp', label: 'UDP' },
  { value: 'icmp', label: 'Ping (IPv4)' },
  { value: 'icmpv6', label: 'Ping (IPv6)' },
];

function TimeField({
  label,
  value,
  onChange,
}: {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string | undefined) => void;
}): ReactNode {
  return (
    <TextInput
      className="filter-time"
      type="datetime-local"
      aria-label={label}
      leftSection={<span className="small">{label}</span>}
      leftSectionWidth={54}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value || undefined)}
    />
  );
}

export function FlowFilters({
  search: { verdict: _verdict, ...values },
  filter,
}: {
  readonly search: FlowSearch;
  readonly filter: (next: { readonly [name: string]: string | undefined }) => void;
}): ReactNode {
  const { devices, groups } = useSnapshot();
  const { isOwner, me } = useRights();
  const names = useDeviceNames();
  const { far, port = '', since = '', until = '' } = values;
  const readable = isOwner ? devices : devices.filter(({ user_id }) => user_id === me.id);
  const columns: readonly FilterColumn[] = [
    { name: 'far', title: 'Far end', placeholder: '', choices: [], words: names.nameOf, field: null },
    {
      name: 'device',
      title: 'Device',
      placeholder: 'Every device',
      choices: readable.map((device) => ({ value: device.id, label: deviceName(device) })),
    },
    {
      name: 'group',
      title: 'Group',
      placeholder: 'Every group',
      choices: groups.map(({ id, group_name }) => ({ value: id, label: group_name })),
    },
    { name: 'direction', title: 'Direction', placeholder: 'Both directions', choices: directions },
    { name: 'protocol', title: 'Protocol', placeholder: 'Every protocol', choices: protocols },
    {
      name: 'port',
      title: 'Port',
      placeholder: '',
      choices: [],
      field: (
        <TextInput
          aria-label="Filter by port"
          placeholder="Any port"
          inputMode="numeric"
          maxLength={5}
          value={port}
          onChange={(event) => {
            const next = event.currentTarget.value.replaceAll(/\D/g, '');
            filter({ port: next === '' || Number(next) > 65_535 ? undefined : next });
          }}
        />
      ),
    },
    {
      name: 'since',
      title: 'Since',
      placeholder: '',
      choices: spans,
      words: (value) => spans.find((span) => span.value === value)?.label ?? value.replace('T', ' '),
      field: (
        <>
          <Select
            aria-label="Filter by time"
            placeholder="Any time"
            clearable
            data={[...spans]}
            value={since.includes('T') ? null : since}
            onChange={(next) => filter({ since: next ?? undefined })}
            clearButtonProps={{ 'aria-label': 'Any time' }}
          />
          <TimeField
            label="Since"
            value={since.includes('T') ? since : ''}
            onChange={(next) => filter({ since: next })}
          />
        </>
      ),
    },
    {
      name: 'until',
      title: 'Until',
      placeholder: '',
      choices: [],
      words: (value) => value.replace('T', ' '),
      field: <TimeField label="Until" value={until} onChange={(next) => filter({ until: next })} />,
    },
  ];
  return (
    <FilterBar
      label="Flows"
      search={{
        name: 'far',
        title: 'Far end',
        placeholder: 'Device, address or range',
        text: far === undefined ? undefined : names.nameOf(far),
      }}
      columns={columns}
      values={values}
      filter={filter}
      clear="Show all flows"
    />
  );
}
