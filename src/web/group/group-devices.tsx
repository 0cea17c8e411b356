/** Owns the devices of one group: which it applies to, and attaching or detaching it from this side. */
import { ActionIcon, Checkbox, TextInput } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import { DialogButton, FormDialog } from '../components/dialog.tsx';
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { inForceTitles, mostUrgentFirst } from '../../api/enforcement/in-force.ts';
import { isEnforced } from '../../policy/effective.ts';
import { addPackets, packetsFor, packetWords } from '../../client/words/packets.ts';
import { CrossIcon, PlusIcon } from '../components/icons.tsx';
import { DeviceStateTag, stateTones } from '../device/device-state.tsx';
import { changesFor } from '../model/bulk.ts';
import { groupsOn, type GroupOn } from '../model/device-policy.ts';
import { countDeviceStates, lackingChange } from '../model/device-state.ts';
import { grouped, plural } from '../../client/words/number.ts';
import { deviceName, useSnapshot, useRights, useStatuses } from '../state/organization.ts';
import { writeOrAsk, useWrite, notify } from '../state/write.tsx';
import { useSession } from '../state/session.ts';
import { Tag, Card } from '../components/page.tsx';
import { DeviceLink } from '../components/record-link.tsx';

/** To choose from, and beside the rules, where a long list would push the timeline out of sight. */
const shownDevices = 50;
const shownBeside = 10;

/** What a device has now. */
function groupCount(on: readonly GroupOn[], { id }: SecurityGroup): string {
  if (on.some((one) => one.id === id)) return 'has it by label';
  return on.every(({ by }) => by === 'default') ? 'default group' : plural(on.length, 'group');
}

function Attach({ group, close }: { readonly group: SecurityGroup; readonly close: () => void }): ReactNode {
  const { client } = useSession();
  const { devices, groups, groupById } = useSnapshot();
  const rights = useRights();
  const [text, setText] = useState('');
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const possible = devices.filter(
    (device) =>
      rights.editDevice(device) &&
      rights.attachable(group, device) &&
      !(device.security_groups ?? []).includes(group.id),
  );
  const wanted = text.trim().toLowerCase();
  const shown = possible.filter((device) => `${deviceName(device)} ${device.tunnel_ip}`.toLowerCase().includes(wanted));
  const write = useWrite(async () => {
    const taking = possible.filter((device) => chosen.has(device.id));
    const written: string[] = [];
    for (const set of changesFor({ kind: 'add-group', group: group.id }, taking)) {
      const { change_id } = await writeOrAsk((agreed) => client.changes.apply(group.org_id, set, agreed));
      written.push(change_id);
    }
    close();
    notify(`${group.group_name} applies to ${plural(taking.length, 'more device', 'more devices')}.`, async () => {
      // They may have had the default group, as they will have again: nobody has to be asked about them.
      const reopened = new Set(taking.map(({ id }): string => id));
      for (const id of written.toReversed())
        await writeOrAsk((agreed) => client.changes.revert(group.org_id, id, agreed), { opened: reopened });
    });
  });
  const toggle = (id: string): void => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  return (
    <FormDialog
      title={`Attach ${group.group_name}`}
      close={close}
      write={write}
      action={`Attach to ${plural(chosen.size, 'device')}`}
      disabled={chosen.size === 0}
    >
      <p className="small dimmed">
        {isEnforced(group)
          ? 'On a device without groups, it replaces the default group. Elsewhere it adds to what is admitted.'
          : 'The group is watch only, so nothing changes on these devices.'}
      </p>
      <TextInput
        aria-label="Search devices"
        placeholder="Search"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        data-autofocus
      />
      {shown.length === 0 ? (
        <p className="dimmed">No device that you may change can take it.</p>
      ) : (
        <ul className="rows pick-list scrolls pick-scroll">
          {shown.slice(0, shownDevices).map((device) => (
            <li key={device.id}>
              <Checkbox
                label={deviceName(device)}
                checked={chosen.has(device.id)}
                onChange={() => toggle(device.id)}
                className="grow"
              />
              <span className="small dimmed">{groupCount(groupsOn(device, { groups, groupById }), group)}</span>
            </li>
          ))}
        </ul>
      )}
      {shown.length > shownDevices ? (
        <p className="small dimmed">And {plural(shown.length - shownDevices, 'device')} more: search to find them.</p>
      ) : null}
    </FormDialog>
  );
}

type Statuses = ReturnType<typeof useStatuses>;

/** What the rules matched on all devices that count. */
function Matched({
  group,
  devices,
  statuses,
}: {
  readonly group: SecurityGroup;
  readonly devices: readonly Device[];
  readonly statuses: Statuses;
}): ReactNode {
  const counted = devices.flatMap(({ id }) => packetsFor(group.id, statuses.get(id)?.status) ?? []);
  const sum = addPackets(counted);
  if (sum === undefined) return null;
  return (
    <p className="small" role="group" aria-label="Packets">
      Its rules {group.guardrail === 'forbid' ? 'refused' : 'admitted'} <strong>{packetWords(sum)}</strong>
      <span className="dimmed">
        : first packets of connections, counted by {plural(counted.length, 'device')} while they have it
      </span>
    </p>
  );
}

