/** Proves that tests are judged pair by pair as `decide` judges packets, and what a failure names. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseAddress, printAddress } from '../../policy/address.ts';
import { decide } from '../../policy/decide.ts';
import { effectivePolicy, type EffectivePolicy } from '../../policy/effective.ts';
import { device, deviceIds, guardedPolicy, peer } from '../../policy/fleet/fleet.fixture.ts';
import { Fleet } from '../../policy/fleet/fleet.ts';
import { isNamed } from '../../policy/fleet/selector.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import { policyIsolation } from '../../policy/isolation/isolation.ts';
import { parseDeviceId, parseGroupId, type GroupId } from '../../policy/ids.ts';
import type { PolicyGroup, Selector, StoredRule } from '../../policy/rule.ts';
import { transportOf } from './admitted.ts';
import { TestsTooCostly } from './effort.ts';
import { evaluateTests, judgeTests, testStates, type JudgedTests } from './evaluate.ts';
import { failureInWords } from '../../policy/policy-test/words.ts';
import {
  emptyOrganization,
  overlay,
  type Organization,
  type OrganizationChange,
  type OrganizationDevice,
} from '../organization.ts';
import { modelGroup } from '../organization.fixture.ts';
import { policyAt } from '../../policy/time/policy-at.ts';
import { testLimits, type PolicyTest, type TestEnd } from '../../policy/policy-test/policy-test.ts';

const policyIn = ({ identity, list }: OrganizationDevice, { devices, groups, defaultGroup, at }: Organization) => {
  const { labels } = identity;
  const find = (id: GroupId): PolicyGroup | undefined => groups.get(id)?.group;
  const isolated = [...devices.values()].map((each) => each.identity);
  const policy = effectivePolicy({
    isolation: policyIsolation(identity, isolated),
    list,
    find,
    defaultGroup: defaultGroup && find(defaultGroup),
    labels,
    byLabel: [...groups.values()].map(({ group }) => group),
  });
  if ('missing' in policy) throw new Error('a group is missing');
  return policyAt(policy, at).policy;
};

const now = Date.parse('2030-01-01T00:00:00Z');

function snapshotOf(
  devices: readonly Omit<OrganizationDevice, 'id'>[],
  groups: readonly PolicyGroup[],
  defaultGroup: PolicyGroup,
): Organization {
  const changes = [
    ...devices.map((each) => ({
      kind: 'device' as const,
      id: parseDeviceId(each.identity.id),
      device: { id: parseDeviceId(each.identity.id), ...each },
    })),
    ...[...groups, defaultGroup].map((each) => ({
      kind: 'group' as const,
      id: each.id,
      group: modelGroup(each, each === defaultGroup),
    })),
  ];
  return overlay(emptyOrganization, changes, { at: now });
}

/** Pair by pair and address by address. */
function slowly(state: Organization, test: PolicyTest): 'passing' | 'failing' | 'vacuous' {
  const fleet = new Fleet([...state.devices.values()].map(({ identity }) => identity));
  const endOf = (end: TestEnd) => {
    if (!('address' in end)) {
      return [...state.devices.values()]
        .filter(({ identity }) => isNamed(end, identity))
        .map((each) => ({ device: each, addresses: each.identity.addresses }));
    }
    const address = parseAddress(end.address);
    return 'fault' in address ? [] : [{ device: undefined, addresses: [address] }];
  };
  const verdicts: boolean[] = [];
  const admits = (
    own: OrganizationDevice | undefined,
    direction: 'inbound' | 'outbound',
    far: { family: 4 | 6; value: bigint },
  ) => {
    const policy: EffectivePolicy | undefined = own && policyIn(own, state);
    const packet = { direction, family: far.family, remote: far.value, transport: transportOf(test, far.family) };
    return policy === undefined || decide(policy, packet, { fleet }).verdict === 'accept';
  };
  for (const a of endOf(test.from)) {
    for (const b of endOf(test.to)) {
      if (a.device !== undefined && a.device === b.device) continue;
      for (const x of a.addresses) {
        for (const y of b.addresses) {
          if (x.family === y.family) verdicts.push(admits(a.device, 'outbound', y) && admits(b.device, 'inbound', x));
        }
      }
    }
  }
  if (verdicts.length === 0) return 'vacuous';
  return verdicts.every((verdict) => verdict === (test.expect === 'allow')) ? 'passing' : 'failing';
}

