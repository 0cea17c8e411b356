/** Proves on a real kernel that printed rulesets load, read back as themselves, and that plans lead from any state to any other. */
import * as fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { runQuickly } from '../../test/lib/batch-runner.ts';
import { Namespace } from '../../test/lib/netns.ts';
import { rounds } from '../../test/lib/thorough.ts';
import { policy as anyPolicy } from '../policy/arbitrary.fixture.ts';
import { canonicalize } from '../policy/canonicalize.ts';
import { isNoAccess } from '../policy/server-access.ts';
import type { Command, Ruleset } from './ast.ts';
import { compile, isCounted } from './compile/compile.ts';
import { decompile, type Enforced } from './read/decompile.ts';
import type { Installed } from './read/listing.ts';
import { parseListing } from './read/parse-listing.fixture.ts';
import { parseInterfaceName } from './names.ts';
import { install, plan, rebuild, remove, type Update } from './plan/plan.ts';
import { isEmpty } from './plan/plan.fixture.ts';
import { canonicalPolicy, defaultPolicy, nested, policyOf, serverAccess, written } from './policies.fixture.ts';
import { printCommands } from './print.ts';

const options = { interface: parseInterfaceName('wg0'), neighbourDiscovery: true, forwarding: 'on' } as const;
const seed = 20_260_101;

interface Tables {
  readonly service: Installed | undefined;
  readonly forward: Installed | undefined;
  /** By table and chain. */
  readonly handles: ReadonlyMap<string, number>;
}

interface Listing {
  readonly nftables: readonly { readonly chain?: { table: string; name: string; handle: number } }[];
}

/**
 * The tables of one namespace. Most of the time of a change is the kernel's own wait for every processor to have left the old
 * rules, so what takes long runs side by side, each in a namespace of its own.
 */
class Kernel {
  readonly namespace: Namespace;

  constructor(namespace: Namespace) {
    this.namespace = namespace;
  }

  async apply(commands: readonly Command[]): Promise<void> {
    if (commands.length > 0) await runQuickly(this.namespace, ['nft', '-f', '-'], printCommands(commands));
  }

  /** What it holds, in one listing: a listing takes longer than most of what is asked about it. */
  async list(): Promise<Tables> {
    const { stdout } = await runQuickly(this.namespace, ['nft', '-j', 'list', 'ruleset']);
    const listing = JSON.parse(stdout) as Listing;
    const handles = listing.nftables.flatMap(({ chain }) =>
      chain === undefined ? [] : [[`${chain.table} ${chain.name}`, chain.handle] as const],
    );
    return {
      service: parseListing(listing),
      forward: parseListing(listing, 'service-forward'),
      handles: new Map(handles),
    };
  }

  async installed(): Promise<Tables & { readonly service: Installed }> {
    const { service, ...others } = await this.list();
    if (service === undefined) throw new Error('the table is not there');
    return { service, ...others };
  }

  async planTo(desired: Ruleset): Promise<Update> {
    const { service, forward } = await this.list();
    const planned = plan(service, desired, forward);
    if (planned.kind === 'tampered') throw new Error(`tampered: ${planned.chains.join(', ')}`);
    return planned;
  }

  async applyAll({ stage, flip, collect }: Update): Promise<void> {
    await this.apply(stage);
    await this.apply(flip);
    await this.apply(collect);
  }

  /** Expects that the installed tables are exactly the desired ones, and returns what they enforce. */
  async expectInstalled(
    desired: Ruleset,
  ): Promise<
    Pick<Tables, 'handles'> & { readonly enforced: Enforced | undefined; readonly forwarded: Enforced | undefined }
  > {
    const { service, forward, handles } = await this.installed();
    expect(plan(service, desired, forward)).toEqual({ kind: 'update', stage: [], flip: [], collect: [] });
    const [own, judged] = [decompile(service), forward && decompile(forward, 'service-forward')];
    expect(own.findings).toEqual([]);
    expect(judged?.findings).toEqual(desired.forward && []);
    return { enforced: own.enforced, forwarded: judged?.enforced, handles };
  }
}

/** Runs the proof in a network namespace of its own. */
async function inOwnKernel(prove: (kernel: Kernel) => Promise<unknown>): Promise<void> {
  const namespace = await Namespace.create();
  try {
    await prove(new Kernel(namespace));
  } finally {
    await namespace.close();
  }
}

