/** Proves that what is worked out has a size, whatever a member's groups hold: pages end earlier, and what one device has too much is counted (reference 4.16 (4), 8 (15)). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { worstPolicy } from '../../src/policy/worst-policies.fixture.ts';
import type { Json } from '../lib/http.ts';
import { startPostgres, type TestPostgres } from '../lib/postgres.ts';
import { newPlace, startTestServer, type Place, type TestServer } from '../lib/server.ts';

const mostBytes = 16 * 1024 * 1024;

let postgres: TestPostgres;
let server: TestServer;

beforeAll(async () => {
  postgres = await startPostgres();
  // Only what questions cost is judged here, and not how busy the machine is.
  server = await startTestServer(postgres, { answerTimeout: 240 });
});
afterAll(async () => {
  await server?.close();
  await postgres?.stop();
});

/** A member's device with five groups of its own: 50,000 ranges that overlap, each on ports of its own. */
async function heavy(): Promise<{ readonly place: Place; readonly device: Json }> {
  const place = await newPlace(server);
  const { groups } = worstPolicy({
    groups: 5,
    rules: 1_000,
    ranges: 10,
    addresses: 'windows',
    ports: 'short',
    protocols: 'both',
    families: 'v4',
    directions: 1,
    seed: 1,
  });
  const ids: string[] = [];
  for (const { name, inbound } of groups) {
    const body = { group_name: name, inbound_rules: inbound };
    const made = await place.member.api.expect(201, 'POST', `/api/user/${place.org}/security_groups`, body);
    ids.push(made.id as string);
  }
  const body = { public_key: 'heavy', tunnel_ip: '100.64.0.1', security_groups: ids };
  return { place, device: await place.member.api.expect(201, 'POST', `${place.base}/devices`, body) };
}

const simulate = async (place: Place, body: object): Promise<{ size: number; answer: Json }> => {
  const answered = await place.member.api.post(`${place.base}/simulate`, body);
  expect(answered.status).toBe(200);
  return { size: Buffer.byteLength(answered.text), answer: answered.json };
};

describe('the answer about a device with 50,000 overlapping ranges', () => {
  test('has a size, and counts exactly what it leaves out; so does evidence, which names it', async () => {
    const { place, device } = await heavy();
    const { size, answer } = await simulate(place, { delete: [device.id] });
    expect(size).toBeLessThan(mostBytes);
    expect(answer).toMatchObject({ affected: 1, devices: [device.id], gained: [] });
    const inbound = (entries: readonly Json[]): number =>
      entries.filter(({ direction }) => direction === 'inbound').length;
    expect(inbound(answer.lost)).toBeGreaterThan(1_000);
    expect(answer.too_much.lost).toBeGreaterThan(1_000);
    // The default group admits everything: what is gained is as large as what the groups refuse.
    const opened = await simulate(place, { devices: [{ id: device.id, security_groups: [] }] });
    expect(opened.size).toBeLessThan(mostBytes);
    expect(opened.answer.too_much.gained).toBeGreaterThan(1_000);

    const evidence = await place.owner.api.post(`${place.base}/devices/${device.id}/evidence`, {
      at: new Date().toISOString(),
    });
    expect(evidence.status).toBe(200);
    expect(Buffer.byteLength(evidence.text)).toBeLessThan(mostBytes);
    const { states, not_known } = evidence.json;
    const [{ admits, admits_more }] = states;
    // However much of it each answer tells, it is the same set.
    expect(inbound(admits) + admits_more).toBe(inbound(answer.lost) + answer.too_much.lost);
    expect(not_known.join(' ')).toContain('more sets of addresses and ports than this file lists');
  });
});
