/** Owns what can be done with a device on its page: a new name, another user, and evidence about it, each as a button with its dialog. */
import { memberChoices } from '../components/filter-bar.tsx';
import { TextInput, Select } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { DialogButton, FormDialog } from '../components/dialog.tsx';
import { notify, useWrite, writeOrAsk } from '../state/write.tsx';
import { deviceName, useRights, useMembers, useNames, useSnapshot } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import type { Line } from '../../client/words/changes.ts';
import { SimulationView, openedIn, useSimulation } from '../change/change-preview.tsx';
import { Lines } from '../components/page.tsx';
import { useNavigate } from '@tanstack/react-router';
import { dayLimits } from '../model/activity.ts';
import { keepEvidence } from '../state/evidence.ts';

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
        data={memberChoices(members)}
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

const dayMs = 86_400_000;
const two = (value: number): string => String(value).padStart(2, '0');

/** A day of local time, as the browser's field has it. */
function dayText(time: number): string {
  const date = new Date(time);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** Letters that every file system takes. */
const fileName = (name: string, from: string, to: string): string =>
  `evidence-${name.replaceAll(/[^\w.-]+/g, '_').slice(0, 80)}-${from}-${to}.json`;

function save(file: string, name: string): void {
  const url = URL.createObjectURL(new Blob([file], { type: 'application/json' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

function EvidenceDialog({ device, close }: { readonly device: Device; readonly close: () => void }): ReactNode {
  const { client } = useSession();
  const navigate = useNavigate();
  const [today] = useState(() => dayText(Date.now()));
  const first = dayText(Date.parse(device.created_at));
  const [from, setFrom] = useState(() => dayText(Math.max(Date.now() - 7 * dayMs, Date.parse(device.created_at))));
  const [to, setTo] = useState(today);
  const name = deviceName(device);
  const isWrong = from === '' || to === '' || from < first || from > to || to > today;
  const write = useWrite(async () => {
    const now = Date.now();
    // Before the device was registered there is nothing to tell, and the history may not go back that far.
    const at = new Date(Math.max(dayLimits(from)[0], Date.parse(device.created_at))).toISOString();
    // The end of the last day, unless that is today.
    const end = new Date(Math.min(dayLimits(to)[1], now)).toISOString();
    const evidence = await client.evidence.create(device.organization_id, device.id, { at, to: end });
    const file = JSON.stringify(evidence, undefined, 2);
    save(file, fileName(name, from, to));
    keepEvidence(file);
    notify('The evidence is downloaded. The activity shows that it was made.');
    close();
    await navigate({ to: '/evidence' });
  });
  return (
    <FormDialog title={`Evidence about ${name}`} close={close} write={write} action="Download" disabled={isWrong}>
      <p>
        A signed file for an auditor: who could reach {name} and whom it could reach, by which rules, who wrote them,
        and what was refused. <code>ringfence evidence verify</code> checks it without a server.
      </p>
      <div className="halves">
        <TextInput
          type="date"
          label="From"
          value={from}
          min={first}
          max={to || today}
          onChange={(event) => setFrom(event.currentTarget.value)}
        />
        <TextInput
          type="date"
          label="To"
          value={to}
          min={from}
          max={today}
          onChange={(event) => setTo(event.currentTarget.value)}
        />
      </div>
      {isWrong ? (
        <p className="fault">
          Choose a first and a last day: not before {first}, when the device was registered, and not after today.
        </p>
      ) : null}
    </FormDialog>
  );
}

/** For owners. The audit records who made evidence, so a read-only sign-in cannot. */
export function EvidenceButton({ device }: { readonly device: Device }): ReactNode {
  const { governs } = useRights();
  if (!governs) return null;
  return <DialogButton name="Evidence" dialog={(close) => <EvidenceDialog device={device} close={close} />} />;
}
