/**
 * Owns the signature of an evidence file, and the check of it without a server.
 *
 * A file is one JSON object. Its member `signature` signs all the others, in the canonical form of RFC 8785, so the file may be laid out in any way:
 *
 *     {"format": "ringfence-evidence-1", …, "signature": {"key": "ed25519:PUBLIC_KEY", "value": "SIGNATURE"}}
 *
 * The signature is Ed25519 over the text `ringfence-evidence-1 sha256:DIGEST`, with the digest of that form in hexadecimal.
 */
import { createHash, createPrivateKey, createPublicKey, sign, verify } from 'node:crypto';

const signedText = (sha256: string): Buffer => Buffer.from(`ringfence-evidence-1 sha256:${sha256}`, 'utf8');

const keyBytes = 32;
const signatureBytes = 64;
const keyPrefix = 'ed25519:';

/** `ed25519:` and the key in base64url: what people compare and pass to `--key`. */
export const evidenceKeyText = (publicKey: Uint8Array): string =>
  `${keyPrefix}${Buffer.from(publicKey).toString('base64url')}`;

/** Bytes that are written in exactly this way; undefined otherwise, so that one value has one spelling. */
function readBase64url(text: string, bytes: number): Buffer | undefined {
  const read = Buffer.from(text, 'base64url');
  return read.length === bytes && read.toString('base64url') === text ? read : undefined;
}

export function parseEvidenceKey(text: string): Buffer | undefined {
  return text.startsWith(keyPrefix) ? readBase64url(text.slice(keyPrefix.length), keyBytes) : undefined;
}

const isSimple = (value: unknown): boolean => typeof value !== 'object' || value === null;

/** The canonical form (RFC 8785) of what JSON can say: names in order, no blanks. In parts, of which each holds one small object or one list at most. */
export function* canonicalParts(value: unknown): Generator<string, void, undefined> {
  if (typeof value !== 'object' || value === null || (Array.isArray(value) && value.every(isSimple))) {
    yield JSON.stringify(value);
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      yield index === 0 ? '[' : ',';
      yield* canonicalParts(item);
    }
    yield ']';
  } else {
    let text = '{';
    for (const [name, field] of Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      if (field === undefined) continue;
      text += `${text === '{' ? '' : ','}${JSON.stringify(name)}:`;
      if (isSimple(field)) {
        text += JSON.stringify(field);
        continue;
      }
      yield text;
      text = '';
      yield* canonicalParts(field);
    }
    yield `${text}}`;
  }
}

export function digestOfEvidence(document: object): string {
  const hash = createHash('sha256');
  for (const part of canonicalParts(document)) hash.update(part);
  return hash.digest('hex');
}

export interface EvidenceSignature {
  /** As `evidenceKeyText` writes it. */
  readonly key: string;
  /** In base64url. */
  readonly value: string;
}

export interface EvidenceSigner {
  /** Raw. */
  readonly public_key: Uint8Array;
  /** PKCS #8. */
  readonly private_key: Uint8Array;
}

export function signEvidence(sha256: string, { public_key, private_key }: EvidenceSigner): EvidenceSignature {
  const key = createPrivateKey({ key: Buffer.from(private_key), format: 'der', type: 'pkcs8' });
  return { key: evidenceKeyText(public_key), value: sign(null, signedText(sha256), key).toString('base64url') };
}

/**
 * `verified`: signed by one of the named keys. `unknown_key`: the signature is right, by a key that was not named: anybody can make such a file.
 * `altered`: it does not fit the signature. `not_evidence`: it is no JSON with a signature, so it may be a part of a file.
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

interface SignedContent {
  readonly key: Buffer | undefined;
  readonly signature: Buffer | undefined;
  readonly sha256: string;
  readonly document: unknown;
}

/** Outside of texts, a colon stands after each name and nowhere else. */
function countNames(json: string): number {
  let [names, isText] = [0, false];
  for (let place = 0; place < json.length; place += 1) {
    const character = json[place];
    if (isText && character === '\\') place += 1;
    else if (character === '"') isText = !isText;
    else if (character === ':' && !isText) names += 1;
  }
  return names;
}

/** JSON of objects that have each name once: of a name that is there twice, two readers could see two values. */
function parseStrictly(text: string): unknown {
  let named = 0;
  const value: unknown = JSON.parse(text, function (this: unknown, _name, field: unknown) {
    if (!Array.isArray(this)) named += 1;
    return field;
  });
  // The value itself has a name for the function above.
  if (named !== countNames(text) + 1) throw new SyntaxError('a name is there twice');
  return value;
}

function readDocument(file: Buffer): SignedContent | undefined {
  try {
    const { signature, ...document } = parseStrictly(file.toString('utf8')) as { signature: EvidenceSignature };
    return {
      key: parseEvidenceKey(signature.key),
      signature: readBase64url(signature.value, signatureBytes),
      sha256: digestOfEvidence(document),
      document,
    };
  } catch {
    return undefined;
  }
}

const pageOpening = '<!doctype html><!-- ringfence-evidence-1 -->\n';
const pageData = '<script type="application/json" id="evidence">';
const pageEnd = /^<!-- ringfence-signature ed25519 ([\w-]{43}) ([\w-]{86}) -->\n$/;
const pageEndLength = '<!-- ringfence-signature ed25519  '.length + 43 + 86 + ' -->\n'.length;

/** Files of before are pages with the same JSON in them. The last line signs every byte before it. */
function readPage(file: Buffer): SignedContent | undefined {
  const page = file.subarray(0, Math.max(0, file.length - pageEndLength));
  if (!page.toString('latin1').startsWith(pageOpening)) return undefined;
  const [, key = '', signature = ''] = pageEnd.exec(file.subarray(page.length).toString('latin1')) ?? [];
  const text = page.toString('utf8');
  const start = text.indexOf(pageData) + pageData.length;
  let document: unknown;
  try {
    document = JSON.parse(text.slice(start, text.indexOf('</script>', start)));
  } catch {
    document = undefined;
  }
  return {
    key: readBase64url(key, keyBytes),
    signature: readBase64url(signature, signatureBytes),
    sha256: createHash('sha256').update(page).digest('hex'),
    document,
  };
}

function isSignedBy(publicKey: Buffer, sha256: string, signature: Buffer): boolean {
  try {
    const jwk = { kty: 'OKP', crv: 'Ed25519', x: publicKey.toString('base64url') };
    return verify(null, signedText(sha256), createPublicKey({ key: jwk, format: 'jwk' }), signature);
  } catch {
    return false;
  }
}

/** Checks a file against the keys that its reader trusts. Asks nobody. */
export function checkEvidence(file: Buffer, trusted: readonly Uint8Array[]): EvidenceCheck {
  const { key, signature, sha256, document } = readPage(file) ?? readDocument(file) ?? {};
  if (key === undefined || signature === undefined || sha256 === undefined) return { outcome: 'not_evidence' };
  if (!isSignedBy(key, sha256, signature)) return { outcome: 'altered' };
  const outcome = trusted.some((one) => key.equals(one)) ? 'verified' : 'unknown_key';
  return { outcome, key: evidenceKeyText(key), sha256, document };
}
