/** Owns taking back a change of a device from the activity: its name, addresses, labels and groups as they were before. */
import type { ReactNode } from 'react';
import type { AuditEntry } from '../../api/audit.ts';
import type { Device, UpdateDevice } from '../../api/device.ts';
import { ChangePreview } from '../change/change-preview.tsx';
import type { Confirmation } from '../components/confirm.tsx';
import { notify } from '../components/toast.tsx';
import { deviceName } from '../state/live.ts';
import { writeOrAsk } from '../state/refusal.ts';
import type { Session } from '../state/session.ts';

/** By name, how the question calls each and what it is where it is absent. */
const fields = {
  hostname: ['name', ''],
  tunnel_ip: ['tunnel address', ''],
  addresses: ['addresses', []],
  labels: ['labels', []],
  security_groups: ['groups', []],
} as const;
const isField = (name: string): name is keyof typeof fields => Object.hasOwn(fields, name);

/** What the entry changed of these fields, as it was before; undefined where it changed none. */
export function deviceWayBack({ operation, before, after, revision }: AuditEntry): UpdateDevice | undefined {
  if (operation !== 'updateDevice' || before === undefined || after === undefined || revision === undefined)
    return undefined;
  const empty = Object.fromEntries(Object.entries(fields).map(([name, [, absent]]) => [name, absent]));
  const old: Readonly<Record<string, unknown>> = { ...empty, ...before };
  const now: Readonly<Record<string, unknown>> = { ...empty, ...after };
  const changed = Object.keys(fields).filter((name) => JSON.stringify(old[name]) !== JSON.stringify(now[name]));
  return changed.length === 0 ? undefined : Object.fromEntries(changed.map((name) => [name, old[name]]));
}

/** The question before it, with what it changes. The device must not have changed after that. */
export function askWayBack(device: Device, back: UpdateDevice, client: Session['client']): Confirmation {
  const { id, organization_id: org, revision } = device;
  const body: ReactNode = (
    <div className="stack">
      <p>
        Its{' '}
        {Object.keys(back)
          .map((name) => (isField(name) ? fields[name][0] : name))
          .join(' and ')}{' '}
        become what they were before this change.
      </p>
      <ChangePreview change={{ devices: [{ id, ...back }] }} />
    </div>
  );
  return {
    title: `Take back the change of ${deviceName(device)}?`,
    isWide: true,
    body,
    action: 'Take it back',
    act: async () => {
      await writeOrAsk((agreed) => client.devices.update(org, id, back, { ifMatch: revision, ...agreed }));
      notify(`The change of ${deviceName(device)} is taken back.`);
    },
  };
}
