/** Proves that evidence claims nothing of devices whose policy changes while it is collected (reference 4.19 (7), (9)). */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Json } from '../../../test/lib/http.ts';
import {
  newPlace,
  startPostgres,
  startTestServer,
  type TestPostgres,
  type TestServer,
} from '../../../test/lib/server.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import { digestForm } from '../../policy/digest/digest-form.ts';
import { policyDigest } from '../../policy/digest/digest.ts';
import { readGroupRecord } from '../../policy/fleet/group-record.ts';
import { parseDeviceId, parseOrganizationId, parseUserId, type OrganizationId } from '../../policy/ids.ts';
import { startConvergence } from '../convergence/service.ts';
import { processSlices } from '../scheduling/time-slices.ts';
import type { Store } from '../store/open.ts';
import { openTestStore } from '../store/store.fixture.ts';
import { collectEvidence } from './evidence.ts';
import { TooMuchEvidence } from './file-room.ts';

let postgres: TestPostgres;
let server: TestServer;
beforeAll(async () => {
  postgres = await startPostgres();
  server = await startTestServer(postgres);
});
afterAll(async () => {
  await server.close();
  await postgres.stop();
});

type Step = () => Promise<void>;

/** Runs the first time that it is called. */
function once(step: Step | undefined): Step {
  let next = step;
  return async () => {
    const now = next;
    next = undefined;
    await now?.();
  };
}

/** Two devices with one group, which admits one port. Every change is reported by both at once, unless it is not to be. */
async function newPair() {
  const { owner, base, org } = await newPlace(server);
  const group = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'web' });
  const add = (hostname: string, tunnel_ip: string): Promise<Json> =>
    owner.api.expect(201, 'POST', `${base}/devices`, {
      public_key: `${base} ${hostname}`,
      hostname,
      tunnel_ip,
      security_groups: [group.id],
    });
  const devices = [await add('own', '100.64.0.1'), await add('far', '100.64.0.2')];
  const admit = async (port: number, { isReported = true } = {}): Promise<void> => {
    const record = await owner.api.expect(200, 'PATCH', `${base}/security_groups/${group.id}`, {
      inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port }],
    });
    if (!isReported) return;
    const status = {
      state: 'applied',
      revision: record.revision,
      policy_digest: policyDigest(canonicalize({ source: 'list', groups: [readGroupRecord(record)] })),
      policy_digest_form: digestForm,
    };
    for (const { id, device_token } of devices)
      await server.nobody.as(device_token).expect(200, 'PUT', `${base}/devices/${id}/status`, status);
  };

  const store = await openTestStore(server.databaseUrl);
  const slices = processSlices();
  const [monotonic, clock] = [() => performance.now(), () => Date.now()];
  const receipts = { ask: () => {}, onReported: () => () => {} };
  const convergence = startConvergence({ store, receipts, slices, monotonic, now: clock });
  onTestFinished(() => convergence.close());
  /** Evidence about a moment. The steps run while it is collected. */
  const inForceAt = async (at: number, steps: { readonly afterPolicy?: Step; readonly afterReports?: Step } = {}) => {
    const [afterPolicy, afterReports] = [once(steps.afterPolicy), once(steps.afterReports)];
    const question = {
      org: parseOrganizationId(org),
      device: parseDeviceId(devices[0]?.id),
      at,
      to: at,
      isSpan: false,
      by: { user_id: parseUserId(owner.id), username: owner.username },
    };
    const document = await collectEvidence(question, {
      store,
      slices,
      clock,
      version: '0',
      present: async (one) => {
        const snapshot = await store.models.read(one);
        await afterPolicy();
        return snapshot;
      },
      convergence: {
        ...convergence,
        survey: async (one) => {
          const survey = await convergence.survey(one);
          return {
            ...survey,
            enforcementStatuses: async (ids) => {
              const statuses = await survey.enforcementStatuses(ids);
              await afterReports();
              return statuses;
            },
          };
        },
      },
    });
    if (document === undefined) throw new Error('no such device');
    const { now, others } = document.in_force;
    return {
      own: `${now?.in_force} ${now?.same_policy}`,
      far: others?.receipts.map(({ in_force, same_policy }) => `${in_force} ${same_policy}`).join(),
      proven: others?.proven,
    };
  };
  /** Evidence of the last second, where the history says this. */
  const ofHistory = (between: Store['history']['between']) => {
    const to = Date.now();
    const question = {
      org: parseOrganizationId(org),
      device: parseDeviceId(devices[0]?.id),
      at: to - 1,
      to,
      isSpan: true,
      by: { user_id: parseUserId(owner.id), username: owner.username },
    };
    const present = (one: OrganizationId) => store.models.read(one);
    const history = { ...store.history, between };
    return collectEvidence(question, {
      store: { ...store, history },
      slices,
      clock,
      version: '0',
      present,
      convergence,
    });
  };
  return { admit, inForceAt, ofHistory };
}

/** A moment that no write shares. */
function moment(): number {
  const now = Date.now();
  while (Date.now() <= now + 1);
  return now + 1;
}

test('reports prove the last state if it is the policy before and after the server reads them', async () => {
  const { admit, inForceAt } = await newPair();
  await admit(80);
  expect(await inForceAt(moment())).toEqual({ own: 'yes true', far: 'yes true', proven: 1 });
});

test('a report of a policy that comes while evidence is collected proves nothing of the last state', async () => {
  const { admit, inForceAt } = await newPair();
  await admit(80);
  const at = moment();
  moment();
  const found = await inForceAt(at, { afterPolicy: () => admit(81) });
  expect(found).toMatchObject({ far: 'yes false', proven: 0 });
});

test('a report of another policy proves nothing of the last state, even if that comes back while evidence is collected', async () => {
  const { admit, inForceAt } = await newPair();
  await admit(80);
  const at = moment();
  moment();
  await admit(81);
  const found = await inForceAt(at, { afterReports: () => admit(80, { isReported: false }) });
  expect(found).toEqual({ own: 'yes false', far: 'yes false', proven: 0 });
});

test('states of megabytes are read some at a time, and no more of them than one file is made of', async () => {
  const { admit, ofHistory } = await newPair();
  await admit(80);
  moment();
  const json = JSON.stringify({ group_name: 'x'.repeat(4_000_000) });
  let [reads, largest] = [0, 0];
  const found = ofHistory((_org, { after, limit }) => {
    reads += 1;
    largest = Math.max(largest, limit);
    return Promise.resolve(
      Array.from({ length: limit }, (_, n) => ({
        kind: 'security-groups' as const,
        id: '00000000-0000-4000-8000-000000000001',
        revision: after + n + 1,
        at: new Date().toISOString(),
        json,
      })),
    );
  });
  await expect(found).rejects.toThrow(TooMuchEvidence);
  expect(reads * largest * json.length).toBeLessThan(256 * 1024 * 1024);
});
