/** Owns the wire form of evidence about a device, and its rows of the table of operations (reference 4.19). */
import { Type } from 'typebox';
import type { DeviceId, OrganizationId } from '../../policy/ids.ts';
import type { Row } from '../operation-row.ts';
import { id, strict, Timestamp, type Wire } from '../scalar.ts';

const EvidenceRequest = Type.Object(
  {
    at: { ...Timestamp, description: 'The moment, or the start of a span; in the past.' },
    to: Type.Optional({ ...Timestamp, description: 'The end of the span; in the past. Absent: the moment only.' }),
  },
  {
    ...strict,
    $id: 'EvidenceRequest',
    title: 'EvidenceRequest',
    examples: [{ at: '2026-11-09T00:00:00Z', to: '2026-11-10T00:00:00Z' }],
  },
);

const keyText = 'Public key of the organization: `ed25519:` and the key in base64url.';

const EvidenceFile = Type.Object(
  {
    organization_id: id<OrganizationId>('The organization.'),
    device_id: id<DeviceId>('The device.'),
    at: Timestamp,
    to: Type.Optional(Timestamp),
    key: Type.String({ description: keyText }),
    sha256: Type.String({ description: 'Digest of the file, as the audit keeps it.' }),
    file: Type.String({
      description:
        'The file: an HTML page that holds the same as JSON, and a signature over all of it in its last line. Write it as it is.',
    }),
  },
  { ...strict, $id: 'EvidenceFile', title: 'EvidenceFile' },
);

export const EvidenceKey = Type.Object(
  {
    key: Type.String({ description: keyText }),
    created_at: Timestamp,
    retired_at: Type.Optional({
      ...Timestamp,
      description: 'When another key took its place; absent of the present one.',
    }),
  },
  { ...strict, $id: 'EvidenceKey', title: 'EvidenceKey' },
);
export type EvidenceKey = Wire<typeof EvidenceKey>;

export const evidenceRows = {
  createEvidence: {
    effect: 'write',
    cost: 'organization',
    tag: 'audit',
    summary: 'Make a signed file about a device: who could reach it, by which rules, and who wrote them',
    body: EvidenceRequest,
    answer: EvidenceFile,
    fails: ['revision_gone'],
  },
  listEvidenceKeys: {
    effect: 'read',
    cost: 'fixed',
    tag: 'audit',
    summary: 'The keys that sign the evidence of the organization, the present one first',
    answer: EvidenceKey,
  },
  rotateEvidenceKey: {
    effect: 'write',
    cost: 'fixed',
    tag: 'audit',
    summary: 'Sign with a new key from now on, and delete the private part of the present one',
    answer: EvidenceKey,
  },
} as const satisfies Readonly<Record<string, Row>>;
