/** Owns the renaming of a device: a dialog, and an undo. */
import { TextInput } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { DialogButton, FormDialog } from '../components/dialog.tsx';
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
  const write = useWrite(async () => {
    const { revision } = await put(name.trim(), device.revision);
    close();
    notify(`${before || 'The device'} is now ${name.trim()}.`, () => put(before, revision));
  });
  return (
    <FormDialog
      title={`Rename ${deviceName(device)}`}
      close={close}
      write={write}
      action="Rename"
      disabled={name.trim() === '' || name.trim() === before}
    >
      <TextInput
        label="Name"
        description="Rules name devices by id, so they keep meaning this device."
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        data-autofocus
      />
    </FormDialog>
  );
}

/** The button that renames a device, for its user and for owners. */
export function RenameButton({ device }: { readonly device: Device }): ReactNode {
  const { editDevice } = useRights();
  if (!editDevice(device)) return null;
  return <DialogButton name="Rename" dialog={(close) => <RenameDialog device={device} close={close} />} />;
}