const some: fc.Arbitrary<Organization> = fc
  .tuple(guardedPolicy, fc.array(fc.tuple(device, fc.nat(7)), { maxLength: 12 }), fc.array(peer, { maxLength: 2 }))
  .map(([{ groups, guardrails }, devices, selectors]) => {
    const appliesTo = selectors.flatMap((each): Selector[] => ('device_id' in each ? [] : [each]));
    const rails = (kind: 'forbid' | 'require'): PolicyGroup[] =>
      (guardrails?.[kind] ?? []).map((group) => ({ ...group, guardrail: kind, appliesTo }));
    const [first, ...others] = groups;
    const byLabel = first === undefined ? [] : [{ ...first, appliesTo }];
    const all = [...byLabel, ...others, ...rails('forbid'), ...rails('require')];
    const defaultGroup = {
      id: parseGroupId('00000000-0000-4000-8000-0000000000ff'),
      name: 'default',
      inbound: others[0]?.inbound ?? [],
      outbound: [],
    };
    const listed = devices.map(([identity, bits]) => ({
      identity: bits === 7 ? { ...identity, isolated: { allow: selectors } } : identity,
      hostname: '',
      list: others.filter((_, index) => (bits >> index) & 1).map(({ id }): GroupId => id),
    }));
    // Every third rule has expired, or will.
    const expiring = (rules: readonly StoredRule[]): readonly StoredRule[] =>
      rules.map((rule, index) =>
        index % 3 === 0 ? { ...rule, expires_at: new Date(now + (index % 2 === 0 ? 0 : 1)).toISOString() } : rule,
      );
    const timed = all.map((each) => ({ ...each, inbound: expiring(each.inbound), outbound: expiring(each.outbound) }));
    return snapshotOf(listed, timed, defaultGroup);
  });

const end: fc.Arbitrary<TestEnd> = fc.oneof(
  { weight: 5, arbitrary: peer },
  { weight: 1, arbitrary: fc.constantFrom('10.0.0.3', 'fd00::4', '192.0.2.1').map((address) => ({ address })) },
);
const aTest: fc.Arbitrary<PolicyTest> = fc
  .tuple(
    end,
    end,
    fc.constantFrom('tcp', 'udp', 'icmp'),
    fc.constantFrom(22, 53, 443, 8080),
    fc.constantFrom('allow', 'refuse'),
  )
  .map(([from, to, protocol, port, expectation]) => ({
    name: 't',
    from,
    to,
    protocol,
    ...(protocol !== 'icmp' && { port }),
    expect: expectation,
  }))
  .filter(({ from, to }) => !('address' in from && 'address' in to));

it('a test has the state that its pairs have one by one, and a failing one names a pair that decide judges so', () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(some, fc.array(aTest, { minLength: 4, maxLength: 12 }), (state, tests) => {
      const results = evaluateTests(state, tests);
      const fleet = new Fleet([...state.devices.values()].map(({ identity }) => identity));
      expect(results.map((result) => result.state)).toEqual(tests.map((test) => slowly(state, test)));
      for (const [index, result] of results.entries()) {
        const test = tests[index] as PolicyTest;
        seen.add(`${test.expect} ${result.state}`);
        if (result.state !== 'failing') continue;
        const { failure } = result;
        const own = state.devices.get(failure.device_id) as OrganizationDevice;
        const far = parseAddress(failure.direction === 'outbound' ? failure.to.address : failure.from.address);
        if ('fault' in far) throw new Error('that is an address');
        const { family, value } = far;
        const { direction } = failure;
        const packet = { direction, family, remote: value, transport: transportOf(test, family) };
        const { verdict, reason } = decide(policyIn(own, state), packet, { fleet });
        const kind = reason.kind === 'far-end-isolated' ? 'isolated' : reason.kind;
        expect([verdict, kind]).toEqual([test.expect === 'allow' ? 'drop' : 'accept', failure.reason]);
        expect(failure.from.device_id === undefined || failure.from.device_id !== failure.to.device_id).toBe(true);
      }
    }),
    { numRuns: 60 },
  );
  expect([...seen].toSorted()).toEqual(
    ['allow', 'refuse'].flatMap((word) => ['failing', 'passing', 'vacuous'].map((state) => `${word} ${state}`)),
  );
});

