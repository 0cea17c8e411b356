/** Owns the operations on evidence (reference 4.19): a signed document about a device, and the keys that sign it. */
import { createHash } from 'node:crypto';
import type { EvidenceDocument } from '../../../api/evidence/document.ts';
import type { EvidenceKey } from '../../../api/evidence/operations.ts';
import type { RequestProblem } from '../../../api/codes.ts';
import { parseTimestamp } from '../../../policy/time/timestamp.ts';
import {
  canonicalParts,
  evidenceKeyText,
  signEvidence,
  type EvidenceSignature,
  type EvidenceSigner,
} from '../../../node/evidence-file.ts';
import { programVersion } from '../../../node/version.ts';
import { collectEvidence } from '../../evidence/evidence.ts';
import { largestFile, TooMuchEvidence } from '../../evidence/file-room.ts';
import type { EvidenceKeyRecord } from '../../store/evidence/evidence.ts';
import { record, type Handler } from '../call.ts';
import { HttpError, invalid, problemTable } from '../../problems.ts';

const problem = (pointer: string, code: RequestProblem['code'], detail: string) => invalid([{ pointer, code, detail }]);

/** The caller's clock may be ahead of ours. */
const clockSlackMs = 60_000;

function readSpan({ at, to }: { readonly at: string; readonly to?: string }, now: number) {
  // Nothing is known of the time before 1970, and PostgreSQL does not know the year 0.
  const timeOf = (text: string): number => Math.max(0, parseTimestamp(text) ?? Number.NaN);
  const [start, end] = [timeOf(at), to === undefined ? undefined : timeOf(to)];
  if (Number.isNaN(start) || start > now + clockSlackMs)
    throw problem('/at', 'out_of_range', 'at must be a time in the past.');
  if (to === undefined) return { at: Math.min(start, now), to: Math.min(start, now), isSpan: false };
  if (end === undefined || Number.isNaN(end) || end > now + clockSlackMs)
    throw problem('/to', 'out_of_range', 'to must be a time in the past.');
  if (end < start) throw problem('/to', 'out_of_range', 'to must not be before at.');
  return { at: Math.min(start, now), to: Math.min(end, now), isSpan: true };
}

const tooMuch = ({ isSpan }: { readonly isSpan: boolean }): HttpError =>
  isSpan
    ? problem('/to', 'out_of_range', 'There is more to tell of this span than one file holds. Ask for a shorter one.')
    : new HttpError('too_costly', 'There is more to tell of this device than one file holds.');

/** Characters that are written and hashed at once. */
const writtenAtOnce = 128 * 1_024;

/** The document in parts that are written one by one, and its digest. Throws `TooMuchEvidence` where it is too large. */
function* writtenOut(document: EvidenceDocument): Generator<void, { parts: readonly string[]; sha256: string }> {
  const hash = createHash('sha256');
  const parts: string[] = [];
  let [text, left] = ['', largestFile];
  const finishPart = (): void => {
    left -= Buffer.byteLength(text);
    if (left < 0) throw new TooMuchEvidence();
    hash.update(text);
    parts.push(text);
    text = '';
  };
  for (const piece of canonicalParts(document)) {
    if (text.length > writtenAtOnce) finishPart();
    text += piece;
    yield;
  }
  finishPart();
  return { parts, sha256: hash.digest('hex') };
}

/** The signature becomes the last member. */
async function* withSignature(parts: readonly string[], signature: EvidenceSignature): AsyncGenerator<string> {
  yield* parts.slice(0, -1);
  yield `${parts.at(-1)?.slice(0, -1)},"signature":${JSON.stringify(signature)}}`;
}

const create: Handler<'createEvidence'> = async (call, services) => {
  const { org_id: org, device_id: device } = call.params;
  const { principal } = call;
  const { store, convergence, preview, enterOnce, clock } = services;
  const span = readSpan(call.body, clock());
  // Before its past is read: the organization waits for room in memory, or is too large.
  await preview.read(org, call.work);
  call.work.onEnd(await enterOnce(org));
  const username = principal.kind === 'user' ? principal.username : '';
  const write = async () => {
    const document = await collectEvidence(
      { org, device, ...span, by: { user_id: principal.user_id, username } },
      {
        store,
        convergence,
        slices: call.work,
        present: (one) => preview.read(one, call.work),
        clock,
        version: programVersion,
      },
    );
    if (document === undefined) throw problemTable.not_found({ what: 'device' });
    return { document, ...(await call.work.run(writtenOut(document))) };
  };
  const { document, parts, sha256 } = await write().catch((error: unknown) => {
    throw error instanceof TooMuchEvidence ? tooMuch(span) : error;
  });
  const { at, to } = document;
  const { hostname } = document.device;
  const sign = (key: EvidenceSigner): EvidenceSignature => signEvidence(sha256, key);
  const signature = await store.evidence.seal(org, call.by, { device, hostname, at, to, sha256, sign });
  return { kind: 'record', json: withSignature(parts, signature) };
};

const keyOf = ({ public_key, ...times }: EvidenceKeyRecord): EvidenceKey => ({
  key: evidenceKeyText(public_key),
  ...times,
});

const keys: Handler<'listEvidenceKeys'> = async (call, { store }) => ({
  kind: 'list',
  json: JSON.stringify((await store.evidence.keys(call.params.org_id)).map(keyOf)),
});

const rotate: Handler<'rotateEvidenceKey'> = async (call, { store }) =>
  record(keyOf(await store.evidence.rotate(call.params.org_id, call.by)));

export const evidenceHandlers = {
  createEvidence: create,
  listEvidenceKeys: keys,
  rotateEvidenceKey: rotate,
} as const;
