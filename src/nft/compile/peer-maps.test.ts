/** Proves that a policy by names is enforced as the same policy by addresses, and that members come and go without touching a chain. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { rounds } from '../../../test/lib/thorough.ts';
import { canonicalize, canonicalizeNames } from '../../policy/canonicalize.ts';
import { policyDigest } from '../../policy/digest/digest.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { device, fleetChange, guardedPolicy } from '../../policy/fleet/fleet.fixture.ts';
import { Fleet } from '../../policy/fleet/fleet.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import { peersOf, resolvePolicy } from '../../policy/fleet/resolve.ts';
import { parseGroupId } from '../../policy/ids.ts';
import type { PolicyGroup, StoredRule } from '../../policy/rule.ts';
import type { Command, Ruleset } from '../ast.ts';
import { compile, forwardPolicy } from './compile.ts';
import { decompile } from '../read/decompile.ts';
import type { Installed } from '../read/listing.ts';
import { parseListing } from '../read/parse-listing.fixture.ts';
import { listingOf } from '../read/listing.fixture.ts';
import { parseInterfaceName } from '../names.ts';
import { plan, type Update } from '../plan/plan.ts';

const options = { interface: parseInterfaceName('wg0'), neighbourDiscovery: true, forwarding: 'on' } as const;
function byNames(policy: EffectivePolicy, fleet: Fleet): Ruleset {
  const resolved = resolvePolicy(policy, fleet);
  return compile(canonicalizeNames(resolved) ?? canonicalize(resolved), options);
}

function updateOf(installed: Ruleset, desired: Ruleset): Update {
  const listing = listingOf(installed);
  const update = plan(parseListing(listing), desired, parseListing(listing, 'service-forward'));
  if (update.kind === 'tampered') throw new Error('somebody changed a chain');
  return update;
}

describe('a policy by names', () => {
  test('reads back as the same policy by addresses, in both tables, whoever the devices are', () => {
    fc.assert(
      fc.property(
        guardedPolicy,
        fc.array(device, { maxLength: 12 }),
        fc.record({ mostSets: fc.constantFrom(undefined, 0), mostAlone: fc.constantFrom(undefined, 1) }),
        fc.infiniteStream(fc.boolean()),
        (policy, devices, bounds, coins) => {
          const fleet = new Fleet(devices);
          const resolved = resolvePolicy(policy, fleet);
          const canonical = canonicalize(resolved);
          const named = canonicalizeNames(resolved) ?? canonical;
          const ruleset = compile(named, { ...options, ...bounds });
          const listing = listingOf(ruleset, () => coins.next().value === true);
          const [own, forward] = [parseListing(listing), parseListing(listing, 'service-forward')];
          const read = (installed: Installed | undefined, table?: 'service-forward') => {
            if (installed === undefined) return undefined;
            const { enforced, findings } = decompile(installed, table);
            expect(findings).toEqual([]);
            return enforced && policyDigest(enforced.policy);
          };
          expect(read(own)).toBe(policyDigest(canonical));
          const judged = forwardPolicy(named, 'on', canonical);
          if (judged !== undefined) expect(read(forward, 'service-forward')).toBe(policyDigest(judged));
          expect(updateOf(ruleset, ruleset)).toEqual({ kind: 'update', stage: [], flip: [], collect: [] });
        },
      ),
      { numRuns: rounds(40, 400) },
    );
  });
});

describe('a change of the fleet', () => {
  test('changes members and nothing else, and only those that it touches', () => {
    fc.assert(
      fc.property(guardedPolicy, fc.array(device, { maxLength: 12 }), fleetChange, (policy, devices, change) => {
        const fleet = new Fleet(devices);
        for (const peer of peersOf(policy)) fleet.addressesOf(peer);
        const before = byNames(policy, fleet);
        const changes = 'gone' in change ? fleet.delete(change.gone) : fleet.set(change);
        const after = byNames(policy, fleet);
        const { members = [], ...rest } = updateOf(before, after);
        expect(rest).toEqual({ kind: 'update', stage: [], flip: [], collect: [] });
        if (changes.length === 0) expect(members).toEqual([]);
        expect(members.length).toBeLessThanOrEqual(4);
      }),
    );
  });

  const uuid = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
  const rule = (...labels: string[]): StoredRule => ({
    ip_protocol: 'tcp',
    from_port: 22,
    to_port: 22,
    peers: labels.map((label) => ({ labels: [label] })),
  });
  const group = (n: number, ...labels: string[]): PolicyGroup => ({
    id: parseGroupId(uuid(n)),
    name: '',
    inbound: [rule(...labels)],
    outbound: [],
  });
  const policy: EffectivePolicy = {
    source: 'list',
    groups: [group(1, 'db'), group(2, 'web')],
    guardrails: { forbid: [group(3, 'lost')], require: [] },
  };
  const here = (...labels: string[]) => deviceIdentity({ id: uuid(9), addresses: ['10.0.0.1'], labels });
  const stepsOf = (from: readonly string[], to: readonly string[]): string[][] => {
    const { members = [] } = updateOf(
      byNames(policy, new Fleet([here(...from)])),
      byNames(policy, new Fleet([here(...to)])),
    );
    const word = ({ kind, ...rest }: Command): string => `${kind} ${'map' in rest ? rest.map.replace(/-.*/, '') : ''}`;
    return members.map((batch) => [...new Set(batch.map(word))]);
  };

  test.each<[string, string[], string[], string[][]]>([
    ['joins', [], ['db'], [['addElements peers4']]],
    ['leaves', ['db'], [], [['deleteElements peers4']]],
    ['changes who counts it, in one transaction', ['db'], ['web'], [['deleteElements peers4', 'addElements peers4']]],
    ['becomes forbidden', ['db'], ['db', 'lost'], [['addElements forbid4']]],
    ['is forbidden before it is admitted', [], ['db', 'lost'], [['addElements forbid4'], ['addElements peers4']]],
    [
      'is no longer admitted before it is no longer forbidden',
      ['db', 'lost'],
      [],
      [['deleteElements peers4'], ['deleteElements forbid4']],
    ],
  ])('takes as many transactions as packets could tell apart: a device %s', (_, from, to, steps) => {
    expect(stepsOf(from, to)).toEqual(steps);
  });

  test('keeps the map when it empties, and takes it away only with the rule', () => {
    const one: EffectivePolicy = { source: 'list', groups: [group(1, 'db')] };
    const fleet = new Fleet([here('db')]);
    const [before, after] = [byNames(one, fleet), byNames({ source: 'list', groups: [group(2, 'web')] }, fleet)];
    const { stage, collect } = updateOf(before, after);
    expect(stage.filter(({ kind }) => kind === 'addMap')).toHaveLength(4);
    expect(collect.filter((each) => each.kind === 'deleteObject' && each.object === 'map')).toHaveLength(4);
  });
});
