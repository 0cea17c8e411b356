/** Owns one change to many devices: what it means for each, and writing it as one change set, all of it or nothing. */
import type { ChangeSetBody } from '../../api/change/change-set.ts';
import type { Device } from '../../api/device.ts';
import { limits } from '../../api/limits.ts';
import { RingfenceError } from '../../client/error.ts';
import type { GroupId } from '../../policy/ids.ts';

export type BulkAction =
  | { readonly kind: 'add-group' | 'remove-group'; readonly group: GroupId }
  | { readonly kind: 'add-labels' | 'remove-labels'; readonly labels: readonly string[] }
  | { readonly kind: 'delete' };

type DevicePatch = { readonly security_groups: GroupId[] } | { readonly labels: string[] };

/** What has to be written to the device; undefined where it is as wished already. */
export function patchFor(action: Exclude<BulkAction, { kind: 'delete' }>, device: Device): DevicePatch | undefined {
  const { security_groups: groups = [], labels = [] } = device;
  switch (action.kind) {
    case 'add-group':
      return groups.includes(action.group) ? undefined : { security_groups: [...groups, action.group] };
    case 'remove-group': {
      const rest = groups.filter((id) => id !== action.group);
      return rest.length === groups.length ? undefined : { security_groups: rest };
    }
    case 'add-labels': {
      const all = [...new Set([...labels, ...action.labels])].toSorted();
      return all.length === labels.length ? undefined : { labels: all };
    }
    case 'remove-labels': {
      const rest = labels.filter((label) => !action.labels.includes(label));
      return rest.length === labels.length ? undefined : { labels: rest };
    }
    default:
      return action satisfies never;
  }
}

/** How a change of devices is written. */
export interface BulkWrites {
  /** All devices as they are now. */
  read(): Promise<readonly Device[]>;
  /** All of it or nothing. */
  apply(change: ChangeSetBody): Promise<unknown>;
}

/** The change of these devices as one change set; undefined where all are as wished already. */
function changeOf(action: BulkAction, devices: readonly Device[]): ChangeSetBody | undefined {
  if (action.kind === 'delete') return devices.length === 0 ? undefined : { delete: devices.map(({ id }) => id) };
  const changed = devices.flatMap((device) => {
    const patch = patchFor(action, device);
    return patch === undefined ? [] : [{ id: device.id, revision: device.revision, ...patch }];
  });
  return changed.length === 0 ? undefined : { devices: changed };
}

export interface Outcome {
  readonly device: Device;
  readonly result: 'done' | 'unchanged' | 'failed' | 'stopped';
  readonly error?: unknown;
}

export interface BulkRun {
  readonly action: BulkAction;
  readonly devices: readonly Device[];
  readonly writes: BulkWrites;
  readonly pause: (milliseconds: number) => Promise<void>;
  readonly onOutcome: (outcome: Outcome) => void;
  /** No further change set is begun once it is aborted. */
  readonly signal: AbortSignal;
}

/** An overloaded server is asked again so often, after waits that grow; and so often a change is made to what others wrote meanwhile. */
const mostRetries = 6;
const firstWait = 500;

/** Writes one change set and tells whom it changed. What others wrote to a device meanwhile is read, and the change made to that. */
async function changeTogether(
  devices: readonly Device[],
  { action, writes, pause }: Pick<BulkRun, 'action' | 'writes' | 'pause'>,
): Promise<readonly Outcome[]> {
  let current = devices;
  for (let tries = 0; ; tries += 1) {
    const change = changeOf(action, current);
    const changed = new Set<string>(change?.delete ?? change?.devices?.map(({ id }) => id));
    // A device that is gone: nobody but a deletion wishes that.
    const isDone = ({ id }: Device): boolean => changed.has(id) || action.kind === 'delete';
    try {
      if (change !== undefined) await writes.apply(change);
      return devices.map((device) => ({ device, result: isDone(device) ? 'done' : 'unchanged' }));
    } catch (error) {
      const isConflict = error instanceof RingfenceError && error.code === 'precondition_failed';
      const isPassing = error instanceof RingfenceError && error.retryable;
      if (tries >= mostRetries || !(isConflict || isPassing))
        return devices.map((device) => ({ device, result: 'failed', error }));
      if (isPassing) await pause(error.retryAfter ?? firstWait * 2 ** tries);
      // The answer may have been lost after the write: what is as wished by now is not written again.
      const now = new Map((await writes.read().catch(() => current)).map((device) => [device.id, device]));
      current = devices.flatMap(({ id }) => now.get(id) ?? []);
    }
  }
}

/** Changes the devices in one change set; more than one may hold in several, each of which is written as a whole. Never fails. */
export async function runBulk({ devices, onOutcome, signal, ...run }: BulkRun): Promise<void> {
  for (let start = 0; start < devices.length; start += limits.changeSetRecords) {
    const part = devices.slice(start, start + limits.changeSetRecords);
    const outcomes = signal.aborted
      ? part.map((device): Outcome => ({ device, result: 'stopped' }))
      : await changeTogether(part, run);
    for (const outcome of outcomes) onOutcome(outcome);
  }
}
