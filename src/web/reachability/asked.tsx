/** Owns what the reachability page is asked: which service or port, between which devices, at which moment, and the devices as ends of connections. */
import { deviceChoices } from '../components/filter-bar.tsx';
import { NumberInput, SegmentedControl, Select, Button, TextInput } from '@mantine/core';
import { useMemo, useState, type ReactNode } from 'react';
import { services } from '../../policy/services.ts';
import { addressOf, type Probe, type Endpoint } from '../model/reachability.ts';
import {
  deviceName,
  useSnapshot,
  snapshotOf,
  useLive,
  useModel,
  usePast,
  useStatuses,
  type PastOrganization,
} from '../state/organization.ts';
import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { useSession } from '../state/session.ts';
import type { Device } from '../../api/device.ts';
import { policiesOn } from '../../organization/of-records.ts';
import { ago } from '../components/page.tsx';
import { shortcomingOf } from '../model/device-state.ts';

const known = services
  .filter(({ ip_protocol }) => ip_protocol === 'tcp' || ip_protocol === 'udp')
  .map(({ name, ip_protocol, port }) => ({
    value: `${ip_protocol}/${port}`,
    label: `${name} (${ip_protocol} ${port})`,
  }));
const choices = [...known, { value: 'ping', label: 'Ping' }, { value: 'custom', label: 'Another port …' }];

/** As the URL has it: `tcp/5432`, `ping`. */
const printProbe = ({ kind, port }: Probe): string => (kind === 'ping' ? kind : `${kind}/${port}`);

/** Reads the probe from the URL, also from `5432` and `tcp 5432`; SSH where the text is not a probe. */
export function readProbe(text: string | undefined): Probe {
  if (/^ping\b/.test(text ?? '')) return { kind: 'ping', port: 0 };
  const [, kind, port] = /^(?:(tcp|udp)[ /])?(\d{1,5})$/.exec(text ?? '') ?? [];
  const number = Number(port);
  if (!(number >= 1 && number <= 65_535)) return { kind: 'tcp', port: 22 };
  return { kind: kind === 'udp' ? kind : 'tcp', port: number };
}

export const probeWords = ({ kind, port }: Probe): string =>
  kind === 'ping' ? 'Ping' : `${kind.toUpperCase()} port ${port}`;

export function ServiceChoice({
  probe,
  onChange,
}: {
  readonly probe: Probe;
  readonly onChange: (text: string) => void;
}): ReactNode {
  const now = printProbe(probe);
  const [custom, setCustom] = useState(!choices.some(({ value }) => value === now));
  return (
    <>
      <Select
        className="filter"
        aria-label="Service"
        data={choices}
        value={custom ? 'custom' : now}
        onChange={(next) => {
          setCustom(next === 'custom');
          if (next !== null) onChange(next === 'custom' ? 'tcp/8080' : next);
        }}
        allowDeselect={false}
        searchable
      />
      {custom ? (
        <>
          <SegmentedControl
            aria-label="Protocol"
            value={probe.kind}
            onChange={(kind) => onChange(`${kind}/${probe.port}`)}
            data={[
              { value: 'tcp', label: 'TCP' },
              { value: 'udp', label: 'UDP' },
            ]}
          />
          <NumberInput
            aria-label="Port"
            w={110}
            min={1}
            max={65_535}
            allowDecimal={false}
            value={probe.port}
            onChange={(port) => onChange(`${probe.kind}/${Number(port) || 1}`)}
          />
        </>
      ) : null}
    </>
  );
}

const shownDevices = 30;

export function DeviceChoice({
  label,
  value,
  onChange,
}: {
  readonly label: string;
  readonly value: string | undefined;
  readonly onChange: (id: string | undefined) => void;
}): ReactNode {
  const { devices } = useSnapshot();
  const data = useMemo(() => deviceChoices(devices), [devices]);
  return (
    <Select
      className="filter"
      aria-label={label}
      placeholder={`${label} any device`}
      data={data}
      limit={shownDevices}
      value={value ?? null}
      onChange={(next) => onChange(next ?? undefined)}
      searchable
      clearable
      clearButtonProps={{ 'aria-label': `${label} any device` }}
    />
  );
}

/** As the page's address has it: local time, `2026-11-09T10:00`. */
const form = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}$/;

/** Milliseconds since 1970; undefined for the present, also where the text is no time. */
export function readPastMoment(text: string | undefined): number | undefined {
  const time = text !== undefined && form.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

/** The same lists that `ringfence explain --at` reads. */
export function usePastOrganization(at: number | undefined): UseQueryResult<PastOrganization> {
  const { client } = useSession();
  const { id } = useLive();
  return useQuery({
    queryKey: ['past', id, at],
    enabled: at !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    structuralSharing: false,
    retry: false,
    queryFn: async ({ signal }): Promise<PastOrganization> => {
      const moment = at ?? 0;
      const query = { at: new Date(moment).toISOString(), signal };
      const [devices, groups] = await Promise.all([client.devices.list(id, query), client.groups.list(id, query)]);
      return { at: moment, snapshot: snapshotOf(devices, groups) };
    },
  });
}

export function PastChoice({
  value,
  onChange,
}: {
  readonly value: string | undefined;
  readonly onChange: (text: string | undefined) => void;
}): ReactNode {
  return (
    <>
      <TextInput
        className="filter-time"
        type="datetime-local"
        aria-label="At"
        leftSection={<span className="small">At</span>}
        leftSectionWidth={34}
        value={value ?? ''}
        onChange={(event) => onChange(event.currentTarget.value || undefined)}
      />
      {value === undefined ? null : (
        <Button variant="default" onClick={() => onChange(undefined)}>
          Show now
        </Button>
      )}
    </>
  );
}

export function useEndpoints(devices: readonly Device[]): readonly Endpoint[] {
  const model = useModel();
  const statuses = useStatuses();
  const past = usePast();
  const at = past?.at;
  const judged = useMemo(() => {
    const policies = policiesOn(
      model,
      devices.map(({ id }) => id),
      at ?? Date.now(),
    );
    return devices.map((device, index): Endpoint => ({
      device,
      policy: policies[index] ?? { missing: 'default' },
      address: addressOf(device),
    }));
  }, [devices, model, at]);
  return useMemo(() => {
    if (at !== undefined) return judged;
    const now = Date.now();
    return judged.map((endpoint) => ({
      ...endpoint,
      shortcoming: shortcomingOf(deviceName(endpoint.device), statuses.get(endpoint.device.id), (time) =>
        ago(Date.parse(time), now),
      ),
    }));
  }, [judged, statuses, at]);
}
