/**
 * Owns the signature of an evidence file, and the check of it without a server.
 *
 * A file is an HTML page and one more line, which signs every byte before it:
 *
 *     <!doctype html><!-- ringfence-evidence-1 -->
 *     …
 *     <!-- ringfence-signature ed25519 PUBLIC_KEY SIGNATURE -->
 *
 * The signature is Ed25519 over the text `ringfence-evidence-1 sha256:DIGEST`, with the digest of those bytes in hexadecimal.
 */
import { printableJson } from './printable.ts';
import { createHash, createPrivateKey, createPublicKey, sign, verify } from 'node:crypto';

export const evidenceOpening = '<!doctype html><!-- ringfence-evidence-1 -->\n';
const dataOpening = '<script type="application/json" id="evidence">';
const dataClosing = '</script>';

const signed = (sha256: string): Buffer => Buffer.from(`ringfence-evidence-1 sha256:${sha256}`, 'utf8');

export const digestOfEvidence = (body: string | Uint8Array): string => createHash('sha256').update(body).digest('hex');

const hashedAtOnce = 256 * 1_024;

/** The same of a large page. The caller can do other work between two steps. */
export function* evidenceDigestSteps(body: string): Generator<void, string> {
  const bytes = Buffer.from(body);
  const hash = createHash('sha256');
  for (let from = 0; from < bytes.length; from += hashedAtOnce) {
    hash.update(bytes.subarray(from, from + hashedAtOnce));
    yield;
  }
  return hash.digest('hex');
}

const keyBytes = 32;
const keyPrefix = 'ed25519:';

/** `ed25519:` and the key in base64url: what people compare and pass to `--key`. */
export const evidenceKeyText = (publicKey: Uint8Array): string =>
  `${keyPrefix}${Buffer.from(publicKey).toString('base64url')}`;

/** Bytes that are written in exactly this way; undefined otherwise, so that one value has one spelling. */
function readBase64url(text: string, bytes: number): Buffer | undefined {
  const read = Buffer.from(text, 'base64url');
  return read.length === bytes && read.toString('base64url') === text ? read : undefined;
}

export function parseEvidenceKey(text: string): Uint8Array | undefined {
  return text.startsWith(keyPrefix) ? readBase64url(text.slice(keyPrefix.length), keyBytes) : undefined;
}

const isFlat = (value: object): boolean =>
  Object.values(value).every(
    (one) => typeof one !== 'object' || one === null || (Array.isArray(one) && one.length === 0),
  );

/** The JSON of a value, each small object in a part of its own. */
function* jsonParts(value: unknown): Generator<string, void, undefined> {
  if (typeof value !== 'object' || value === null || isFlat(value)) {
    yield JSON.stringify(value);
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      yield index === 0 ? '[' : ',';
      yield* jsonParts(item ?? null);
    }
    yield ']';
  } else {
    let before = '{';
    // At least one field is an object.
    for (const [name, field] of Object.entries(value)) {
      if (field === undefined) continue;
      yield `${before}${JSON.stringify(name)}:`;
      yield* jsonParts(field);
      before = ',';
    }
    yield '}';
  }
}

/**
 * The page with its data, as JSON that no name or description can end early. The caller can do other work between two steps, and learns of each part of the data
 * how many characters it takes.
 */
export function* evidenceBody(
  page: { readonly head: string; readonly body: string },
  document: object,
  take: (characters: number) => void = () => {},
): Generator<void, string, undefined> {
  const parts = [`${evidenceOpening}<html lang="en">\n${page.head}<body>\n${page.body}${dataOpening}`];
  for (const part of jsonParts(document)) {
    const text = printableJson(part).replaceAll(/[<>&]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
    take(text.length);
    parts.push(text);
    yield;
  }
  return `${parts.join('')}${dataClosing}\n</body>\n</html>\n`;
}

export interface EvidenceSigner {
  /** Raw. */
  readonly public_key: Uint8Array;
  /** PKCS #8. */
  readonly private_key: Uint8Array;
}

export function signEvidence(body: string, sha256: string, { public_key, private_key }: EvidenceSigner): string {
  const key = createPrivateKey({ key: Buffer.from(private_key), format: 'der', type: 'pkcs8' });
  const signature = sign(null, signed(sha256), key).toString('base64url');
  return `${body}<!-- ringfence-signature ed25519 ${Buffer.from(public_key).toString('base64url')} ${signature} -->\n`;
}

/**
 * `verified`: signed by one of the named keys. `unknown_key`: the signature is right, by a key that was not named: anybody can make such a file.
 * `altered`: it does not fit the signature. `not_evidence`: it has no signature at its end, so it may be a part of a file.
 */
export type EvidenceCheck =
  | {
      readonly outcome: 'verified' | 'unknown_key';
      readonly key: string;
      readonly sha256: string;
      /** What the file says; undefined where this version cannot read it. */
      readonly document: unknown;
    }
  | { readonly outcome: 'altered' | 'not_evidence' };

const lastLine = /^<!-- ringfence-signature ed25519 ([\w-]{43}) ([\w-]{86}) -->\n$/;
/** Of a last line in bytes. */
const lastLineLength = '<!-- ringfence-signature ed25519  '.length + 43 + 86 + ' -->\n'.length;
const signatureBytes = 64;

function isSignedBy(publicKey: Buffer, sha256: string, signature: Buffer): boolean {
  try {
    const jwk = { kty: 'OKP', crv: 'Ed25519', x: publicKey.toString('base64url') };
    return verify(null, signed(sha256), createPublicKey({ key: jwk, format: 'jwk' }), signature);
  } catch {
    return false;
  }
}

function documentIn(body: Buffer): unknown {
  const text = body.toString('utf8');
  const start = text.indexOf(dataOpening);
  const end = text.indexOf(dataClosing, start);
  if (start === -1 || end === -1) return undefined;
  try {
    return JSON.parse(text.slice(start + dataOpening.length, end)) as unknown;
  } catch {
    return undefined;
  }
}

/** Checks a file against the keys that its reader trusts. Asks nobody. */
export function checkEvidence(file: Buffer, trusted: readonly Uint8Array[]): EvidenceCheck {
  const body = file.subarray(0, Math.max(0, file.length - lastLineLength));
  const [, keyText = '', signatureText = ''] = lastLine.exec(file.subarray(body.length).toString('latin1')) ?? [];
  const key = readBase64url(keyText, keyBytes);
  const signature = readBase64url(signatureText, signatureBytes);
  const isEvidence = body.subarray(0, evidenceOpening.length).toString('latin1') === evidenceOpening;
  if (key === undefined || signature === undefined || !isEvidence) return { outcome: 'not_evidence' };
  const sha256 = digestOfEvidence(body);
  if (!isSignedBy(key, sha256, signature)) return { outcome: 'altered' };
  const outcome = trusted.some((one) => key.equals(one)) ? 'verified' : 'unknown_key';
  return { outcome, key: evidenceKeyText(key), sha256, document: documentIn(body) };
}