describe('while changes are tried', () => {
  /** Every second group is on trial: before, it had the rules of the next one. Trials end one after the other. */
  function tried(state: Organization): { readonly now: Organization; readonly ended: Organization } {
    const groups = [...state.groups.values()];
    const changed = groups.flatMap((each, index) => {
      const { name, appliesTo = [], mode = 'enforce' } = each.group;
      const { inbound, outbound } = groups[(index + 1) % groups.length]?.group ?? each.group;
      return index % 2 === 0 ? [{ each, before: { name, inbound, outbound, appliesTo, mode } }] : [];
    });
    const write = (groupOf: (index: number) => PolicyGroup): Organization =>
      overlay(
        state,
        changed.map(({ each }, index) => ({
          kind: 'group' as const,
          id: each.group.id,
          group: { ...each, group: groupOf(index) },
        })),
      );
    const onTrial = (index: number): PolicyGroup => {
      const { each, before } = changed[index] as (typeof changed)[number];
      const ends_at = new Date(now + 60_000 * (index + 1)).toISOString();
      return { ...each.group, trial: { id: String(index), ends_at, before } };
    };
    return {
      now: write(onTrial),
      ended: write((index) => {
        const { each, before } = changed[index] as (typeof changed)[number];
        return { ...each.group, ...before };
      }),
    };
  }

  it('a test passes that holds now and when every trial has ended; one that holds only now fails with `until`', () => {
    const seen = new Set<string>();
    fc.assert(
      fc.property(some, fc.array(aTest, { minLength: 4, maxLength: 12 }), (state, tests) => {
        const during = tried(state);
        const results = evaluateTests(during.now, tests);
        for (const [index, result] of results.entries()) {
          const test = tests[index] as PolicyTest;
          const [holds, willHold] = [slowly(during.now, test), slowly(during.ended, test)];
          const expected = holds === 'passing' ? willHold : holds;
          expect(result.state).toBe(expected);
          seen.add(`${holds} ${willHold}`);
          if (result.state !== 'failing') continue;
          expect(result.until !== undefined).toBe(holds === 'passing');
          if (result.until === undefined) continue;
          // At that time it fails, and just before it passes.
          const ends = Date.parse(result.until);
          const at = (moment: number): string => {
            const groups = [...during.now.groups.values()].map((each) => {
              const { trial, ...group } = each.group;
              const hasEnded = trial !== undefined && Date.parse(trial.ends_at) <= moment;
              const ended = { ...group, ...(hasEnded ? trial.before : undefined) } as PolicyGroup;
              return { kind: 'group' as const, id: group.id, group: { ...each, group: ended } };
            });
            return slowly(overlay(during.now, groups), test);
          };
          expect([at(ends - 1), at(ends)]).toEqual(['passing', 'failing']);
        }
      }),
      { numRuns: 60 },
    );
    expect([...seen]).toEqual(expect.arrayContaining(['passing passing', 'passing failing', 'failing passing']));
  });
});

it('after a write, what nothing has touched is known from before, and all comes out as if it were judged anew', () => {
  const run = (steps: ReturnType<typeof judgeTests>): JudgedTests => {
    for (;;) {
      const { done, value } = steps.next();
      if (done === true) return value;
    }
  };
  let reused = 0;
  fc.assert(
    fc.property(some, some, fc.nat(), fc.array(aTest, { minLength: 4, maxLength: 12 }), (state, other, seed, tests) => {
      let [present, judged] = [state, run(judgeTests(state, tests))];
      const [devices, groups] = [[...other.devices.values()], [...other.groups.values()]];
      // One record after the other becomes what it is elsewhere, or goes, or comes back.
      for (let write = 0; write < 4; write += 1) {
        const given = devices[(seed + write) % Math.max(1, devices.length)];
        const changed = groups[(seed + write) % groups.length];
        const isGone = (seed + write) % 3 === 0;
        const ids = new Set(present.groups.keys());
        if (write % 2 === 0 && given !== undefined) {
          const list = given.list.filter((id) => ids.has(id));
          const written = isGone ? undefined : { ...given, list };
          present = overlay(present, [{ kind: 'device', id: given.id, device: written }]);
        } else if (changed !== undefined)
          present = overlay(present, [{ kind: 'group', id: changed.group.id, group: changed }]);
        const [after, fresh] = [run(judgeTests(present, tests, { before: judged })), run(judgeTests(present, tests))];
        const all = ({ resultOf }: JudgedTests) => tests.map((_, index) => resultOf(index).state);
        expect(all(after)).toEqual(all(fresh));
        if (after.done < after.steps) reused += 1;
        judged = after;
      }
    }),
    { numRuns: 100 },
  );
  expect(reused).toBeGreaterThan(20);
});

const idOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const tcp = (port: number, more: Partial<StoredRule> = {}): StoredRule => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...more,
});
const group = (n: number, inbound: readonly StoredRule[], more: Partial<PolicyGroup> = {}): PolicyGroup => ({
  id: parseGroupId(idOf(100 + n)),
  name: `group ${n}`,
  inbound,
  outbound: [],
  ...more,
});
const deviceOf = (
  n: number,
  labels: readonly string[],
  groups: readonly PolicyGroup[],
  addresses = [`100.64.0.${n}`],
): Omit<OrganizationDevice, 'id'> => ({
  identity: deviceIdentity({ id: idOf(n), labels, addresses }),
  hostname: `host-${n}`,
  list: groups.map(({ id }) => id),
});
const stateOf = (devices: readonly Omit<OrganizationDevice, 'id'>[], groups: readonly PolicyGroup[]): Organization =>
  snapshotOf(devices, groups, group(99, []));
const test = (from: TestEnd, to: TestEnd, more: Partial<PolicyTest> = {}): PolicyTest => ({
  name: 't',
  from,
  to,
  protocol: 'tcp',
  port: 5432,
  expect: 'allow',
  ...more,
});
const [web, db] = [{ labels: ['web'] }, { labels: ['db'] }];

describe('a failure', () => {
  const open = group(1, [tcp(5432, { peers: [web] }), tcp(22)]);
  const shut = group(2, [tcp(22)]);
  const state = stateOf(
    [deviceOf(1, ['web'], []), deviceOf(2, ['db'], [open]), deviceOf(3, ['db'], [shut])],
    [open, shut],
  );

  it('of a test that expects allow names the pair, the device that refuses and the rule that would fix it', () => {
    const [result] = evaluateTests(state, [test(web, db)]);
    expect(result).toEqual({
      state: 'failing',
      failure: {
        from: { address: '100.64.0.1', device_id: idOf(1), hostname: 'host-1' },
        to: { address: '100.64.0.3', device_id: idOf(3), hostname: 'host-3' },
        device_id: idOf(3),
        direction: 'inbound',
        reason: 'no-rule',
        fix: { direction: 'inbound', rule: tcp(5432, { peers: [web] }), group_id: shut.id },
      },
    });
    if (result?.state !== 'failing') throw new Error('it fails');
    expect(failureInWords(test(web, db), result.failure)).toBe(
      'host-1 (100.64.0.1) → host-3 (100.64.0.3) tcp/5432 must be allowed. No inbound rule of host-3 (100.64.0.3) admits it. This inbound rule would admit it: tcp 5432 from label:web.',
    );
  });

  it('of a test that expects refuse names the rule that admits the pair', () => {
    const [result] = evaluateTests(state, [test(web, db, { expect: 'refuse' })]);
    expect(result).toMatchObject({
      state: 'failing',
      failure: {
        to: { device_id: idOf(2) },
        direction: 'inbound',
        reason: 'rule',
        group_id: open.id,
        rule: tcp(5432, { peers: [web] }),
      },
    });
  });

  it('names the guardrail that forbids what must be allowed, and no rule that would fix it', () => {
    const never = group(3, [tcp(22)], { guardrail: 'forbid', appliesTo: [{ all_devices: true }] });
    const [result] = evaluateTests(overlay(state, [{ kind: 'group', id: never.id, group: modelGroup(never) }]), [
      test(web, db, { port: 22 }),
    ]);
    expect(result).toMatchObject({ state: 'failing', failure: { reason: 'forbid', group_id: never.id } });
    expect(result).not.toHaveProperty('failure.fix');
  });
});

