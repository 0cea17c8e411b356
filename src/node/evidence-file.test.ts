/** Proves that an evidence file is believed only as it was signed, and only by a key that its reader names. */
import { generateKeyPairSync } from 'node:crypto';
import { expect, test } from 'vitest';
import {
  canonicalParts,
  checkEvidence,
  digestOfEvidence,
  evidenceKeyText,
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
  device: { hostname: 'db-1 "at": \\" </script><b>' },
  states: [
    { devices: [{ hostname: 'a & b \u202e' }, { hostname: '🦊' }], ranges: ['10.0.0.0/8'] },
    { groups: [], before: {}, to: null },
  ],
};
const seal = (content: object, signer = ours): object => ({
  ...content,
  signature: signEvidence(digestOfEvidence(content), signer),
});
const file = JSON.stringify(seal(document));
const check = (text: string | Buffer, keys = [ours.public_key]) => checkEvidence(Buffer.from(text), keys);

test('a file is verified by the key of its signer, and says what was signed, whatever names hold and however it is laid out', () => {
  const verified = {
    outcome: 'verified',
    key: evidenceKeyText(ours.public_key),
    sha256: digestOfEvidence(document),
    document,
  };
  expect(check(file)).toEqual(verified);
  expect(check(JSON.stringify(JSON.parse(file), undefined, 2).replaceAll('\n', '\r\n'))).toEqual(verified);
  expect(check(JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(file) as object).toReversed())))).toEqual(
    verified,
  );
});

test('the signed form is that of RFC 8785', () => {
  const value = { b: [1e21, 0.5, -0, '\u20ac\n'], 10: true, 9: { z: null, a: undefined }, a: [{}, []] };
  expect([...canonicalParts(value)].join('')).toBe('{"10":true,"9":{"z":null},"a":[{},[]],"b":[1e+21,0.5,0,"€\\n"]}');
});

const signatureOf = (text: string): unknown => (JSON.parse(text) as { signature: unknown }).signature;
const withSignature = (signature: unknown): string => JSON.stringify({ ...document, signature });

test.each<readonly [string, string, 'altered' | 'not_evidence']>([
  ['another date', file.replace('2026-11-09', '2026-11-10'), 'altered'],
  ['one member less', file.replace('"to":null', '').replace(',}', '}'), 'altered'],
  ['one member more', file.replace('{', '{"to":"2026-11-10T00:00:00.000Z",'), 'altered'],
  ['a member twice, of which a reader may see the first', file.replace('{', '{"at":"2026-11-10",'), 'not_evidence'],
  ['a deep member twice', file.replace('"hostname":"🦊"', '"hostname":"fox","hostname":"🦊"'), 'not_evidence'],
  ['a name that is spelled otherwise, twice', file.replace('{', '{"\\u0061t":"2026-11-10",'), 'not_evidence'],
  ['the signature of another file', withSignature(signatureOf(JSON.stringify(seal({ other: 1 })))), 'altered'],
  [
    'our key with the signature of another',
    withSignature(signEvidence(digestOfEvidence(document), { ...theirs, public_key: ours.public_key })),
    'altered',
  ],
  ['nothing after half of it', file.slice(0, file.length / 2), 'not_evidence'],
  ['no signature', JSON.stringify(document), 'not_evidence'],
  ['a signature that is a text', withSignature('signed'), 'not_evidence'],
  ['no last byte', file.slice(0, -1), 'not_evidence'],
  ['two files', file + file, 'not_evidence'],
  ['a key that is spelled otherwise', file.replace(/(ed25519:[\w-]{42})[\w-]/, '$1_'), 'not_evidence'],
  ['too many levels', `${'['.repeat(100_000)}${']'.repeat(100_000)}`, 'not_evidence'],
  ['nothing but null', 'null', 'not_evidence'],
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
  ['a key that nobody named', JSON.stringify(seal(document, theirs)), [ours.public_key]],
  ['no named key', file, []],
])('a file that is signed by %s is not verified', (_, text, keys) => {
  expect(check(text, keys)).toMatchObject({ outcome: 'unknown_key' });
});

/** As a server made it when evidence was a page. */
const page = `<!doctype html><!-- ringfence-evidence-1 -->
<html lang="en">
<head></head>
<body>
<p>db-1 was reached by app-1</p>
<script type="application/json" id="evidence">{"format":"ringfence-evidence-1","device":{"hostname":"db-1 \\u003c/script\\u003e\\u003cb\\u003e"}}</script>
</body>
</html>
<!-- ringfence-signature ed25519 0_upPD2Q08Imw4x9f0m2FtHUeMyfoqnN3oDfXoDKGAA Tf6A30ZC8zTeHsFJ9HxXJijiKaZd6jozeQJrBdnzxXclyzXS_COJGYeKKqlxjCvhKeYFTRO3-CZomRXtLyNoCA -->
`;

test('a page that was saved before is verified as it was', () => {
  const key = 'ed25519:0_upPD2Q08Imw4x9f0m2FtHUeMyfoqnN3oDfXoDKGAA';
  const trusted = [parseEvidenceKey(key) ?? Buffer.alloc(0)];
  expect(check(page, trusted)).toMatchObject({
    outcome: 'verified',
    key,
    document: { format: 'ringfence-evidence-1', device: { hostname: 'db-1 </script><b>' } },
  });
  expect(check(page)).toMatchObject({ outcome: 'unknown_key' });
  expect(check(page.replace('app-1', 'app-2'), trusted)).toEqual({ outcome: 'altered' });
  expect(check(page.replaceAll('\n', '\r\n'), trusted)).toEqual({ outcome: 'not_evidence' });
  expect(check(page.slice(0, -1), trusted)).toEqual({ outcome: 'not_evidence' });
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
