/** Owns the interface of evidence in the store: the keys that sign it, who wrote what, and the tests of a past moment (docs/decisions/audit-and-evidence.md). */
import type { PolicyTest } from '../../../../policy/policy-test/policy-test.ts';
import type { ChangeSetId, DeviceId, OrganizationId } from '../../../../policy/ids.ts';
import type { Actor } from '../actor.ts';
import type { AuditRecord, Timestamp } from '../records.ts';

export interface EvidenceKeyRecord {
  /** Raw, 32 bytes. */
  readonly public_key: Uint8Array;
  readonly created_at: Timestamp;
  readonly retired_at?: Timestamp;
}

/** One write of a record, as history names it. */
export interface NamedWrite {
  readonly id: string;
  readonly revision: number;
  readonly at: Timestamp;
}

/** What the audit says of a write. */
export interface AuditedWrite {
  readonly id: string;
  readonly revision: number;
  readonly operation: string;
  readonly credential: AuditRecord['credential']['kind'];
  readonly address: string;
  readonly request_id: string;
  readonly change_id?: ChangeSetId;
}

export interface NewEvidence<Signature> {
  readonly device: DeviceId;
  readonly hostname: string;
  readonly at: Timestamp;
  readonly to?: Timestamp | undefined;
  /** Of what is signed, in hexadecimal: the audit keeps it. */
  readonly sha256: string;
  /** The private key is in PKCS #8. */
  readonly sign: (key: { readonly public_key: Uint8Array; readonly private_key: Uint8Array }) => Signature;
}

export interface Evidence {
  /** The present key first. The first call makes one. */
  keys(org: OrganizationId): Promise<readonly EvidenceKeyRecord[]>;
  /** Makes a new key and forgets the private part of the present one. */
  rotate(org: OrganizationId, by: Actor): Promise<EvidenceKeyRecord>;
  /** Signs with the present key, in the transaction that checks the right and writes the audit entry. */
  seal<Signature>(org: OrganizationId, by: Actor, evidence: NewEvidence<Signature>): Promise<Signature>;
  /** The audit entries of these writes, as far as they are kept. */
  audited(org: OrganizationId, writes: readonly NamedWrite[]): Promise<readonly AuditedWrite[]>;
  /** The policy tests at a past moment; undefined where the audit does not reach back that far. */
  testsAt(org: OrganizationId, at: Timestamp): Promise<readonly PolicyTest[] | undefined>;
}
