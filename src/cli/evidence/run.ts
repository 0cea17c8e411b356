/** Owns what the commands about evidence do: ask for a file, check one without a server, show and replace keys. */
import { readFile, writeFile } from 'node:fs/promises';
import type { EvidenceDocument } from '../../api/evidence/document.ts';
import { evidenceFormat } from '../../api/evidence/document.ts';
import { isUuid } from '../../policy/ids.ts';
import { checkEvidence, parseEvidenceKey, type EvidenceCheck } from '../../node/evidence-file.ts';
import { printable, printableJson } from '../../policy/names/printable.ts';
import { allDevices, deviceName, pickDevice } from '../lookup/device.ts';
import type { Session } from '../session/session.ts';
import { CliError, exitCodes, usageError } from '../terminal/exit.ts';
import { unreadable } from '../terminal/input-file.ts';
import { readPastTime, shortTime } from '../terminal/time.ts';

export interface EvidenceOptions {
  readonly at: string;
  readonly to?: string;
  readonly out?: string;
}

const timeOf = (text: string, now: number): string =>
  new Date(text.trim() === 'now' ? now : readPastTime(text, now)).toISOString();

/** By the names that devices had at the end of the span or at its start: it may be deleted or renamed since. */
async function findDevice(
  session: Session,
  text: string,
  times: readonly string[],
): Promise<{ id: string; name: string }> {
  if (isUuid(text)) return { id: text.toLowerCase(), name: text.toLowerCase() };
  const devices = (await Promise.all(times.map((at) => allDevices(session, { at })))).flat();
  const each = [...new Map(devices.toReversed().map((device) => [`${device.id} ${device.hostname}`, device])).values()];
  const ids = new Map(each.map((device) => [device.id as string, device]));
  const device = ids.size === each.length ? pickDevice(each, text) : pickRenamed(each, text);
  return { id: device.id, name: deviceName(device) };
}

/** A device that was renamed in between is there with both names. */
function pickRenamed(
  devices: Parameters<typeof pickDevice>[0],
  text: string,
): Parameters<typeof pickDevice>[0][number] {
  const exact = devices.filter(({ hostname }) => hostname === text);
  const [first] = exact;
  if (first !== undefined && exact.every(({ id }) => id === first.id)) return first;
  return pickDevice([...new Map(devices.map((device) => [device.id, device])).values()], text);
}

/** Letters that every file system takes. */
const fileName = (name: string, { at, to }: { readonly at: string; readonly to?: string }): string =>
  `evidence-${name.replaceAll(/[^\w.-]+/g, '_').slice(0, 80)}-${[at, ...(to === undefined ? [] : [to])].map((time) => time.slice(0, 10)).join('-')}.json`;

export async function create(session: Session, text: string, options: EvidenceOptions): Promise<void> {
  const now = Date.now();
  const at = timeOf(options.at, now);
  const span = { at, ...(options.to !== undefined && { to: timeOf(options.to, now) }) };
  const device = await findDevice(session, text, [...('to' in span ? [span.to] : []), at]);
  const client = await session.client();
  const evidence = await client.evidence.create(await session.organization(), device.id, span);
  const file = `${printableJson(JSON.stringify(evidence, undefined, 2))}\n`;
  const { key } = evidence.signature;
  if (options.out === '-') return session.terminal.out(file);
  const path = options.out ?? fileName(device.name, span);
  try {
    await writeFile(path, file, { flag: 'wx', mode: 0o600 });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause;
    throw new CliError('conflict', `${path} exists already: give another name with --out`);
  }
  await session.print({
    data: { path, key, device_id: device.id, ...span },
    ids: [path],
    table: () =>
      `Wrote ${printable(path)}, signed by ${key}.\nTo check it: ringfence evidence verify ${printable(path)} --key ${key}\n`,
  });
}

export interface VerifyOptions {
  readonly key?: readonly string[];
  readonly keyFile?: string;
}