it('a device and itself are no pair, and devices without a common family are none either', () => {
  const lonely = stateOf([deviceOf(1, ['web'], []), deviceOf(2, ['db'], [], ['fd00::2'])], []);
  const states = evaluateTests(lonely, [test(web, web), test(web, db), test(web, { address: '192.0.2.1' })]);
  expect(states.map(({ state }) => state)).toEqual(['vacuous', 'vacuous', 'passing']);
});

it('allow asks for every address of a family, refuse for none', () => {
  const half = group(1, [tcp(5432, { ip_ranges: ['100.64.0.1'] })]);
  const state = stateOf([deviceOf(1, ['web'], [], ['100.64.0.1', '100.64.1.1']), deviceOf(2, ['db'], [half])], [half]);
  const states = evaluateTests(state, [test(web, db), test(web, db, { expect: 'refuse' })]);
  expect(states.map((each) => each.state)).toEqual(['failing', 'failing']);
  expect(printAddress(4, 0x6440_0101n)).toBe('100.64.1.1');
  expect(states[0]).toMatchObject({ failure: { from: { address: '100.64.1.1' } } });
});

it('a rule that expires breaks its test at that moment, and the states say until when they hold', () => {
  const expires_at = new Date(now + 1_000).toISOString();
  const short = group(1, [tcp(5432, { peers: [web], expires_at })]);
  const state = stateOf([deviceOf(1, ['web'], []), deviceOf(2, ['db'], [short])], [short]);
  expect(testStates(state, [test(web, db)])).toMatchObject({ states: ['passing'], changesAt: now + 1_000 });
  expect(testStates({ ...state, at: now + 1_000 }, [test(web, db)])).toMatchObject({
    states: ['failing'],
    changesAt: Number.POSITIVE_INFINITY,
  });
});

it('a device that is gone makes its test vacuous', () => {
  expect(
    evaluateTests(stateOf([deviceOf(1, [], [])], []), [test({ device_id: deviceIds[0] ?? '' }, { all_devices: true })]),
  ).toEqual([{ state: 'vacuous' }]);
});

