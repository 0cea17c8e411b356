/** Owns the commands that isolate a device and release it, and how isolations are shown. */
import type { Device } from '../../api/device.ts';
import type { RefusedAddress } from '../../api/isolation.ts';
import { printable } from '../../policy/names/printable.ts';
import { peerNames, readPeerWord, type PeerNames } from '../group/peer-text.ts';
import { peerWord } from '../../client/words/rule.ts';
import type { Peer } from '../../policy/rule.ts';
import { allDevices, deviceName, findDevice, pickDevice } from '../lookup/device.ts';
import { askOnTerminal, labelDoubts } from '../session/ask-about.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { agoWords, readExpiry, shortTime } from '../terminal/time.ts';

export interface IsolateOptions {
  readonly reason: string;
  readonly for?: string;
  readonly allow?: readonly string[];
  readonly leaveOut?: readonly string[];
}

function readAllowed(text: string, names: PeerNames): Peer {
  const peer = readPeerWord(text.trim(), names);
  if (peer === undefined) {
    throw usageError(
      `\`${text}\` does not name devices: write \`label:forensics\`, \`device:lab-1\` or \`all-devices\``,
    );
  }
  return peer;
}

/** Since when, until when, why, and whom it allows; nothing where the device is not isolated. */
export function isolationLines({ isolated }: Device, devices: readonly Device[]): readonly string[] {
  if (isolated === undefined) return [];
  const { since, until, reason, allow = [], not_refused: notRefused = [] } = isolated;
  const names = peerNames(devices);
  return [
    `since ${shortTime(since)}${until === undefined ? '' : `, until ${shortTime(until)}`}: ${reason}`,
    ...allow.map((peer) => `allows ${peerWord(peer, names)}`),
    ...notRefused.map((address) => `${address} is not refused by other devices`),
  ];
}

/** One line for each address that the other devices will refuse: who set it, and which other devices have it. */
function refusedLines(
  refused: readonly RefusedAddress[],
  devices: readonly Device[],
  leftOut: ReadonlySet<string>,
): readonly string[] {
  const names = new Map(devices.map((device) => [device.id, deviceName(device)]));
  return refused.map(({ address, set_by, devices: others = [], more_devices = 0 }) => {
    const setter = set_by && `set by ${set_by.username ?? set_by.user_id} ${agoWords(set_by.at, Date.now())}`;
    const more = more_devices === 0 ? [] : [`${more_devices} more`];
    const shared = [...others.map((id) => names.get(id) ?? id), ...more].join(', ');
    return [
      `  ${address}`,
      ...(leftOut.has(address) ? ['left out: not refused'] : []),
      ...(setter === undefined ? [] : [setter]),
      ...(shared === '' ? [] : [`also an address of ${shared}`]),
    ].join('  ');
  });
}

/** Shows what the other devices will refuse, and asks. The addresses that are refused, where some are left out. */
async function askAboutAddresses(
  session: Session,
  device: Device,
  devices: readonly Device[],
  texts: readonly string[],
): Promise<readonly string[] | undefined> {
  const client = await session.client();
  const { refused_addresses: refused } = await client.devices.previewIsolation(device.organization_id, device.id);
  const leftOut = new Set(texts.map((text) => text.trim().toLowerCase()));
  const unknown = [...leftOut].find((text) => !refused.some(({ address }) => address === text));
  if (unknown !== undefined) {
    const all = refused.map(({ address }) => address).join(', ');
    throw usageError(`${deviceName(device)} has no address \`${unknown}\`; it has ${all === '' ? 'none' : all}`);
  }
  if (refused.length > 0) {
    session.say('The other devices will refuse these addresses. Leave out what others need with --leave-out:');
    for (const line of refusedLines(refused, devices, leftOut)) session.say(printable(line));
  }
  await askOnTerminal(session, `Isolate device ${deviceName(device)}?`);
  if (leftOut.size === 0) return undefined;
  return refused.flatMap(({ address }) => (leftOut.has(address) ? [] : [address]));
}

export async function isolate(session: Session, text: string, options: IsolateOptions): Promise<void> {
  const { reason, for: duration, allow: texts = [], leaveOut = [] } = options;
  if (reason.trim() === '') throw usageError('--reason is empty: say why');
  const client = await session.client();
  const devices = await allDevices(session);
  const device = pickDevice(devices, text);
  const names = peerNames(devices);
  const allow = texts.map((one) => readAllowed(one, names));
  const known = new Set(devices.flatMap(({ labels = [] }) => labels));
  const named = new Set(allow.flatMap((peer) => ('labels' in peer ? peer.labels : [])));
  for (const doubt of labelDoubts(named, known)) session.say(`Warning: ${doubt.text}`);
  const until = duration === undefined ? undefined : readExpiry(duration, Date.now());
  const addresses = await askAboutAddresses(session, device, devices, leaveOut);
  const body = {
    reason,
    ...(until !== undefined && { until }),
    ...(allow.length > 0 && { allow }),
    ...(addresses !== undefined && { addresses }),
  };
  // Addresses that the device gets meanwhile would be left out too.
  const expected = addresses === undefined ? {} : { ifMatch: device.revision };
  const isolated = await client.devices.isolate(device.organization_id, device.id, body, expected);
  const end = until === undefined ? 'until you release it' : `until ${shortTime(until)}`;
  await session.printRecord(isolated, `Isolated device ${deviceName(isolated)} (${isolated.id}) ${end}.`);
  for (const { detail } of isolated.warnings ?? []) session.say(`Warning: ${printable(detail)}`);
}

export async function release(session: Session, text: string): Promise<void> {
  const client = await session.client();
  const device = await findDevice(session, text);
  const released = await client.devices.liftIsolation(device.organization_id, device.id);
  const was = device.isolated === undefined ? 'is not isolated' : 'is released';
  await session.printRecord(released, `Device ${deviceName(released)} (${released.id}) ${was}.`);
}

/** The devices that the isolation's words name, where it has any. */
export const devicesForIsolation = async (session: Session, { isolated }: Device): Promise<readonly Device[]> =>
  isolated?.allow === undefined ? [] : allDevices(session);