const readGiven = (path: string): Promise<Buffer> =>
  readFile(path).catch((error: unknown) => {
    throw unreadable(printable(path), error);
  });

async function trustedKeys({ key = [], keyFile }: VerifyOptions): Promise<readonly Uint8Array[]> {
  const lines = keyFile === undefined ? [] : (await readGiven(keyFile)).toString().split('\n');
  const texts = [...key, ...lines].map((text) => text.trim()).filter((text) => text !== '');
  return texts.map((text) => {
    const read = parseEvidenceKey(text);
    if (read === undefined)
      throw usageError(`\`${printable(text)}\` is not a key: it looks like ed25519:…, from \`ringfence evidence key\``);
    return read;
  });
}

/** The file's own words about itself, once its signature is known. */
function aboutLines(document: unknown): readonly string[] {
  const known = document as Partial<EvidenceDocument> | undefined;
  if (known?.format !== evidenceFormat) return ['This version of ringfence cannot read what the file says.'];
  const { organization, device, at, to, created_at, created_by, not_known } = known as EvidenceDocument;
  return [
    `It is about device ${device.hostname} (${device.id}) of organization ${organization.name} (${organization.id}),`,
    `${to === undefined ? `at ${shortTime(at)}` : `from ${shortTime(at)} to ${shortTime(to)}`}, made at ${shortTime(created_at)} by ${created_by.username ?? created_by.user_id}.`,
    ...not_known.map((sentence) => `Not known: ${sentence}`),
  ].map(printable);
}

const outcomeLines: { readonly [O in EvidenceCheck['outcome']]: (key: string) => readonly string[] } = {
  verified: (key) => [`Verified: nothing is altered, and ${key} signed it, which is a key that you named.`],
  unknown_key: (key) => [
    'NOT VERIFIED: the file is signed by a key you did not name. Anybody can make such a file.',
    `Its key is ${key}. Compare it with the one that the organization gave you, and name that with --key.`,
  ],
  altered: () => ['NOT VERIFIED: the file was altered after it was signed.'],
  not_evidence: () => ['NOT VERIFIED: this is no evidence file, or its end is missing.'],
};

/** Asks no server. */
export async function verify(session: Session, path: string, options: VerifyOptions): Promise<void> {
  const trusted = await trustedKeys(options);
  const checked = checkEvidence(await readGiven(path), trusted);
  const { outcome } = checked;
  const signer = 'key' in checked ? checked.key : '';
  const lines = [
    ...outcomeLines[outcome](signer),
    ...('document' in checked ? (outcome === 'verified' ? [] : ['What it claims:']) : []),
    ...('document' in checked ? aboutLines(checked.document) : []),
  ];
  await session.print({ data: checked, ids: [outcome], table: () => `${lines.join('\n')}\n` });
  if (outcome !== 'verified') process.exitCode = exitCodes.failed;
}

export interface KeyOptions {
  readonly rotate?: boolean;
}

export async function showKeys(session: Session, { rotate }: KeyOptions): Promise<void> {
  const client = await session.client();
  const org = await session.organization();
  if (rotate === true) {
    const question = 'Replace the key that signs evidence? Auditors need the new one.';
    if (!(await session.confirm(question))) return session.say('Nothing was changed.');
    const fresh = await client.evidence.rotateKey(org);
    return session.print({ data: fresh, ids: [fresh.key], table: () => `From now on ${fresh.key} signs evidence.\n` });
  }
  const keys = await client.evidence.keys(org);
  await session.print({
    data: keys,
    // Scripts want the one that signs now.
    ids: keys.slice(0, 1).map((one) => one.key),
    table: () =>
      keys
        .map(
          (one) =>
            `${one.key}  since ${shortTime(one.created_at)}${one.retired_at === undefined ? '' : `, replaced at ${shortTime(one.retired_at)}`}\n`,
        )
        .join(''),
  });
}
