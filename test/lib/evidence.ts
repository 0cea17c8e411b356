/** Owns a small evidence file for tests, signed by a key of its own. */
import { generateKeyPairSync } from 'node:crypto';
import { digestOfEvidence, evidenceKeyText, signEvidence } from '../../src/node/evidence-file.ts';

const document = {
  format: 'ringfence-evidence-1',
  organization: { id: '00000000-0000-4000-8000-000000000001', name: 'acme' },
  device: { id: '00000000-0000-4000-8000-000000000002', hostname: 'db-1' },
  at: '2026-11-09T00:00:00.000Z',
  created_at: '2026-11-18T00:00:00.000Z',
  created_by: { user_id: '00000000-0000-4000-8000-000000000003', username: 'ada' },
  not_known: ['What was refused in that time is not known.'],
};

export interface TestEvidence {
  readonly file: string;
  readonly key: string;
}

export function newEvidenceFile(): TestEvidence {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const public_key = Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url');
  const private_key = privateKey.export({ format: 'der', type: 'pkcs8' });
  const signature = signEvidence(digestOfEvidence(document), { public_key, private_key });
  return { file: JSON.stringify({ ...document, signature }), key: evidenceKeyText(public_key) };
}
