/**
 * Owns the text form of the devices that a rule names: `label:app+prod`, `device:web-1`, `all-devices`; parsed and
 * printed.
 */
import type { Device } from '../../api/device.ts';
import { nearPeerWord } from '../../client/words/near-peer-word.ts';
import { parseSelectorWord } from '../../policy/fleet/selector-text.ts';
import type { Peer, Selector } from '../../policy/rule.ts';
import { isPrintable } from '../../policy/names/printable.ts';
import { allDevices, deviceWords, pickDevice } from '../lookup/device.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';

/** Devices by the names that people give them. */
export interface PeerNames {
  /** The id of the device that the text means; throws where none or several are called so. */
  readonly idOf: (text: string) => string;
  /** What `idOf` reads as this device; undefined for one that is gone. */
  readonly nameOf: (id: string) => string | undefined;
}

/** For rules that name no device, or are shown where none is known: by id. */
export const noNames: PeerNames = {
  idOf: (text) => {
    throw usageError(`device names do not work here: replace \`${text}\` with a label`);
  },
  nameOf: (id) => id,
};

const plainName = /^[^\s,+]+$/;

export function peerNames(devices: readonly Device[]): PeerNames {
  const wordFor = deviceWords(devices);
  const byId = new Map(devices.map((device) => [device.id as string, device]));
  return {
    idOf: (text) => pickDevice(devices, text).id,
    nameOf: (id) => {
      const device = byId.get(id);
      if (device === undefined) return undefined;
      const word = wordFor(device);
      return plainName.test(word) && isPrintable(word) ? word : id;
    },
  };
}

const deviceWord = /\bdevice:/i;

/** The names of the organization's devices, asked for only where a text may name one. */
export const namesFor = async (session: Session, texts: readonly unknown[]): Promise<PeerNames> =>
  texts.some((text) => deviceWord.test(typeof text === 'string' ? text : JSON.stringify(text ?? '')))
    ? peerNames(await allDevices(session))
    : noNames;

/** Devices by what they are; undefined where the text is no such word. */
function readSelectorWord(text: string): Selector | undefined {
  const selector = parseSelectorWord(text);
  if (selector !== undefined && 'fault' in selector) throw usageError(selector.fault);
  return selector;
}

/** Devices as the far end of a rule; undefined where the text names none. */
export function readPeerWord(text: string, names: PeerNames): Peer | undefined {
  const device = /^device:(.*)$/is.exec(text)?.[1]?.trim();
  return device === undefined ? readSelectorWord(text) : { device_id: names.idOf(device) };
}

export function readSelector(text: string): Selector {
  const selector = readSelectorWord(text.trim());
  if (selector !== undefined) return selector;
  const near = nearPeerWord(text);
  if (near !== undefined) throw usageError(`\`${text}\` does not select devices; did you mean \`${near}\`?`);
  throw usageError(`\`${text}\` does not select devices: write \`label:app\`, \`label:app+prod\` or \`all-devices\``);
}
