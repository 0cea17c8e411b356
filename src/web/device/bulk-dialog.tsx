/** Owns the dialog for one change to many devices: the choice, the affected devices, the progress, and the failures. */
import { Button, Modal, Progress, Select } from '@mantine/core';
import { useMemo, useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { sleep, systemClock } from '../../client/clock.ts';
import { RingfenceError } from '../../client/error.ts';
import { sentence } from '../components/sentence.ts';
import { notify } from '../components/toast.tsx';
import { patchFor, runBulk, type BulkAction, type Outcome } from '../model/bulk.ts';
import { groupLabel } from '../model/group-label.ts';
import { groupsOn } from '../model/device-policy.ts';
import { countLabels, labelFault } from '../model/labels.ts';
import { grouped } from '../model/number.ts';
import { plural } from '../model/rule-text.ts';
import { deviceName } from '../state/live.ts';
import { useLive, useNames, useRights, useSnapshot, type Rights } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { LabelInput } from './label-input.tsx';

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

/** The devices that would be left with the default group. */
function openedBy(
  action: BulkAction,
  devices: readonly Device[],
  policy: Parameters<typeof groupsOn>[0],
): readonly Device[] {
  if (action.kind !== 'remove-group' && action.kind !== 'remove-labels') return [];
  const groupsOf = groupsOn(policy);
  return devices.filter((device) => {
    const patch = patchFor(action, device);
    return patch !== undefined && groupsOf({ ...device, ...patch }).some(({ by }) => by === 'default');
  });
}

/** Devices that are shown with their users and ids: users choose names, and a label is a right. */
const mostListed = 100;

/** What the change does beyond what its name says. */
function Consequence({
  action,
  devices,
}: {
  readonly action: BulkAction;
  readonly devices: readonly Device[];
}): ReactNode {
  const { groups, groupById, defaultGroup } = useSnapshot();
  const userName = useNames();
  if (action.kind === 'delete') {
    return (
      <>
        <p>{namesOf(devices)}</p>
        <p>
          Their agents lose their credentials, and other devices stop admitting them by name. To come back, they must
          join anew. This cannot be undone.
        </p>
      </>
    );
  }
  const onDefault = openedBy(action, devices, { groups, groupById, defaultGroup });
  const already = devices.filter((device) => patchFor(action, device) === undefined).length;
  const isAboutLabels = action.kind === 'add-labels' || action.kind === 'remove-labels';
  return (
    <>
      {isAboutLabels ? (
        <ul className="pick-list scrolls pick-scroll" aria-label="Devices">
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
      {onDefault.length === 0 ? null : (
        <p className="note note-warn">
          The default group {defaultGroup?.group_name} applies to {plural(onDefault.length, 'device')} afterwards:{' '}
          {namesOf(onDefault)}.
        </p>
      )}
    </>
  );
}

function Report({
  outcomes,
  again,
  close,
}: {
  readonly outcomes: readonly Outcome[];
  readonly again: (devices: readonly Device[]) => void;
  readonly close: () => void;
}): ReactNode {
  const failed = outcomes.filter(({ result }) => result === 'failed');
  const stopped = outcomes.filter(({ result }) => result === 'stopped');
  const open = [...failed, ...stopped].map(({ device }) => device);
  return (
    <div className="stack">
      <p role="status">
        {plural(outcomes.length - open.length, 'device')} done
        {failed.length === 0 ? '' : `, ${grouped(failed.length)} failed`}
        {stopped.length === 0 ? '' : `, ${grouped(stopped.length)} not tried`}. Nothing else was changed.
      </p>
      {failed.length === 0 ? null : (
        <ul className="pick-list scrolls pick-scroll" aria-label="What did not work">
          {failed.map(({ device, error }) => (
            <li key={device.id}>
              <strong className="clip">{deviceName(device)}</strong>
              <span className="small fault grow">{sentence(error)}</span>
            </li>
          ))}
        </ul>
      )}
      <div className="row end">
        <Button variant="default" onClick={close}>
          Close
        </Button>
        <Button onClick={() => again(open)}>Try {plural(open.length, 'device')} again</Button>
      </div>
    </div>
  );
}

/** Whether the refusal is about devices that the dialog has shown, and about no others. */
const isShown = (error: unknown, shown: ReadonlySet<string>): boolean =>
  error instanceof RingfenceError &&
  error.code === 'would_open' &&
  error.devices.every((id) => shown.has(id)) &&
  error.devices.length + error.moreDevices <= shown.size;

/** How far it is; undefined while it has not begun. */
interface Run {
  readonly total: number;
  readonly outcomes: readonly Outcome[];
  readonly isOver: boolean;
  readonly stop: () => void;
}

export function BulkDialog({
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
  const { client } = useSession();
  const { id: org } = useLive();
  const { groups, groupById, defaultGroup } = useSnapshot();
  const rights = useRights();
  const [group, setGroup] = useState<string | null>(null);
  const [labels, setLabels] = useState<readonly string[]>([]);
  const [run, setRun] = useState<Run>();
  /** As they were selected: deleting them takes them out of the selection one by one. */
  const [devices] = useState(() => selected.filter((device) => mayChange(rights, kind, device)));
  const others = selected.length - devices.length;

  const chosenGroup = groups.find(({ id }) => id === group);
  const fault = kind === 'add-labels' ? labelFault(labels) : undefined;
  const action = useMemo((): BulkAction | undefined => {
    if (kind === 'delete') return { kind };
    if (kind === 'add-group' || kind === 'remove-group')
      return chosenGroup === undefined ? undefined : { kind, group: chosenGroup.id };
    return labels.length === 0 || fault !== undefined ? undefined : { kind, labels };
  }, [kind, chosenGroup, labels, fault]);
  const groupChoices = groups.filter((one) =>
    kind === 'add-group'
      ? devices.some((device) => rights.attachable(one, device))
      : devices.some(({ security_groups = [] }) => security_groups.includes(one.id)),
  );

  const start = (whom: readonly Device[]): void => {
    if (action === undefined) return;
    // These stand in the dialog that the person has just confirmed; others that would open are refused.
    const shown = new Set<string>(openedBy(action, whom, { groups, groupById, defaultGroup }).map(({ id }) => id));
    const stopping = new AbortController();
    const outcomes: Outcome[] = [];
    const show = (isOver: boolean): void =>
      setRun({ total: whom.length, outcomes: [...outcomes], isOver, stop: () => stopping.abort() });
    show(false);
    void runBulk({
      action,
      devices: whom,
      signal: stopping.signal,
      pause: (ms) => sleep(systemClock, ms, stopping.signal).catch(() => undefined),
      onOutcome: (outcome) => {
        outcomes.push(outcome);
        show(false);
      },
      writes: {
        read: () => client.devices.list(org),
        apply: async (change) => {
          try {
            return await client.changes.apply(org, change);
          } catch (error) {
            if (!isShown(error, shown)) throw error;
            return client.changes.apply(org, change, { detach: true });
          }
        },
      },
    }).then(() => {
      if (outcomes.some(({ result }) => result === 'failed' || result === 'stopped')) return show(true);
      notify(`${words[kind].done} ${plural(whom.length, 'device')}.`);
      finished();
      return close();
    });
  };
  const count = plural(devices.length, 'device');
  const isRunning = run !== undefined && !run.isOver;
  return (
    <Modal
      opened
      onClose={isRunning ? () => undefined : close}
      title={words[kind].title(count)}
      closeButtonProps={{ 'aria-label': 'Close', disabled: isRunning }}
    >
      {run?.isOver === true ? (
        <Report outcomes={run.outcomes} again={start} close={close} />
      ) : (
        <div className="stack">
          {run !== undefined || kind === 'delete' ? null : kind === 'add-group' || kind === 'remove-group' ? (
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
              data={[...countLabels(devices)].map(([value, carried]) => ({ value, label: `${value} (${carried})` }))}
              value={labels[0] ?? null}
              onChange={(label) => setLabels(label === null ? [] : [label])}
              data-autofocus
            />
          )}
          {run !== undefined || others === 0 ? null : (
            <p className="small dimmed">
              {plural(others, 'selected device')} {others === 1 ? 'is' : 'are'} not yours to change and{' '}
              {others === 1 ? 'stays' : 'stay'} as {others === 1 ? 'it is' : 'they are'}.
            </p>
          )}
          {run !== undefined || action === undefined ? null : <Consequence action={action} devices={devices} />}
          {run === undefined ? null : (
            <>
              <p role="status">
                {grouped(run.outcomes.length)} of {plural(run.total, 'device')} done
              </p>
              <Progress value={(100 * run.outcomes.length) / run.total} aria-label="Progress" />
            </>
          )}
          <div className="row end">
            <Button variant="default" onClick={run === undefined ? close : run.stop}>
              {run === undefined ? 'Cancel' : 'Stop'}
            </Button>
            <Button
              {...(kind === 'delete' && { color: 'red.9' })}
              disabled={action === undefined || devices.length === 0}
              loading={isRunning}
              onClick={() => start(devices)}
            >
              {words[kind].button(count)}
            </Button>
          </div>
        </div>
      )}
    </Modal>
  );
}
