/**
 * Proves what a process samples: it writes packet counts together, keeps them after a failed write, and records a
 * fleet's state once per time step.
 */
import { describe, expect, it } from 'vitest';
import { parseOrganizationId, type OrganizationId } from '../../policy/ids.ts';
import type { FleetSamples } from '../store/log/fleet-samples.ts';
import type { Convergence } from './contract.ts';
import { Sampler } from './sampler.ts';

const [acme, other] = ['a', 'b'].map((lead) => parseOrganizationId(`${lead}0000000-0000-4000-8000-000000000001`)) as [
  OrganizationId,
  OrganizationId,
];

function setUp() {
  const log: unknown[] = [];
  const state = {
    now: 1_000_000,
    fails: false,
    claimedByOthers: new Set<OrganizationId>(),
    broken: new Set<OrganizationId>(),
  };
  const samples: FleetSamples = {
    add: (counted) => {
      if (state.fails) return Promise.reject(new Error('away'));
      if (counted.length > 0) log.push(['add', ...counted]);
      return Promise.resolve();
    },
    claim: (orgs) => Promise.resolve(orgs.filter((org) => !state.claimedByOthers.has(org))),
    record: (org, counts) => Promise.resolve(void log.push(['record', org, counts])),
    read: () => Promise.resolve([]),
  };
  const counts = { yes: 2, behind: 0, failed: 1, reverted: 0, offline: 0, never_seen: 0, not_understood: 0 };
  const convergence: Pick<Convergence, 'count'> = {
    count: (org) => (state.broken.has(org) ? Promise.reject(new Error('broken')) : Promise.resolve(counts)),
  };
  const warnings: string[] = [];
  const onWarning = (message: string): void => void warnings.push(message);
  return { log, state, warnings, sampler: new Sampler({ samples, convergence, clock: () => state.now, onWarning }) };
}

describe('a sampler', () => {
  it('adds packets up by organization and writes them at once', async () => {
    const { log, sampler, state } = setUp();
    state.claimedByOthers = new Set([acme, other]);
    for (let n = 0; n < 100; n += 1) sampler.see(acme, { admitted: 2, refused: 1 });
    sampler.see(other, { admitted: 5, refused: 0 });
    await sampler.flush();
    expect(log).toEqual([['add', { org: acme, admitted: 200, refused: 100 }, { org: other, admitted: 5, refused: 0 }]]);
    await sampler.flush();
    expect(log).toHaveLength(1);
  });

  it('keeps what could not be written for the next time', async () => {
    const { log, sampler, state } = setUp();
    state.claimedByOthers = new Set([acme]);
    state.fails = true;
    sampler.see(acme, { admitted: 2, refused: 1 });
    await expect(sampler.flush()).rejects.toThrow('away');
    state.fails = false;
    sampler.see(acme, { admitted: 1, refused: 0 });
    await sampler.flush();
    expect(log).toEqual([['add', { org: acme, admitted: 3, refused: 1 }]]);
  });

  it('takes the state of a fleet that is heard of once in each step of time, and of a silent one never', async () => {
    const { log, sampler, state } = setUp();
    sampler.see(acme);
    await sampler.flush();
    sampler.see(acme);
    await sampler.flush();
    const taken = ['record', acme, { devices: 3, in_force: 2 }];
    expect(log).toEqual([taken]);
    state.now += 300_000;
    await sampler.flush();
    expect(log).toEqual([taken]);
    sampler.see(acme);
    await sampler.flush();
    expect(log).toEqual([taken, taken]);
  });

  it('takes the state of every other fleet where that of one cannot be told', async () => {
    const { log, sampler, state, warnings } = setUp();
    state.broken.add(acme);
    sampler.see(acme);
    sampler.see(other);
    await sampler.flush();
    expect(log).toEqual([['record', other, { devices: 3, in_force: 2 }]]);
    expect(warnings).toEqual(['cannot save the state of a fleet']);
  });

  it('adds up no further than numbers are exact, however much devices claim', async () => {
    const { log, sampler, state } = setUp();
    state.claimedByOthers = new Set([acme]);
    for (let n = 0; n < 3; n += 1) sampler.see(acme, { admitted: 9e15, refused: 1 });
    await sampler.flush();
    expect(log).toEqual([['add', { org: acme, admitted: Number.MAX_SAFE_INTEGER, refused: 3 }]]);
  });
});
