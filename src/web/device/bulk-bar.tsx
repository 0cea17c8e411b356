/** Owns the actions on selected devices: a bar at the foot of the page, and for each action a dialog with what to change, who gains and loses what by it, and the write as one. */
import { Button, CloseButton, Menu, Select } from '@mantine/core';
import { useState, useMemo, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { DownIcon, TrashIcon } from '../components/icons.tsx';
import { changesFor, patchFor, type BulkAction } from '../model/bulk.ts';
import { grouped, plural } from '../../client/words/number.ts';
import { useRights, deviceName, useLive, useNames, useSnapshot, type Rights } from '../state/organization.ts';
import { limits } from '../../api/limits.ts';
import { SimulationView, openedIn, useSimulation } from '../change/change-preview.tsx';
import { dangerous, Dialog, DialogFoot } from '../components/dialog.tsx';
import { sentence } from '../components/sentence.ts';
import { notify, writeOrAsk, useWrite } from '../state/write.tsx';
import { groupLabel, countLabels, labelFault } from '../model/far-end.ts';
import { useSession } from '../state/session.ts';
import { LabelInput } from '../group/far-end-input.tsx';

type BulkKind = BulkAction['kind'];

export function BulkBar({
  devices,
  hidden,
  clear,
}: {
  readonly devices: readonly Device[];
  /** How many of them the filters hide. */
  readonly hidden: number;
  readonly clear: () => void;
}): ReactNode {
  const { governs } = useRights();
  const [kind, setKind] = useState<BulkKind>();
  return (
    <>
      {devices.length === 0 ? null : (
        <section className="save-bar" aria-label="Selected devices">
          <span className="grow">
            <strong>{plural(devices.length, 'device')} selected</strong>
            {hidden === 0 ? null : <span className="small dimmed"> · {grouped(hidden)} not in sight</span>}
          </span>
          <Menu position="top-end">
            <Menu.Target>
              <Button variant="default" rightSection={<DownIcon size={14} />}>
                Groups
              </Button>
            </Menu.Target>
            <Menu.Dropdown>
              <Menu.Item onClick={() => setKind('add-group')}>Add a group…</Menu.Item>
              <Menu.Item onClick={() => setKind('remove-group')}>Remove a group…</Menu.Item>
            </Menu.Dropdown>
          </Menu>
          {governs ? (
            <Menu position="top-end">
              <Menu.Target>
                <Button variant="default" rightSection={<DownIcon size={14} />}>
                  Labels
                </Button>
              </Menu.Target>
              <Menu.Dropdown>
                <Menu.Item onClick={() => setKind('add-labels')}>Add labels…</Menu.Item>
                <Menu.Item onClick={() => setKind('remove-labels')}>Remove labels…</Menu.Item>
              </Menu.Dropdown>
            </Menu>
          ) : null}
          <Button
            variant="default"
            className="danger"
            leftSection={<TrashIcon size={16} />}
            onClick={() => setKind('delete')}
          >
            Delete
          </Button>
          <CloseButton aria-label="Clear the selection" onClick={clear} />
        </section>
      )}
      {kind === undefined ? null : (
        <BulkDialog kind={kind} selected={devices} close={() => setKind(undefined)} finished={clear} />
      )}
    </>
  );
}

type Kind = BulkAction['kind'];

interface Words {
  /** "Add a group to 3 devices" */
  readonly title: (count: string) => string;
  readonly button: (count: string) => string;
  readonly done: string;
}
const words: { readonly [K in Kind]: Words } = {
  'add-group': {
    title: (count) => `Add a group to ${count}`,
    button: (count) => `Add to ${count}`,
    done: 'The group is added to',
  },
  'remove-group': {
    title: (count) => `Remove a group from ${count}`,
    button: (count) => `Remove from ${count}`,
    done: 'The group is removed from',
  },
  'add-labels': {
    title: (count) => `Add labels to ${count}`,
    button: (count) => `Add to ${count}`,
    done: 'The labels are added to',
  },
  'remove-labels': {
    title: (count) => `Remove labels from ${count}`,
    button: (count) => `Remove from ${count}`,
    done: 'The labels are removed from',
  },
  delete: {
    title: (count) => `Delete ${count}?`,
    button: (count) => `Delete ${count}`,
    done: 'Deleted:',
  },
};

/** Of those that are selected, whom the person may change in this way. */
function mayChange(rights: Rights, kind: Kind, device: Device): boolean {
  return kind === 'add-labels' || kind === 'remove-labels' ? rights.governs : rights.editDevice(device);
}

const namesOf = (devices: readonly Device[]): string => {
  const shown = devices.slice(0, 5).map(deviceName).join(', ');
  return devices.length > 5 ? `${shown} and ${grouped(devices.length - 5)} more` : shown;
};

/** Devices that are shown with their users and ids: users choose names, and a label is a right. */
const mostListed = 100;

/** Which devices it is about, where the title does not say enough. */
function Subjects({
  action,
  devices,
}: {
  readonly action: BulkAction;
  readonly devices: readonly Device[];
}): ReactNode {
  const userName = useNames();
  if (action.kind === 'delete') {
    return (
      <>
        <p>{namesOf(devices)}</p>
        <p>A deleted device loses its credentials: to come back, it must join again. This cannot be undone.</p>
      </>
    );
  }
  const already = devices.filter((device) => patchFor(action, device) === undefined).length;
  const isAboutLabels = action.kind === 'add-labels' || action.kind === 'remove-labels';
  return (
    <>
      {isAboutLabels ? (
        <ul className="rows pick-list scrolls pick-scroll" aria-label="Devices">
          {devices.slice(0, mostListed).map((device) => (
            <li key={device.id}>
              <strong className="clip">{deviceName(device)}</strong>
              <span className="small dimmed grow">
                {userName(device.user_id)}, {device.id}
              </span>
            </li>
          ))}
          {devices.length > mostListed ? <li>and {grouped(devices.length - mostListed)} more</li> : null}
        </ul>
      ) : null}
      {already === 0 ? null : (
        <p className="small dimmed">
          {plural(already, 'device')} {already === 1 ? 'is' : 'are'} so already and {already === 1 ? 'stays' : 'stay'}{' '}
          unchanged.
        </p>
      )}
    </>
  );
}

/** The action is chosen: what it does, and the button that does it. */
function Ready({
  action,
  devices,
  close,
  finished,
}: {
  readonly action: BulkAction;
  readonly devices: readonly Device[];
  readonly close: () => void;
  readonly finished: () => void;
}): ReactNode {
  const { client } = useSession();
  const { id: org } = useLive();
  const sets = useMemo(() => changesFor(action, devices), [action, devices]);
  const [first = {}] = sets;
  const asked = useSimulation(first);
  const { button, done } = words[action.kind];
  const { start, busy, fault } = useWrite(async () => {
    const written: string[] = [];
    try {
      for (const set of sets) {
        const { change_id } = await writeOrAsk((agreed) => client.changes.apply(org, set, agreed), {
          opened: openedIn(asked.simulation),
        });
        written.push(change_id);
      }
    } catch (error) {
      if (written.length === 0) throw error;
      throw new Error(`The first ${grouped(written.length * limits.changeSetRecords)} are done. ${sentence(error)}`, {
        cause: error,
      });
    }
    // These devices may have had the default group, as they will have again: nobody has to be asked about them.
    const opened = new Set(devices.map(({ id }): string => id));
    const undo = async (): Promise<void> => {
      for (const id of written.toReversed())
        await writeOrAsk((agreed) => client.changes.revert(org, id, agreed), { opened });
    };
    notify(`${done} ${plural(devices.length, 'device')}.`, action.kind === 'delete' ? undefined : undo);
    finished();
    close();
  });
  return (
    <>
      <Subjects action={action} devices={devices} />
      <SimulationView asked={asked} />
      {sets.length > 1 ? (
        <p className="small dimmed">
          The preview is about the first {grouped(limits.changeSetRecords)} devices. The others follow in changes of{' '}
          {grouped(limits.changeSetRecords)} devices each.
        </p>
      ) : null}
      <DialogFoot fault={fault} cancel={close}>
        <Button
          {...(action.kind === 'delete' && dangerous)}
          disabled={sets.length === 0}
          loading={busy}
          onClick={() => start()}
        >
          {button(plural(devices.length, 'device'))}
        </Button>
      </DialogFoot>
    </>
  );
}

function BulkDialog({
  kind,
  selected,
  close,
  finished,
}: {
  readonly kind: Kind;
  readonly selected: readonly Device[];
  readonly close: () => void;
  /** Everything that was asked is done. */
  readonly finished: () => void;
}): ReactNode {
  const { groups } = useSnapshot();
  const rights = useRights();
  const [group, setGroup] = useState<string | null>(null);
  const [labels, setLabels] = useState<readonly string[]>([]);
  const chosenGroup = groups.find(({ id }) => id === group);
  const mine = selected.filter((device) => mayChange(rights, kind, device));
  const devices =
    kind === 'add-group' && chosenGroup !== undefined
      ? mine.filter((device) => rights.attachable(chosenGroup, device))
      : mine;
  const others = selected.length - devices.length;
  const fault = kind === 'add-labels' ? labelFault(labels) : undefined;
  const action = useMemo((): BulkAction | undefined => {
    if (kind === 'delete') return { kind };
    if (kind === 'add-group' || kind === 'remove-group')
      return chosenGroup === undefined ? undefined : { kind, group: chosenGroup.id };
    return labels.length === 0 || fault !== undefined ? undefined : { kind, labels };
  }, [kind, chosenGroup, labels, fault]);
  const groupChoices = groups.filter((one) =>
    kind === 'add-group'
      ? mine.some((device) => rights.attachable(one, device))
      : mine.some(({ security_groups = [] }) => security_groups.includes(one.id)),
  );
  const count = plural(devices.length, 'device');
  return (
    <Dialog close={close} title={words[kind].title(count)} size="xl">
      <div className="stack">
        {kind === 'delete' ? null : kind === 'add-group' || kind === 'remove-group' ? (
          <Select
            label="Group"
            placeholder={groupChoices.length === 0 ? 'None of them has a group of its own' : 'Choose a group'}
            searchable
            data={groupChoices.map((one) => ({ value: one.id, label: groupLabel(one, groups) }))}
            value={group}
            onChange={setGroup}
            data-autofocus
          />
        ) : kind === 'add-labels' ? (
          <LabelInput label="Labels" labels={labels} onChange={setLabels} error={fault} />
        ) : (
          <Select
            label="Label"
            placeholder="Choose a label"
            searchable
            data={[...countLabels(mine)].map(([value, carried]) => ({ value, label: `${value} (${carried})` }))}
            value={labels[0] ?? null}
            onChange={(label) => setLabels(label === null ? [] : [label])}
            data-autofocus
          />
        )}
        {others === 0 ? null : (
          <p className="small dimmed">
            {plural(others, 'selected device')} cannot be changed in this way and {others === 1 ? 'stays' : 'stay'} as{' '}
            {others === 1 ? 'it is' : 'they are'}.
          </p>
        )}
        {action === undefined || devices.length === 0 ? (
          <DialogFoot cancel={close}>
            <Button disabled>{words[kind].button(count)}</Button>
          </DialogFoot>
        ) : (
          <Ready action={action} devices={devices} close={close} finished={finished} />
        )}
      </div>
    </Dialog>
  );
}