/** Shows on how many devices the group is in force, and the other states that occur, the most urgent first. */
function RolloutProgress({
  devices,
  statuses,
  lacking,
}: {
  /** Devices that are not known to have the last change. */
  readonly lacking: number;
  readonly devices: readonly Device[];
  readonly statuses: Statuses;
}): ReactNode {
  if (statuses.size === 0) return <p className="small dimmed">Loading their state…</p>;
  const counts = countDeviceStates(devices, statuses);
  const rest = mostUrgentFirst.filter((word) => word !== 'yes' && counts[word] > 0);
  return (
    <div className="stack tight" role="status" aria-label="Rollout">
      <p className="small">
        In force on <strong>{grouped(counts.yes)}</strong> of {plural(devices.length, 'device')}
        {lacking === 0 ? '' : `; ${plural(lacking, 'device')} without the last change`}
      </p>
      <progress className="rollout" value={counts.yes} max={devices.length} aria-hidden="true" />
      <span className="tags">
        {rest.map((word) => (
          <Tag key={word} tone={stateTones[word]}>
            {grouped(counts[word])} {inForceTitles[word]}
          </Tag>
        ))}
      </span>
    </div>
  );
}

export function GroupDevices({
  group,
  devices,
}: {
  readonly group: SecurityGroup;
  readonly devices: readonly Device[];
}): ReactNode {
  const { client } = useSession();
  const rights = useRights();
  const statuses = useStatuses();
  const org = group.org_id;
  const behind = isEnforced(group) && statuses.size > 0 ? lackingChange(group, devices, statuses) : [];
  const lacking = new Set(behind.map(({ id }) => id));
  /** Those without the last change come first. */
  const listed = [...behind, ...devices.filter(({ id }) => !lacking.has(id))];
  const isDefault = group.is_default === true;
  const put = (id: string, security_groups: readonly string[], ifMatch: number): Promise<Device> =>
    writeOrAsk((agreed) => client.devices.update(org, id, { security_groups }, { ifMatch, ...agreed }));
  const { start: detach } = useWrite(async (device: Device) => {
    const { id, security_groups: list = [] } = device;
    const rest = list.filter((one) => one !== group.id);
    const { revision } = await put(id, rest, device.revision);
    notify(
      `${group.group_name} is off ${deviceName(device)}${rest.length === 0 && isEnforced(group) ? '; the default group applies there again' : ''}.`,
      () => put(id, list, revision),
    );
  }, 'Something went wrong');
  return (
    <Card
      title="Devices"
      about={<Tag tone={devices.length > 0 ? 'accent' : 'plain'}>{plural(devices.length, 'device')}</Tag>}
    >
      <div className="card-body stack">
        <p className="small dimmed">
          {isDefault
            ? 'Every device without groups. It applies by itself and cannot be attached.'
            : devices.length === 0
              ? 'No device uses it, so it changes nothing yet.'
              : !isEnforced(group)
                ? 'Devices that would have this group. It is watch only and decides nothing there.'
                : group.guardrail !== undefined
                  ? 'Devices that this guardrail binds, beside whatever groups they have.'
                  : 'Devices that use this group. The default group does not apply to them.'}
        </p>
        {isEnforced(group) ? (
          <>
            {devices.length === 0 ? null : (
              <RolloutProgress devices={devices} statuses={statuses} lacking={behind.length} />
            )}
            <Matched group={group} devices={devices} statuses={statuses} />
          </>
        ) : null}
        {devices.length === 0 ? null : (
          <ul className="rows pick-list">
            {listed.slice(0, shownBeside).map((device) => (
              <li key={device.id}>
                <DeviceLink className="plain-link clip grow" id={device.id}>
                  {deviceName(device)}
                </DeviceLink>
                {lacking.has(device.id) ? <DeviceStateTag status={statuses.get(device.id)} /> : null}
                {isDefault || (device.security_groups ?? []).includes(group.id) ? null : <Tag>by label</Tag>}
                {!(device.security_groups ?? []).includes(group.id) || !rights.editDevice(device) ? null : (
                  <ActionIcon aria-label={`Detach from ${deviceName(device)}`} onClick={() => detach(device)}>
                    <CrossIcon size={16} />
                  </ActionIcon>
                )}
              </li>
            ))}
          </ul>
        )}
        {devices.length > shownBeside ? (
          <Link className="link small" to="/o/$org/devices" params={{ org }} search={{ group: group.id }}>
            All {grouped(devices.length)} of them
          </Link>
        ) : null}
        {isDefault || group.guardrail !== undefined || !rights.mayWrite ? null : (
          <DialogButton
            name="Attach to devices"
            leftSection={<PlusIcon size={16} />}
            dialog={(close) => <Attach group={group} close={close} />}
          />
        )}
      </div>
    </Card>
  );
}