let kernel: Kernel;
/** For suites that change little: one namespace for all their tests, emptied before each. */
function useClearedKernel(): void {
  beforeAll(async () => {
    kernel = new Kernel(await Namespace.create());
  });
  afterAll(() => kernel.namespace.close());
  beforeEach(() => runQuickly(kernel.namespace, ['nft', 'flush', 'ruleset']));
}

/** Of some policies, short lists become rules and ports are bundled, as where there would be too many sets and chains. */
const bounds = fc.record({
  mostSets: fc.constantFrom(undefined, 0, 3),
  mostAlone: fc.constantFrom(undefined, 1),
  fewestInCommon: fc.constantFrom(undefined, 1),
  longestList: fc.constantFrom(undefined, 2),
});

describe('a kernel', () => {
  test.concurrent.each([seed, seed + 1, seed + 2])(
    'loads any policy and lists it as the same policy: parse ∘ print = identity, seed %i',
    (from) =>
      inOwnKernel((own) =>
        fc.assert(
          fc.asyncProperty(
            canonicalPolicy,
            fc.boolean(),
            serverAccess,
            bounds,
            async (policy, neighbourDiscovery, access, some) => {
              const ruleset = compile(policy, { ...options, neighbourDiscovery, serverAccess: access, ...some });
              await own.apply(rebuild(ruleset));
              const { enforced, forwarded } = await own.expectInstalled(ruleset);
              expect(enforced?.policy).toEqual(policy);
              const kept = isCounted('outbound', policy.outbound) && !isNoAccess(access);
              expect(enforced?.serverAccess).toEqual(kept ? access : undefined);
              const judged = forwarded?.policy;
              if (isCounted('inbound', policy.inbound)) expect(judged?.inbound).toEqual(policy.inbound);
              if (isCounted('outbound', policy.outbound)) expect(judged?.outbound).toEqual(policy.outbound);
            },
          ),
          { numRuns: rounds(20, 50), seed: from },
        ),
      ),
  );

  test.concurrent('does so for rules as people write them, and for nested port ranges', () =>
    inOwnKernel(async (own) => {
      const samples = [
        ...fc.sample(anyPolicy, { numRuns: rounds(20, 60), seed }).map(canonicalize),
        policyOf(nested(60, 4), nested(50, 5)),
      ];
      expect(samples.at(-1)).toMatchObject({ inbound: { tcp: { ports: { kind: 'tree' } } } });
      for (const policy of samples) {
        const ruleset = compile(policy, options);
        await own.apply(rebuild(ruleset));
        expect((await own.expectInstalled(ruleset)).enforced?.policy).toEqual(policy);
      }
    }));

  test.concurrent('is led by plans from any policy to any other, and keeps the chains that stay', () =>
    inOwnKernel(async (own) => {
      let { handles: before } = await own.list();
      for (const policy of fc.sample(canonicalPolicy, { numRuns: rounds(15, 40), seed })) {
        for (const each of [policy, { ...policy, outbound: defaultPolicy.outbound }]) {
          const ruleset = compile(each, options);
          await own.applyAll(await own.planTo(ruleset));
          const { handles: after } = await own.expectInstalled(ruleset);
          for (const [name, handle] of before) expect(after.get(name) ?? handle).toBe(handle);
          before = after;
        }
      }
      await own.apply(remove());
      expect((await own.list()).service).toBeUndefined();
      await own.apply(remove());
    }));
});

describe('an empty kernel', () => {
  useClearedKernel();

  test.each(['wg0', 'é0', '日本語', 'a*b', 'a\\', '$x', '#', ';', '{', '!=', '0', 'ct', '-', '@a'])(
    'takes the interface name %j as it is',
    async (name) => {
      const ruleset = compile(policyOf([]), { ...options, interface: parseInterfaceName(name) });
      await kernel.apply(install(ruleset));
      expect((await kernel.expectInstalled(ruleset)).enforced?.interface).toBe(name);
    },
  );

  test('refuses no element at the borders of the families and of the ports', async () => {
    const policy = policyOf([
      written('tcp', 1, 65_535, '0.0.0.0-255.255.255.254', '::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'),
      written('udp', 65_535, 65_535, '255.255.255.255', '0.0.0.0', '::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'),
      written('udp', 1, 1, '128.0.0.0/1', '::ffff:0:0/96', '8000::/1', '::1.2.3.4'),
    ]);
    const ruleset = compile(policy, options);
    await kernel.apply(install(ruleset));
    expect((await kernel.expectInstalled(ruleset)).enforced?.policy).toEqual(policy);
  });
});

