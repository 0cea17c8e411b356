/** Owns evidence in the database: one signing key for each organization, and what the audit knows of past writes. */
import type { Timestamp } from '../../../organization/decide/records.ts';
import { generateKeyPairSync } from 'node:crypto';
import { parseChangeSetId, type OrganizationId, type ChangeSetId, type DeviceId } from '../../../policy/ids.ts';
import type { PolicyTest } from '../../../policy/policy-test/policy-test.ts';
import { refuse } from '../../problems.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';
import { now } from '../write/stamp.ts';
import { inOrganization } from '../write/transaction.ts';
import { firstIdAt } from '../write/uuid.ts';
import type { Actor } from '../data/actor.ts';
import type { AuditRecord } from '../data/records.ts';

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

interface KeyRow {
  readonly public_key: Buffer;
  readonly created_at: string;
  readonly retired_at: string | null;
}

/** Values: organization. */
const listKeys = statement<KeyRow>(
  'list_evidence_keys',
  'SELECT public_key, created_at, retired_at FROM evidence_keys WHERE org_id = $1 ORDER BY serial DESC',
);
/** Of several that start together, one wins. Values: organization, public key, private key, now. */
const insertFirstKey = statement<never>(
  'insert_first_evidence_key',
  `INSERT INTO evidence_keys (org_id, public_key, private_key, created_at) SELECT id, $2, $3, $4 FROM organizations WHERE id = $1
   ON CONFLICT (org_id) WHERE retired_at IS NULL DO NOTHING`,
);
/** Values: organization. */
const presentKey = statement<{ public_key: Buffer; private_key: Buffer }>(
  'present_evidence_key',
  'SELECT public_key, private_key FROM evidence_keys WHERE org_id = $1 AND retired_at IS NULL',
);
/** Values: organization, now. */
const retireKey = statement<never>(
  'retire_evidence_key',
  'UPDATE evidence_keys SET retired_at = $2, private_key = NULL WHERE org_id = $1 AND retired_at IS NULL',
);

interface AuditedRow {
  readonly id: string;
  readonly revision: number;
  readonly operation: string;
  readonly credential: AuditedWrite['credential'];
  readonly address: string;
  readonly request_id: string;
  readonly change_id: string | null;
}

/** By the ids that the time of each write could have, so that the index finds them. Values: organization, records, revisions, first ids, last ids. */
const findAudited = statement<AuditedRow>(
  'find_audited_writes',
  `SELECT w.id, w.revision, a.operation, a.credential, a.address, a.request_id, a.change_id
   FROM unnest($2::uuid[], $3::bigint[], $4::uuid[], $5::uuid[]) AS w (id, revision, first, last)
   CROSS JOIN LATERAL (
     SELECT a.* FROM audit a WHERE a.org_id = $1 AND a.id >= w.first AND a.id < w.last AND a.subject_id = w.id AND a.revision = w.revision AND a.unchanged IS NULL
     ORDER BY a.id LIMIT 1) AS a`,
);

/** The first replacement of the tests after a moment says what they were before. Values: organization, first id after the moment, how far back the audit goes. */
const findTests = statement<{ before: string | null; present: string | null; is_kept: boolean }>(
  'find_past_tests',
  `SELECT (SELECT a.before FROM audit a WHERE a.org_id = $1 AND a.id >= $2 AND a.before LIKE '{"policy_tests":%' ORDER BY a.id LIMIT 1) AS before,
     (SELECT t.tests FROM policy_tests t WHERE t.org_id = $1) AS present,
     $2 >= $3::uuid AS is_kept`,
);

/** Clocks of servers differ; the audit entry has the time of its own server. */
const slackMs = 60_000;

const recordOf = ({ public_key, created_at, retired_at }: KeyRow): EvidenceKeyRecord => ({
  public_key,
  created_at,
  ...(retired_at !== null && { retired_at }),
});

/** The public key as its 32 bytes, the private one in PKCS #8. */
function newKey(): { readonly public_key: Buffer; readonly private_key: Buffer } {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const { x = '' } = publicKey.export({ format: 'jwk' });
  return {
    public_key: Buffer.from(x, 'base64url'),
    private_key: privateKey.export({ format: 'der', type: 'pkcs8' }),
  };
}

export function evidenceIn(context: Context, auditRetentionMs: number) {
  const { reads, writes } = context;

  const insertKey = async (runner: Runner, org: string): Promise<void> => {
    const { public_key, private_key } = newKey();
    await runner.run(insertFirstKey, [org, public_key, private_key, now(context)]);
  };

  return {
    /** The present key first. The first call makes one. */
    async keys(org: OrganizationId): Promise<readonly EvidenceKeyRecord[]> {
      let rows = await reads.run(listKeys, [org]);
      if (rows.length === 0) {
        await insertKey(writes, org);
        rows = await writes.run(listKeys, [org]);
      }
      return rows.map(recordOf);
    },

    /** Makes a new key and forgets the private part of the present one. */
    async rotate(org: OrganizationId, by: Actor): Promise<EvidenceKeyRecord> {
      return inOrganization(
        context,
        org,
        by,
        async ({ tx }) => {
          await tx.run(retireKey, [org, now(context)]);
          await insertKey(tx, org);
          const [row] = await tx.run(listKeys, [org]);
          return row === undefined ? refuse({ code: 'not_found', what: 'organization' }) : recordOf(row);
        },
        () => ({ subject_id: org }),
      );
    },

    /** Signs with the present key, in the transaction that checks the right and writes the audit entry. */
    async seal<Signature>(
      org: OrganizationId,
      by: Actor,
      { device, hostname, at, to, sha256, sign }: NewEvidence<Signature>,
    ): Promise<Signature> {
      return inOrganization(
        context,
        org,
        by,
        async ({ tx }) => {
          let [key] = await tx.run(presentKey, [org]);
          if (key === undefined) {
            await insertKey(tx, org);
            [key] = await tx.run(presentKey, [org]);
          }
          if (key === undefined) return refuse({ code: 'not_found', what: 'organization' });
          return sign(key);
        },
        () => ({ subject_id: device, name: hostname, after: { at, ...(to !== undefined && { to }), sha256 } }),
      );
    },

    /** The audit entries of these writes, as far as they are kept. */
    async audited(org: OrganizationId, named: readonly NamedWrite[]): Promise<readonly AuditedWrite[]> {
      if (named.length === 0) return [];
      const at = (ms: number) => named.map((write) => firstIdAt(Date.parse(write.at) + ms));
      const rows = await reads.run(findAudited, [
        org,
        named.map(({ id }) => id),
        named.map(({ revision }) => String(revision)),
        at(-slackMs),
        at(slackMs),
      ]);
      return rows.map(({ change_id, ...row }) => ({
        ...row,
        ...(change_id !== null && { change_id: parseChangeSetId(change_id) }),
      }));
    },

    /** The policy tests at a past moment; undefined where the audit does not reach back that far. */
    async testsAt(org: OrganizationId, at: Timestamp): Promise<readonly PolicyTest[] | undefined> {
      const kept = firstIdAt(context.clock() - auditRetentionMs);
      const [row] = await reads.run(findTests, [org, firstIdAt(Date.parse(at) + 1), kept]);
      if (row === undefined || !row.is_kept) return undefined;
      if (row.before !== null) return (JSON.parse(row.before) as { policy_tests: readonly PolicyTest[] }).policy_tests;
      return row.present === null ? [] : (JSON.parse(row.present) as readonly PolicyTest[]);
    },
  };
}
