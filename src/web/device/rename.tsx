/** Owns the renaming of a device: a dialog, and an undo. */
import { Button, Modal, TextInput } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { DialogButton } from '../components/dialog.tsx';
import { DialogFoot } from '../components/dialog-foot.tsx';
import { notify } from '../components/toast.tsx';
import { deviceName } from '../state/live.ts';
import { useRights } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { useWrite } from '../state/write.ts';

function RenameDialog({ device, close }: { readonly device: Device; readonly close: () => void }): ReactNode {
  const { client } = useSession();
  const { organization_id: org, id, hostname: before } = device;
  const [name, setName] = useState(before);
  const put = (hostname: string, ifMatch: number): Promise<Device> =>
    client.devices.update(org, id, { hostname }, { ifMatch });
  const { submit, busy, fault } = useWrite(async () => {
    const { revision } = await put(name.trim(), device.revision);
    close();
    notify(`${before || 'The device'} is now ${name.trim()}.`, () => put(before, revision));
  });
  return (
    <Modal opened onClose={close} title={`Rename ${deviceName(device)}`}>
      <form className="stack" onSubmit={submit}>
        <TextInput
          label="Name"
          description="Rules name devices by id, so they keep meaning this device."
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          data-autofocus
        />
        <DialogFoot fault={fault} cancel={close}>
          <Button type="submit" loading={busy} disabled={name.trim() === '' || name.trim() === before}>
            Rename
          </Button>
        </DialogFoot>
      </form>
    </Modal>
  );
}

/** The button that renames a device, for its user and for owners. */
export function RenameButton({ device }: { readonly device: Device }): ReactNode {
  const { editDevice } = useRights();
  if (!editDevice(device)) return null;
  return <DialogButton name="Rename">{(close) => <RenameDialog device={device} close={close} />}</DialogButton>;
}
