/** Owns the wire form of evidence about a device, and its rows of the table of operations (reference 4.19). */
import { Type } from 'typebox';
import type { Row } from '../operation-row.ts';
import { strict, Timestamp, type Wire } from '../scalar.ts';
import { evidenceFormat, type SignedEvidence } from './document.ts';

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

const part = (description: string) => Type.Object({}, { additionalProperties: true, description });

/** Its parts are described by their types: a program that reads them is written against a file, and not against a schema. */
const Evidence = Type.Unsafe<SignedEvidence>(
  Type.Object(
    {
      format: Type.Literal(evidenceFormat),
      organization: part('The organization.'),
      device: part('The device.'),
      at: Timestamp,
      to: Type.Optional(Timestamp),
      created_at: Timestamp,
      created_by: part('Who asked for it.'),
      server_version: Type.String(),
      states: Type.Array(part('One state of the device, and what made it.')),
      rules: part('Every rule that a state names, by the key that states use.'),
      in_force: part('What the devices report, and samples of the organization.'),
      traffic: part('What the device refused.'),
      policy_tests: part('The tests about the device.'),
      not_known: Type.Array(Type.String(), { description: 'What it cannot say, in sentences.' }),
      signature: Type.Object(
        { key: Type.String({ description: keyText }), value: Type.String({ description: 'In base64url.' }) },
        { ...strict, description: 'Ed25519 over the canonical form of all other members.' },
      ),
    },
    { ...strict, $id: 'Evidence', title: 'Evidence' },
  ),
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
    summary: 'Make signed evidence about a device: who could reach it, by which rules, and who wrote them',
    body: EvidenceRequest,
    answer: Evidence,
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
