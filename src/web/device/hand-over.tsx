/** Owns the handing over of a device to another member: a dialog that shows which groups leave and what that changes. */
import { Select } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import type { Line } from '../../client/words/changes.ts';
import { SimulationView } from '../change/change-preview.tsx';
import { openedIn, useSimulation } from '../change/simulation.ts';
import { DialogButton, FormDialog } from '../components/dialog.tsx';
import { Lines } from '../components/lines.tsx';
import { notify } from '../components/toast.tsx';
import { deviceName } from '../state/live.ts';
import { useMembers, useNames, useRights, useSnapshot } from '../state/organization.ts';
import { writeOrAsk } from '../state/refusal.ts';
import { useSession } from '../state/session.ts';
import { useWrite } from '../state/write.ts';

function HandOverDialog({ device, close }: { readonly device: Device; readonly close: () => void }): ReactNode {
  const { client } = useSession();
  const { organization_id: org, id, user_id: before, security_groups: list = [], revision } = device;
  const { groupById } = useSnapshot();
  const nameOf = useNames();
  const members = (useMembers().data ?? []).filter(({ user_id }) => user_id !== before);
  const [to, setTo] = useState<string | null>(null);
  /** What its user wrote leaves with the user; so does a group that only its user can see. */
  const stays = list.filter((group) => groupById.has(group) && groupById.get(group)?.user_id !== before);
  const lines: readonly Line[] = list
    .filter((group) => !stays.includes(group))
    .map((group) => [
      '-',
      `${deviceName(device)} leaves ${groupById.has(group) ? `group ${groupById.get(group)?.group_name}` : 'a group that only its user sees'}`,
    ]);
  const asked = useSimulation({ devices: [{ id, security_groups: stays }] });
  const opened = openedIn(asked.simulation);
  const write = useWrite(async () => {
    const user = members.find(({ user_id }) => user_id === to);
    if (user === undefined) return;
    const { user_id, username } = user;
    const move = { ifMatch: revision };
    await writeOrAsk((agreed) => client.devices.move(org, id, { user_id }, { ...move, ...agreed }), { opened });
    close();
    notify(`${deviceName(device)} belongs to ${username} now.`);
  });
  return (
    <FormDialog
      title={`Hand over ${deviceName(device)}?`}
      size="xl"
      close={close}
      write={write}
      action="Hand it over"
      danger={opened.size > 0}
      disabled={to === null}
    >
      <Select
        label="New user"
        description={`Now it belongs to ${nameOf(before)}. Its user may rename it, choose its groups and delete it.`}
        placeholder="Choose a member"
        searchable
        required
        data={members.map(({ user_id, username }) => ({ value: user_id, label: username }))}
        value={to}
        onChange={setTo}
      />
      {lines.length === 0 ? null : <Lines lines={lines} />}
      <SimulationView asked={asked} />
      <p className="note note-plain">
        The device's token stays valid, also for anyone who copied it, until the new user rotates it under “Your
        tokens”.
      </p>
    </FormDialog>
  );
}

/** The button that gives a device to another member, for owners. */
export function HandOverButton({ device }: { readonly device: Device }): ReactNode {
  const { governs } = useRights();
  if (!governs) return null;
  return <DialogButton name="Hand over" dialog={(close) => <HandOverDialog device={device} close={close} />} />;
}
