/** Proves that a create whose answer is lost is sent again with its idempotency key, and nothing else is. */
import { describe, expect, it } from 'vitest';
import { RingfenceError } from './error.ts';
import { fakeNetwork, json, problem, turn } from './fake.fixture.ts';
import { group } from './records.fixture.ts';

describe('a client that makes keys', () => {
  it('sends a create again with the same idempotency key while its answer is lost, and no other call', async () => {
    let failures = 2;
    const { client, seen, clock } = fakeNetwork(
      () => {
        failures -= 1;
        if (failures === 1) throw new TypeError('fetch failed');
        if (failures === 0) return problem(503, { code: 'outcome_unknown' }, { 'retry-after': '2' });
        return json(group(1, 12), { status: 201 });
      },
      { createKey: () => 'key-1' },
    );
    const creating = client.groups.create('o', { group_name: 'g' });
    for (let step = 0; step < 50 && seen.length < 3; step += 1) {
      await turn(4);
      await clock.advance(1_000);
    }
    expect(await creating).toEqual(group(1, 12));
    expect(seen.map(({ headers }) => headers['idempotency-key'])).toEqual(['key-1', 'key-1', 'key-1']);
    failures = 2;
    await expect(client.groups.update('o', 'g', {})).rejects.toThrow(/fetch failed/);
    expect(seen).toHaveLength(4);
    expect(seen[3]?.headers['idempotency-key']).toBeUndefined();
  });

  it('sends a create three times at most, and once without keys', async () => {
    const lost = () => problem(503, { code: 'outcome_unknown' }, { 'retry-after': '0' });
    const keyed = fakeNetwork(lost, { createKey: () => 'key-1' });
    const creating = keyed.client.devices.create('o', { public_key: 'k' });
    creating.catch(() => {});
    for (let step = 0; step < 50 && keyed.seen.length < 3; step += 1) {
      await turn(4);
      await keyed.clock.advance(1_000);
    }
    await expect(creating).rejects.toThrow(RingfenceError);
    expect(keyed.seen).toHaveLength(3);
    const plain = fakeNetwork(lost);
    await expect(plain.client.devices.create('o', { public_key: 'k' }, { idempotencyKey: 'mine' })).rejects.toThrow(
      RingfenceError,
    );
    expect(plain.seen.map(({ headers }) => headers['idempotency-key'])).toEqual(['mine']);
  });
});