describe('the price', () => {
  /** Devices with a group each that admits one other device, at ports that no two groups share. */
  function crowd(size: number): Organization {
    const rules = (n: number): readonly StoredRule[] => [
      tcp(1_000 + (n % 700), { to_port: 2_000, peers: [{ device_id: idOf((n + 1) % size) }] }),
    ];
    const groups = Array.from({ length: size }, (_, n) =>
      group(n, rules(n), { id: parseGroupId(idOf(100_000 + n)), outbound: rules(n) }),
    );
    const devices = groups.map((one, n) => deviceOf(n, [], [one], [`10.0.${n >> 8}.${n & 255}`]));
    return snapshotOf(devices, groups, group(99, []));
  }
  const all = { all_devices: true } as const;
  const many = (count: number): readonly PolicyTest[] =>
    Array.from({ length: count }, (_, n) => test(all, all, { name: `${n}`, port: 1_000 + n, expect: 'refuse' }));
  const stepsFor = (size: number, count: number): number => testStates(crowd(size), many(count)).steps;

  it('does not grow with the product of policies: twice the devices, or twice the tests, cost about twice as much', () => {
    const steps = stepsFor(100, 100);
    expect(stepsFor(200, 100)).toBeLessThan(2.6 * steps);
    expect(stepsFor(100, 200)).toBeLessThan(2.2 * steps);
    // Rules that cannot tell the ports of tests apart are looked at once.
    expect(stepsFor(100, 2_000) - stepsFor(100, 1_000)).toBeLessThan(1_000 * 100);
  });

  it('has a limit, and the error names the tests that cost the most', () => {
    const tests = [...many(40), test(all, { labels: ['none'] }, { name: 'cheap' })];
    const state = crowd(50);
    const { steps } = testStates(state, tests);
    const run = (most: number): unknown => [...judgeTests(state, tests, { most })];
    run(steps);
    const error = ((): unknown => {
      try {
        return run(steps / 2);
      } catch (thrown) {
        return thrown;
      }
    })();
    expect(error).toBeInstanceOf(TestsTooCostly);
    expect((error as TestsTooCostly).tests).toHaveLength(20);
    expect((error as TestsTooCostly).tests).not.toContain('cheap');
  });

  it('of a rule change is less than a tenth of all, with 1,000 tests on 10,000 devices that have 100 policies', () => {
    const role = (n: number): string => `role-${n % 100}`;
    const groups = Array.from({ length: 100 }, (_, n) =>
      group(
        n,
        Array.from({ length: 20 }, (_each, k) => tcp(1_000 + k, { peers: [{ labels: [role(n + k)] }] })),
        { id: parseGroupId(idOf(100_000 + n)), appliesTo: [{ labels: [role(n)] }] },
      ),
    );
    const devices = Array.from({ length: 10_000 }, (_, n) =>
      deviceOf(n, [role(n)], [], [`10.0.${n >> 8}.${n & 255}`, `fd00::${n.toString(16)}`]),
    );
    let state = snapshotOf(devices, groups, group(99, []));
    const tests = Array.from({ length: 1_000 }, (_, n) =>
      test(
        { labels: [role(n + (n % 20))] },
        { labels: [role(n)] },
        {
          name: `${n}`,
          port: n % 3 === 0 ? 5_000 + n : 1_000 + (n % 20),
          expect: n % 3 === 0 ? 'refuse' : 'allow',
        },
      ),
    );
    let judged = testStates(state, tests);
    expect(judged.states).toEqual(tests.map(() => 'passing'));
    // Less than a fifth of what tests may take when they are written (reference 4.14 (10)).
    expect(judged.steps).toBeLessThan(testLimits.writtenSteps / 5);
    for (const [turn, changed] of groups.slice(0, 8).entries()) {
      const inbound = [...changed.inbound, tcp(100 + turn)];
      const written = modelGroup({ ...changed, inbound });
      state = overlay(state, [{ kind: 'group', id: changed.id, group: written }]);
      const steps = judgeTests(state, tests, { before: judged });
      for (let step = steps.next(); ; step = steps.next())
        if (step.done === true) {
          judged = step.value;
          break;
        }
      expect(judged.states).toEqual(tests.map(() => 'passing'));
      // Some 20 ms of processor time.
      expect(judged.done).toBeLessThan(judged.steps / 10);
    }
  });

  it('of a write is that of what it changes: a rule, a label, an address, or a device that joins', () => {
    const size = 200;
    const state = crowd(size);
    // Each device is in two tests of 400.
    const pairs = Array.from({ length: 400 }, (_, n) =>
      test({ device_id: idOf(n % size) }, { device_id: idOf((n + 1) % size) }, { name: `${n}`, port: 1_000 + n }),
    );
    const run = (present: Organization, before?: JudgedTests): JudgedTests => {
      const steps = judgeTests(present, pairs, { before });
      for (;;) {
        const { done, value } = steps.next();
        if (done === true) return value;
      }
    };
    const first = run(state);
    const fifth = [...state.devices.values()][5] as OrganizationDevice;
    const own = state.groups.get(fifth.list[0] as GroupId) as NonNullable<ReturnType<typeof state.groups.get>>;
    const writes: readonly OrganizationChange[] = [
      { kind: 'group', id: own.group.id, group: { ...own, group: { ...own.group, inbound: [] } } },
      { kind: 'device', id: fifth.id, device: { ...fifth, identity: { ...fifth.identity, labels: ['new'] } } },
      { kind: 'device', id: fifth.id, device: undefined },
    ];
    for (const write of writes) {
      const present = overlay(state, [write]);
      const [after, fresh] = [run(present, first), run(present)];
      // What a device takes to be looked at is there for all of them.
      const looks = 80 * size;
      expect(after.done - looks).toBeLessThan(fresh.done / 10);
      expect(after.states).toEqual(fresh.states);
      expect(Math.abs(after.steps - fresh.steps)).toBeLessThan(fresh.steps / 4);
    }
  });

  it('leaves a pause after every small piece of work', () => {
    const pauses = [...judgeTests(crowd(200), many(100))];
    expect(pauses.length).toBeGreaterThan(stepsFor(200, 100) / 200_000);
  });
});
