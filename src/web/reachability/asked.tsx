/** Owns the query of the reachability page: which service or port, and between which devices. */
import { NumberInput, SegmentedControl, Select } from '@mantine/core';
import { useMemo, useState, type ReactNode } from 'react';
import { services } from '../../policy/services.ts';
import type { Probe } from '../model/reachability.ts';
import { deviceName } from '../state/live.ts';
import { useSnapshot } from '../state/organization.ts';

const known = services
  .filter(({ ip_protocol }) => ip_protocol === 'tcp' || ip_protocol === 'udp')
  .map(({ name, ip_protocol, port }) => ({
    value: `${ip_protocol} ${port}`,
    label: `${name} (${ip_protocol} ${port})`,
  }));
const choices = [...known, { value: 'ping 0', label: 'Ping' }, { value: 'custom', label: 'Another port …' }];

/** Reads the probe from the URL; SSH where the text is not a probe. */
export function readProbe(text: string | undefined): Probe {
  const [, kind, port] = /^(tcp|udp|ping) (\d{1,5})$/.exec(text ?? '') ?? [];
  const number = Number(port);
  if (kind === 'ping') return { kind, port: 0 };
  if ((kind !== 'tcp' && kind !== 'udp') || number < 1 || number > 65_535) return { kind: 'tcp', port: 22 };
  return { kind, port: number };
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
  const now = `${probe.kind} ${probe.port}`;
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
          if (next !== null) onChange(next === 'custom' ? 'tcp 8080' : next);
        }}
        allowDeselect={false}
        searchable
      />
      {custom ? (
        <>
          <SegmentedControl
            aria-label="Protocol"
            value={probe.kind}
            onChange={(kind) => onChange(`${kind} ${probe.port}`)}
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
            onChange={(port) => onChange(`${probe.kind} ${Number(port) || 1}`)}
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
  const data = useMemo(() => devices.map((device) => ({ value: device.id, label: deviceName(device) })), [devices]);
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
