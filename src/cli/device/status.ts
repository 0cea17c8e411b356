/** Owns `device status`: every device with its state, in the same words that Ringfence uses everywhere. */
import type { DeviceStatus } from '../../api/device.ts';
import { inForceMeanings, inForceTitles, inForceWords, type InForce } from '../../api/enforcement/in-force.ts';
import { packetWords } from '../../client/words/packets.ts';
import { allDevices } from '../lookup/device.ts';
import { lastSeenWords } from '../session/in-force.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';

/** A state as people type it: with a blank, a hyphen or an underscore. */
export function readState(text: string): InForce {
  const word = text.trim().toLowerCase().replaceAll(/[\s-]/g, '_');
  const found = inForceWords.find((one) => one === word || inForceTitles[one].replaceAll(' ', '_') === word);
  if (found !== undefined) return found;
  throw usageError(`\`${text}\` is not a state: use one of ${inForceWords.join(', ')}`);
}

export async function statusesOf(session: Session): Promise<readonly DeviceStatus[]> {
  const client = await session.client();
  return client.statuses.list(await session.organization());
}

const nameOf = ({ hostname, device_id }: DeviceStatus): string => (hostname === '' ? device_id : hostname);

/** `in force`, `isolated, in force`. */
export const stateWords = (state: InForce, isIsolated: boolean): string =>
  `${isIsolated ? 'isolated, ' : ''}${inForceTitles[state]}`;

export async function status(session: Session): Promise<void> {
  const [statuses, devices] = await Promise.all([statusesOf(session), session.isForPeople ? allDevices(session) : []]);
  const isolated = new Set<string>(devices.flatMap((device) => (device.isolated === undefined ? [] : [device.id])));
  const now = Date.now();
  await session.printList(statuses, {
    none: 'No devices yet.',
    id: 'device_id',
    sortBy: 'hostname',
    columns: () => [
      { head: 'DEVICE', text: nameOf },
      {
        head: 'STATE',
        text: ({ device_id, in_force }) => stateWords(in_force, isolated.has(device_id)),
      },
      { head: 'ONLINE', text: ({ online }) => (online ? 'yes' : 'no') },
      { head: 'LAST SEEN', text: ({ last_seen_at }) => lastSeenWords(last_seen_at, now) },
      { head: 'REVISION', text: ({ status: said }) => String(said?.revision ?? ''), align: 'right' },
      {
        head: 'DETAIL',
        text: ({ detail, in_force, status: said }) =>
          detail ?? said?.detail ?? (in_force === 'yes' ? '' : inForceMeanings[in_force]),
      },
    ],
  });
}

/** `offline, last seen 14 min ago`, and why. */
export function stateLines(known: DeviceStatus | undefined): readonly string[] {
  const { in_force, online, last_seen_at, detail } = known ?? { in_force: 'never_seen' as const, online: false };
  const seen = online || in_force === 'never_seen' ? '' : `, last seen ${lastSeenWords(last_seen_at, Date.now())}`;
  const why = detail ?? known?.status?.detail;
  return [`${inForceTitles[in_force]}${seen}`, ...(why === undefined || in_force === 'yes' ? [] : [why])];
}

/** `0.1.0 on wg0`. */
export function agentText(known: DeviceStatus | undefined): string {
  const { agent_version = '', interface: device = '' } = known?.status ?? {};
  return [agent_version, device === '' ? '' : `on ${device}`].filter((word) => word !== '').join(' ');
}

/** `web: 1,204 in, 3 out`: first packets of connections that its rules matched. */
export const packetLines = (known: DeviceStatus | undefined, groupName: (id: string) => string): readonly string[] =>
  (known?.status?.group_packets ?? []).map((counted) => `${groupName(counted.group_id)}: ${packetWords(counted)}`);
