/** Proves that an evidence file is believed only as it was signed, and only by a key that its reader names. */
import { generateKeyPairSync } from 'node:crypto';
import { expect, test } from 'vitest';
import { finished } from '../../test/lib/finished.ts';
import {
  checkEvidence,
  digestOfEvidence,
  evidenceBody,
  evidenceDigestSteps,
  evidenceKeyText,
  evidenceOpening,
  parseEvidenceKey,
  signEvidence,
  type EvidenceSigner,
} from './evidence-file.ts';

function newSigner(): EvidenceSigner {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const { x = '' } = publicKey.export({ format: 'jwk' });
  return {
    public_key: Buffer.from(x, 'base64url'),
    private_key: privateKey.export({ format: 'der', type: 'pkcs8' }),
  };
}

const [ours, theirs] = [newSigner(), newSigner()];
const document = {
  format: 'ringfence-evidence-1',
  at: '2026-11-09T00:00:00.000Z',
  device: { hostname: 'db-1 </script><b>' },
  states: [
    { devices: [{ hostname: 'a & b \u202e' }, { hostname: '🦊', none: undefined }], ranges: ['10.0.0.0/8'] },
    { groups: [], to: null },
  ],
};
const body = finished(evidenceBody({ head: '<head></head>\n', body: '<p>db-1 was reached by app-1</p>\n' }, document));
const seal = (text: string, signer = ours): string => signEvidence(text, digestOfEvidence(text), signer);
const file = seal(body);
const lines = (text: string): readonly string[] => text.split(/(?<=\n)/);
const [lastOf, withoutLast] = [
  (text: string) => lines(text).at(-1) ?? '',
  (text: string) => lines(text).slice(0, -1).join(''),
];
const check = (text: string | Buffer, keys = [ours.public_key]) =>
  checkEvidence(Buffer.isBuffer(text) ? text : Buffer.from(text), keys);

test('a file is verified by the key of its signer, and says what was signed, whatever names hold', () => {
  expect(check(file)).toEqual({
    outcome: 'verified',
    key: evidenceKeyText(ours.public_key),
    sha256: digestOfEvidence(body),
    document,
  });
});

test.each<readonly [string, string | Buffer, 'altered' | 'not_evidence']>([
  ['another word on the page', file.replace('app-1', 'app-2'), 'altered'],
  ['another date in the data', file.replace('2026-11-09', '2026-11-10'), 'altered'],
  ['the page of another file', file.replace(/<p>.*<\/p>/, '<p>nobody reached db-1</p>'), 'altered'],
  ['a line after the page', `${withoutLast(file)}<p>more</p>\n${lastOf(file)}`, 'altered'],
  ['line ends of another system', file.replaceAll('\n', '\r\n'), 'not_evidence'],
  ['the signature of another file', withoutLast(file) + lastOf(seal(`${evidenceOpening}other\n`)), 'altered'],
  [
    'our key with the signature of another',
    withoutLast(file) + lastOf(seal(body, { ...theirs, public_key: ours.public_key })),
    'altered',
  ],
  ['nothing after half of it', file.slice(0, file.length / 2), 'not_evidence'],
  ['no signature', body, 'not_evidence'],
  ['no last byte', file.slice(0, -1), 'not_evidence'],
  ['a byte more', `${file} `, 'not_evidence'],
  ['two signatures', file + lastOf(file), 'altered'],
  ['a key that is spelled otherwise', file.replace(/(ed25519 [\w-]{42})[\w-]/, '$1_'), 'not_evidence'],
  ['another beginning', seal(`<!-- -->${body}`), 'not_evidence'],
  ['nothing at all', '', 'not_evidence'],
])('a file with %s is not believed', (_, text, outcome) => {
  expect(check(text)).toEqual({ outcome });
});

test('no altered byte goes unnoticed', () => {
  const bytes = Buffer.from(file);
  const believed = [...bytes.keys()].filter((place) => {
    const other = Buffer.from(bytes);
    other[place] = (other[place] ?? 0) ^ 1;
    return check(other).outcome === 'verified';
  });
  expect(believed).toEqual([]);
});

test.each([
  ['a key that nobody named', seal(body, theirs), [ours.public_key]],
  ['no named key', file, []],
])('a file that is signed by %s is not verified', (_, text, keys) => {
  expect(check(text, keys)).toMatchObject({ outcome: 'unknown_key' });
});

test('a key has one spelling', () => {
  const text = evidenceKeyText(ours.public_key);
  expect(parseEvidenceKey(text)).toEqual(ours.public_key);
  for (const wrong of [
    '',
    'ed25519:',
    text.slice(0, -1),
    `${text}A`,
    `${text}=`,
    text.replace('ed25519', 'rsa'),
    ` ${text}`,
  ]) {
    expect(parseEvidenceKey(wrong)).toBeUndefined();
  }
});

test('a large page is hashed in steps, to the same digest', () => {
  const text = 'a page with 🔒 and é '.repeat(40_000);
  const steps = evidenceDigestSteps(text);
  let count = 0;
  for (let step = steps.next(); ; step = steps.next(), count += 1) {
    if (step.done !== true) continue;
    expect(step.value).toBe(digestOfEvidence(text));
    break;
  }
  expect(count).toBeGreaterThan(3);
});
