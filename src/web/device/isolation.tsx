/**
 * Owns the isolation of one device on its page: the banner while it lasts, the dialog that starts it, and the button
 * that ends it.
 */
import { Button, Checkbox, Select, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import { limits } from '../../api/limits.ts';
import type { Device } from '../../api/device.ts';
import type { RefusedAddress } from '../../api/isolation.ts';
import { peerWord } from '../../client/words/rule.ts';
import { FormDialog } from '../components/dialog.tsx';
import { Ago, clockTime } from '../components/page.tsx';
import { UnknownLabels, LabelInput } from '../group/far-end-input.tsx';
import { notify, useWrite } from '../state/write.tsx';
import { labelFault } from '../model/far-end.ts';
import { useDeviceNames, deviceName, useNames, useRights } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { InForceCount } from './device-state.tsx';

const hour = 3_600_000;
const durations: Readonly<Record<string, { readonly label: string; readonly ms?: number }>> = {
  open: { label: 'until an owner releases it' },
  hour: { label: 'for an hour', ms: hour },
  shift: { label: 'for 8 hours', ms: 8 * hour },
  day: { label: 'for a day', ms: 24 * hour },
};

/** What the other devices will refuse: an address that they need themselves can be left out. */
function RefusedAddresses({
  refused,
  leftOut,
  setLeftOut,
}: {
  readonly refused: readonly RefusedAddress[];
  readonly leftOut: ReadonlySet<string>;
  readonly setLeftOut: (addresses: ReadonlySet<string>) => void;
}): ReactNode {
  const names = useDeviceNames();
  const nameOf = useNames();
  if (refused.length === 0) return <p className="small">The record of the device has no address to refuse.</p>;
  return (
    <Checkbox.Group
      label="The other devices refuse these addresses"
      description="Leave out an address that others need, such as that of a DNS server."
      value={refused.flatMap(({ address }) => (leftOut.has(address) ? [] : [address]))}
      onChange={(kept) => {
        const all = refused.map(({ address }) => address);
        setLeftOut(new Set(all.filter((address) => !kept.includes(address))));
      }}
    >
      <div className="stack tight">
        {refused.map(({ address, set_by, devices = [], more_devices = 0 }) => (
          <Checkbox
            key={address}
            value={address}
            label={address}
            description={
              <>
                {set_by === undefined ? null : (
                  <>
                    set by {set_by.username ?? nameOf(set_by.user_id)} <Ago at={set_by.at} />
                  </>
                )}
                {devices.length === 0
                  ? null
                  : ` · also an address of ${devices.map((id) => names.nameOf(id)).join(', ')}${more_devices === 0 ? '' : ` and ${more_devices} more`}`}
              </>
            }
          />
        ))}
      </div>
    </Checkbox.Group>
  );
}

function IsolateDialog({ device, close }: { readonly device: Device; readonly close: () => void }): ReactNode {
  const { client } = useSession();
  const [reason, setReason] = useState('');
  const [duration, setDuration] = useState('open');
  const [labels, setLabels] = useState<readonly string[]>([]);
  const [leftOut, setLeftOut] = useState<ReadonlySet<string>>(new Set());
  const { organization_id: org, id, revision } = device;
  const preview = useQuery({
    queryKey: ['isolation-preview', org, id, revision],
    queryFn: ({ signal }) => client.devices.previewIsolation(org, id, { signal }),
  });
  const refused = preview.data?.refused_addresses ?? [];
  const write = useWrite(async () => {
    const ms = durations[duration]?.ms;
    const body = {
      reason: reason.trim(),
      ...(ms !== undefined && { until: new Date(Date.now() + ms).toISOString() }),
      ...(labels.length > 0 && { allow: labels.map((label) => ({ labels: [label] })) }),
    };
    const addresses = refused.flatMap(({ address }) => (leftOut.has(address) ? [] : [address]));
    // Addresses that the device gets meanwhile would be left out too.
    const { warnings = [] } = await (addresses.length === refused.length
      ? client.devices.isolate(org, id, body)
      : client.devices.isolate(org, id, { ...body, addresses }, { ifMatch: revision }));
    notify([`${deviceName(device)} is isolated.`, ...warnings.map(({ detail }) => detail)].join(' '));
    close();
  });
  return (
    <FormDialog
      title={`Isolate ${deviceName(device)}?`}
      close={close}
      write={write}
      action="Isolate the device"
      danger
      disabled={reason.trim() === '' || labelFault(labels) !== undefined || preview.isLoading}
    >
      <p>
        The device keeps only its connection to this server. Every other device refuses its addresses, and its
        connections end.
      </p>
      <TextInput
        label="Reason"
        description="Every member can read it."
        value={reason}
        maxLength={limits.isolationReason}
        required
        data-autofocus
        onChange={(event) => setReason(event.currentTarget.value)}
      />
      <Select
        label="How long"
        allowDeselect={false}
        data={Object.entries(durations).map(([value, { label }]) => ({ value, label }))}
        value={duration}
        onChange={(value) => setDuration(value ?? 'open')}
      />
      <LabelInput
        label="Still allow devices with one of these labels"
        description="For example a forensics host. Their own groups decide what they accept."
        labels={labels}
        onChange={setLabels}
        error={labelFault(labels)}
      />
      {labelFault(labels) === undefined ? <UnknownLabels labels={labels} /> : null}
      {preview.data === undefined ? null : (
        <RefusedAddresses refused={refused} leftOut={leftOut} setLeftOut={setLeftOut} />
      )}
    </FormDialog>
  );
}

/** The button that isolates a device, for owners. */
export function IsolateButton({ device }: { readonly device: Device }): ReactNode {
  const { governs } = useRights();
  const { isolate } = useSearch({ from: '/o/$org/devices/$device' });
  const navigate = useNavigate({ from: '/o/$org/devices/$device' });
  const isOpen = isolate === true;
  const setOpen = (open: boolean): void => void navigate({ search: open ? { isolate: true } : {}, replace: true });
  if (!governs || device.isolated !== undefined) return null;
  return (
    <>
      <Button variant="default" className="danger" onClick={() => setOpen(true)}>
        Isolate
      </Button>
      {isOpen ? <IsolateDialog device={device} close={() => setOpen(false)} /> : null}
    </>
  );
}

/** Receipts of the isolation, also from the devices that refuse this one. */
function Receipts({ device }: { readonly device: Device }): ReactNode {
  const { client } = useSession();
  const { organization_id: org, revision } = device;
  const { data } = useQuery({
    queryKey: ['convergence', org, revision],
    queryFn: ({ signal }) => client.statuses.convergence(org, { revision, limit: 1, signal }),
    refetchInterval: ({ state: { data: last } }) =>
      last !== undefined && last.in_force === last.devices ? false : (last?.devices ?? 0) <= 200 ? 3_000 : 8_000,
    placeholderData: (before) => before,
  });
  return data === undefined ? null : <InForceCount counts={data} />;
}

/** What is to be known first about an isolated device. */
export function IsolationBanner({ device }: { readonly device: Device }): ReactNode {
  const { client } = useSession();
  const { governs } = useRights();
  const nameOf = useNames();
  const names = useDeviceNames();
  const { start, busy } = useWrite(async () => {
    await client.devices.liftIsolation(device.organization_id, device.id);
    notify(`${deviceName(device)} is released.`);
  }, 'The device stays isolated');
  const { isolated } = device;
  if (isolated === undefined) return null;
  const { since, until, by, reason, allow = [], not_refused: notRefused = [] } = isolated;
  return (
    <section className="note note-warn stack tight" aria-label="Isolation">
      <p>
        <strong>This device is isolated</strong> since <Ago at={since} /> by {nameOf(by)}: {reason}
      </p>
      <p className="small">
        It talks only to its server
        {allow.length === 0 ? '' : ` and to ${allow.map((peer) => peerWord(peer, names)).join(', ')}`}, and every other
        device refuses it{until === undefined ? '' : ` until ${clockTime(Date.parse(until), Date.now())}`}. The groups
        below apply again afterwards.
        {notRefused.length === 0 ? '' : ` Its address ${notRefused.join(', ')} is not refused: it was left out.`}
      </p>
      <Receipts device={device} />
      {governs ? (
        <div>
          <Button variant="default" loading={busy} onClick={() => start()}>
            Release
          </Button>
        </div>
      ) : null}
    </section>
  );
}
