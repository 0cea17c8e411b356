/** Owns taking back a change of a device from the activity: its name, labels and groups as they were before. */
import type { ReactNode } from 'react';
import type { AuditEntry } from '../../api/audit.ts';
import type { Device, UpdateDevice } from '../../api/device.ts';
import { ChangePreview } from '../change/change-preview.tsx';
import type { Confirmation } from '../components/confirm.tsx';
import { notify } from '../components/toast.tsx';
import { deviceName } from '../state/live.ts';
import { writeOrAsk } from '../state/refusal.ts';
import type { Session } from '../state/session.ts';

const fields = ['hostname', 'labels', 'security_groups'] as const;

/** What the entry changed of these fields, as it was before; undefined where it changed none. */
export function deviceWayBack({ operation, before, after, revision }: AuditEntry): UpdateDevice | undefined {
  if (operation !== 'updateDevice' || before === undefined || after === undefined || revision === undefined)
    return undefined;
  const empty = { hostname: '', labels: [], security_groups: [] };
  const old = { ...empty, ...before };
  const now = { ...empty, ...after };
  const changed = fields.filter((name) => JSON.stringify(old[name]) !== JSON.stringify(now[name]));
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
          .map((name) => (name === 'security_groups' ? 'groups' : name === 'hostname' ? 'name' : name))
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
