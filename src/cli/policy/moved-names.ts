/**
 * Owns the check whether a name in a policy file still means the device that it meant before. The server remembers which devices had a name,
 * so it is the same from every machine. A device by its id is never asked about.
 */
import type { Device } from '../../api/device.ts';
import type { DevicePolicyState } from '../../api/history/states.ts';
import { RingfenceError } from '../../client/error.ts';
import { printable } from '../../policy/names/printable.ts';
import type { StoredRule } from '../../policy/rule.ts';
import type { Session } from '../session/session.ts';
import { shortTime } from '../terminal/time.ts';
import type { Step } from './plan.ts';

export interface MovedName {
  /** The entry of the file, or the group whose rule names the device. */
  readonly where: string;
  /** What the name means now. */
  readonly device: Device;
  /** The newest other device that was called so, as it was then. */
  readonly before: DevicePolicyState;
}

interface ChosenByName {
  readonly where: string;
  readonly device: Device;
}

interface Rules {
  readonly inbound_rules?: readonly Pick<StoredRule, 'peers'>[];
  readonly outbound_rules?: readonly Pick<StoredRule, 'peers'>[];
}

const deviceIds = ({ inbound_rules = [], outbound_rules = [] }: Rules): readonly string[] =>
  [...inbound_rules, ...outbound_rules].flatMap(({ peers = [] }) =>
    peers.flatMap((peer) => ('device_id' in peer ? [peer.device_id] : [])),
  );

/** Devices that a step gives something to, or lets in, because of their name. */
function chosenBy(step: Step, devices: ReadonlyMap<string, Device>, named: ReadonlySet<string>): ChosenByName[] {
  if (step.kind === 'device') return step.byName === undefined ? [] : [{ where: step.byName, device: step.device }];
  if (step.action === 'delete') return [];
  if (step.kind === 'test') return testedBy(step, devices, named);
  const known = new Set(step.action === 'update' ? deviceIds(step.group) : []);
  return [...new Set(deviceIds(step.body))].flatMap((id) => {
    const device = devices.get(id);
    return device === undefined || known.has(id) || !named.has(id) ? [] : [{ where: `group ${step.name}`, device }];
  });
}

/** A test that names another device than before keeps another promise than before. */
const testedBy = (
  { name, test: { from, to } }: Extract<Step, { readonly kind: 'test' }>,
  devices: ReadonlyMap<string, Device>,
  named: ReadonlySet<string>,
): ChosenByName[] =>
  [from, to].flatMap((end) => {
    const device = 'device_id' in end && named.has(end.device_id) ? devices.get(end.device_id) : undefined;
    return device === undefined ? [] : [{ where: `test ${name}`, device }];
  });

/** So many questions are with the server at a time. */
const atOnce = 8;

/** Asks only about devices that the steps choose by name; with no step there is no question. */
export async function movedNames(
  session: Session,
  steps: readonly Step[],
  { devices, named }: { readonly devices: readonly Device[]; readonly named: ReadonlySet<string> },
): Promise<readonly MovedName[]> {
  const byId = new Map<string, Device>(devices.map((device) => [device.id, device]));
  const chosen = steps.flatMap((step) => chosenBy(step, byId, named));
  const moved: MovedName[] = [];
  for (let start = 0; start < chosen.length; start += atOnce) {
    const found = chosen.slice(start, start + atOnce).map(async (one): Promise<MovedName[]> => {
      const before = await deviceBefore(session, one.device);
      return before === undefined ? [] : [{ ...one, before }];
    });
    moved.push(...(await Promise.all(found)).flat());
  }
  return moved;
}

/** The other device that had the name last, unless an owner has labelled this one under the name since. */
async function deviceBefore(session: Session, device: Device): Promise<DevicePolicyState | undefined> {
  const { organization_id, id, hostname } = device;
  const { history } = await session.client();
  try {
    const [before] = await history.namesakes(organization_id, id, { limit: 1 });
    if (before === undefined) return undefined;
    const own = await history.device(organization_id, id, { limit: 1_000 });
    const isKnown = own.some(
      (state, index) =>
        state.revision > before.revision && state.record.hostname === hostname && isLabelled(state, own[index + 1]),
    );
    return isKnown ? undefined : before;
  } catch (error) {
    if (!(error instanceof RingfenceError) || error.status !== 404) throw error;
    session.terminal.note('This server does not keep the history of names. Names refer to the current devices.');
    return undefined;
  }
}

/** Only owners set labels: the author of this state knew the device by the name that it then had. */
const isLabelled = ({ record: { labels = [] } }: DevicePolicyState, older: DevicePolicyState | undefined): boolean =>
  labels.length > 0 && labels.join() !== (older?.record.labels ?? []).join();

/** `policy.yaml:3: db-1 is the device … of user … now; it was the device … of user …, deleted 2026-11-17 23:30` */
export const movedLines = (moved: readonly MovedName[]): readonly string[] =>
  moved.map(({ where, device, before: { type, at, record } }) => {
    const now = `${printable(device.hostname)} is the device ${device.id} of user ${device.user_id} now`;
    const was = `it was the device ${record.id} of user ${record.user_id}`;
    return `${printable(where)}: ${now}; ${was}${type === 'delete' ? `, deleted ${shortTime(at)}` : ''}`;
  });