describe('a table that others changed', () => {
  useClearedKernel();
  const policy = policyOf([written('tcp', 22, 22, '10.0.0.0/8', '12.0.0.1')], [written('udp', 53, 53)]);
  const ruleset = compile(policy, options);
  const [leaf] = ruleset.helpers;

  const changes: readonly (readonly [what: string, text: string])[] = [
    ['a rule in front', 'insert rule inet service service-inbound accept'],
    ['a rule with a counter and a comment', 'add rule inet service service-outbound counter accept comment "mine"'],
    ['a flush', 'flush chain inet service service-inbound'],
    ['a policy', 'add chain inet service service-inbound { policy drop; }'],
    ['a dormant table', 'add table inet service { flags dormant; }'],
    [
      'another hook',
      'flush chain inet service service-inbound; delete chain inet service service-inbound; add chain inet service service-inbound { type filter hook forward priority 3; policy drop; }',
    ],
    [
      'a base chain without a hook, that others use',
      'flush chain inet service service-outbound; delete chain inet service service-outbound; add chain inet service service-outbound; add chain inet service x; add rule inet service x jump service-outbound',
    ],
    [
      'objects that hang together',
      `add counter inet service k
add chain inet service x
add chain inet service y
add map inet service m { type inet_service : verdict; elements = { 22 : jump x }; }
add set inet service s { type ipv4_addr; flags interval; elements = { 10.0.0.0/8 }; }
add map inet service n { type inet_service : counter; elements = { 22 : "k" }; }
add rule inet service y tcp dport vmap @m
add rule inet service y ip saddr @s counter name k
add rule inet service y counter name tcp dport map @n
add rule inet service x ip saddr { 1.2.3.4, 5.6.7.8 } drop
add rule inet service service-inbound jump y
add limit inet service l { rate 1/second; }
add quota inet service q { 100 bytes; }
add ct expectation inet service e { protocol tcp; dport 9876; timeout 2m; size 12; l3proto ip; }
add chain inet service hooked { type filter hook forward priority 5; policy drop; }
add rule inet service hooked jump x`,
    ],
    ['a rule in front for forwarded connections', 'insert rule inet service-forward service-forward-inbound accept'],
    ['the table for forwarded connections gone', 'delete table inet service-forward'],
    [
      'another hook for forwarded connections',
      'flush chain inet service-forward service-forward-outbound; delete chain inet service-forward service-forward-outbound; add chain inet service-forward service-forward-outbound { type filter hook postrouting priority 50; policy accept; }',
    ],
    ['everything gone', 'flush ruleset'],
    ['the table gone', 'delete table inet service'],
  ];

  test.each(changes)('by %s is repaired by the plan, and then there is nothing to do', async (_, text) => {
    await kernel.apply(install(ruleset));
    await kernel.expectInstalled(ruleset);
    await runQuickly(kernel.namespace, ['nft', '-f', '-'], `${text}\n`);
    const planned = await kernel.planTo(ruleset);
    expect(isEmpty(planned)).toBe(false);
    await kernel.applyAll(planned);
    await kernel.expectInstalled(ruleset);
  });

  test('in a helper chain is found, and repaired under new names', async () => {
    await kernel.apply(install(ruleset));
    await runQuickly(kernel.namespace, ['nft', 'insert', 'rule', 'inet', 'service', leaf?.name ?? '', 'accept']);
    const { service, forward } = await kernel.list();
    expect(plan(service, ruleset, forward)).toEqual({
      kind: 'tampered',
      chains: [leaf?.name],
    });
    const salted = compile(policy, { ...options, salt: 'again' });
    await kernel.applyAll(await kernel.planTo(salted));
    await kernel.expectInstalled(salted);
    await kernel.applyAll(await kernel.planTo(ruleset));
    await kernel.expectInstalled(ruleset);
  });

  test('through names that no command can hold is rebuilt', async () => {
    await kernel.apply(install(ruleset));
    const chain = { family: 'inet', table: 'service', name: 'drop it; now' };
    const json = JSON.stringify({ nftables: [{ add: { chain } }] });
    await runQuickly(kernel.namespace, [
      'sh',
      '-c',
      'file=$(mktemp) && printf %s "$0" > "$file" && nft -j -f "$file"; rm "$file"',
      json,
    ]);
    expect((await kernel.installed()).service.chains.has('drop it; now')).toBe(true);
    await kernel.applyAll(await kernel.planTo(ruleset));
    await kernel.expectInstalled(ruleset);
  });
});
