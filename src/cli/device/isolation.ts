/** Owns the commands that isolate a device and release it, and how isolations are shown. */
import type { Device } from '../../api/device.ts';
import { printable } from '../../node/printable.ts';
import { peerNames, readPeerWord, type PeerNames } from '../group/peer-text.ts';
import { peerWord } from '../../client/words/rule.ts';
import type { Peer } from '../../policy/rule.ts';
import { allDevices, deviceName, findDevice, pickDevice } from '../lookup/device.ts';
import { labelDoubts } from '../session/label-doubts.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { readExpiry, shortTime } from '../terminal/time.ts';

export interface IsolateOptions {
  readonly reason: string;
  readonly for?: string;
  readonly allow?: readonly string[];
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
  const { since, until, reason, allow = [] } = isolated;
  const names = peerNames(devices);
  return [
    `since ${shortTime(since)}${until === undefined ? '' : `, until ${shortTime(until)}`}: ${reason}`,
    ...allow.map((peer) => `allows ${peerWord(peer, names)}`),
  ];
}

export async function isolate(session: Session, text: string, options: IsolateOptions): Promise<void> {
  const { reason, for: duration, allow: texts = [] } = options;
  if (reason.trim() === '') throw usageError('--reason is empty: say why');
  const client = await session.client();
  const devices = await allDevices(session);
  const device = pickDevice(devices, text);
  const names = peerNames(devices);
  const allow = texts.map((one) => readAllowed(one, names));
  const known = new Set(devices.flatMap(({ labels = [] }) => labels));
  // Without a question: nothing holds up an isolation, and isolating the device again replaces it.
  const named = new Set(allow.flatMap((peer) => ('labels' in peer ? peer.labels : [])));
  for (const doubt of labelDoubts(named, known)) session.say(`Warning: ${doubt.text}`);
  const until = duration === undefined ? undefined : readExpiry(duration, Date.now());
  const isolated = await client.devices.isolate(device.organization_id, device.id, {
    reason,
    ...(until !== undefined && { until }),
    ...(allow.length > 0 && { allow }),
  });
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
