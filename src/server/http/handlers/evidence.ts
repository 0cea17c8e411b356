/** Owns the operations on evidence (reference 4.19): a signed file about a device, and the keys that sign it. */
import type { EvidenceKey } from '../../../api/evidence/operations.ts';
import { limits } from '../../../api/limits.ts';
import type { RequestProblem } from '../../../api/codes.ts';
import { parseTimestamp } from '../../../policy/time/timestamp.ts';
import { evidenceDigestSteps, evidenceKeyText, signEvidence } from '../../../node/evidence-file.ts';
import { programVersion } from '../../../node/version.ts';
import { collectEvidence } from '../../evidence/evidence.ts';
import { FileRoom, TooMuchEvidence } from '../../evidence/file-room.ts';
import { evidencePage } from '../../evidence/page.ts';
import type { EvidenceKeyRecord } from '../../store/contract/evidence/evidence.ts';
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

/** Characters of a file that are written in one turn of the event loop. */
const writtenAtOnce = 128 * 1_024;

/** The answer in parts. A pair of surrogates that falls into two of them is written as two escapes, which mean the same. */
async function* withFile(fields: object, file: string): AsyncGenerator<string> {
  yield `${JSON.stringify(fields).slice(0, -1)},"file":"`;
  for (let from = 0; from < file.length; from += writtenAtOnce)
    yield JSON.stringify(file.slice(from, from + writtenAtOnce)).slice(1, -1);
  yield '"}';
}

const create: Handler<'createEvidence'> = async (call, services) => {
  const { org_id: org, device_id: device } = call.params;
  const { principal } = call;
  const { store, convergence, preview, enterEvidence, clock } = services;
  const span = readSpan(call.body, clock());
  // Before its past is read: the organization waits for room in memory, or is too large.
  await preview.read(org, call.work);
  call.work.onEnd(await enterEvidence(org));
  const username = principal.kind === 'user' ? principal.username : '';
  const write = async () => {
    const collected = await collectEvidence(
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
    if (collected === undefined) throw problemTable.not_found({ what: 'device' });
    return { document: collected, body: await call.work.run(evidencePage(collected, new FileRoom(limits.answer))) };
  };
  const { document, body } = await write().catch((error: unknown) => {
    throw error instanceof TooMuchEvidence ? tooMuch(span) : error;
  });
  if (Buffer.byteLength(body) > limits.answer) throw tooMuch(span);
  const sha256 = await call.work.run(evidenceDigestSteps(body));
  const {
    at,
    to,
    device: { hostname },
  } = document;
  const { file, public_key } = await store.evidence.seal(org, call.by, {
    device,
    hostname,
    at,
    to,
    sha256,
    sign: (key) => signEvidence(body, sha256, key),
  });
  const key = evidenceKeyText(public_key);
  const fields = { organization_id: org, device_id: device, at, ...(to !== undefined && { to }), key, sha256 };
  return { kind: 'record', json: withFile(fields, file) };
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
