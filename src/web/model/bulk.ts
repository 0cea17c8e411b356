/** Owns one change to many devices: its effect on each, and a run in which a failure in the middle loses nothing. */
import type { Device } from '../../api/device.ts';
import { RingfenceError } from '../../client/error.ts';
import type { GroupId } from '../../policy/ids.ts';

export type BulkAction =
  | { readonly kind: 'add-group' | 'remove-group'; readonly group: GroupId }
  | { readonly kind: 'add-labels' | 'remove-labels'; readonly labels: readonly string[] }
  | { readonly kind: 'delete' };

export type DevicePatch = { readonly security_groups: GroupId[] } | { readonly labels: string[] };

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

export interface DeviceWrites {
  get(id: string): Promise<Device>;
  update(id: string, patch: DevicePatch, revision: number): Promise<unknown>;
  delete(id: string): Promise<unknown>;
}

/** Others may change the same device meanwhile: what they wrote is read, and the change made to that. */
const mostConflicts = 5;

async function changeOne(action: BulkAction, device: Device, writes: DeviceWrites): Promise<'done' | 'unchanged'> {
  if (action.kind === 'delete') {
    await writes.delete(device.id);
    return 'done';
  }
  let current = device;
  for (let conflicts = 0; ; conflicts += 1) {
    const patch = patchFor(action, current);
    if (patch === undefined) return 'unchanged';
    try {
      await writes.update(current.id, patch, current.revision);
      return 'done';
    } catch (error) {
      const isConflict = error instanceof RingfenceError && error.code === 'precondition_failed';
      if (!isConflict || conflicts >= mostConflicts) throw error;
      current = await writes.get(device.id);
    }
  }
}

export interface Outcome {
  readonly device: Device;
  readonly result: 'done' | 'unchanged' | 'failed' | 'stopped';
  readonly error?: unknown;
}

export interface BulkRun {
  readonly action: BulkAction;
  readonly devices: readonly Device[];
  readonly writes: DeviceWrites;
  readonly pause: (milliseconds: number) => Promise<void>;
  readonly onOutcome: (outcome: Outcome) => void;
  /** No further device is begun once it is aborted. */
  readonly signal: AbortSignal;
}

/** Devices at the same time: enough to be quick, few enough to leave the server to others. */
const sideBySide = 4;
/** An overloaded server is asked again so often, after waits that grow. */
const mostRetries = 6;
const firstWait = 500;

/** Tries every device, independent of the others, and reports the outcome of each. Never rejects. */
export async function runBulk({ action, devices, writes, pause, onOutcome, signal }: BulkRun): Promise<void> {
  const one = async (device: Device): Promise<Outcome> => {
    for (let tries = 0; ; tries += 1) {
      if (signal.aborted) return { device, result: 'stopped' };
      try {
        return { device, result: await changeOne(action, device, writes) };
      } catch (error) {
        // What did not reach the server may have: a second deletion finds nothing, and nothing is what was wished.
        if (action.kind === 'delete' && tries > 0 && error instanceof RingfenceError && error.code === 'not_found')
          return { device, result: 'done' };
        const isPassing = error instanceof RingfenceError && error.retryable && tries < mostRetries;
        if (!isPassing) return { device, result: 'failed', error };
        await pause(error.retryAfter ?? firstWait * 2 ** tries);
      }
    }
  };
  const waiting = [...devices].toReversed();
  const work = async (): Promise<void> => {
    for (let device = waiting.pop(); device !== undefined; device = waiting.pop()) onOutcome(await one(device));
  };
  await Promise.all(Array.from({ length: Math.min(sideBySide, devices.length) }, work));
}
