/** Proves the plan of an update: nothing that is installed is touched, no set is made in a flip, nothing is left behind. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { rounds } from '../../../test/lib/thorough.ts';
import { makesSet, type Command, type Ruleset } from '../ast.ts';
import { compile } from '../compile/compile.ts';
import type { Installed } from '../read/listing.ts';
import { parseListing } from '../read/parse-listing.fixture.ts';
import { listingOf } from '../read/listing.fixture.ts';
import { parseInterfaceName, parseObjectName } from '../names.ts';
import { install, isSmall, plan, rebuild, remove, resetBases, type Update } from './plan.ts';
import { isEmpty } from './plan.fixture.ts';
import { canonicalPolicy, defaultPolicy, policyOf, written } from '../policies.fixture.ts';
import { defaultInboundRules } from '../../policy/rule.ts';
import { printCommands } from '../print.ts';

const options = { interface: parseInterfaceName('wg0'), neighbourDiscovery: false };
const ssh = compile(policyOf([written('tcp', 22, 22, '10.0.0.0/8', '12.0.0.1')]), options);
const web = compile(policyOf([written('tcp', 22, 22, '10.0.0.0/8', '12.0.0.1'), written('tcp', 80, 80)]), options);
const closed = compile(policyOf([]), options);

type Entry = Record<string, Record<string, unknown>>;
const own = { family: 'inet', table: 'service' };

/** What the kernel holds after the ruleset was installed, and something more. */
function installed(ruleset: Ruleset, ...more: Entry[]): Installed {
  const read = parseListing({ nftables: [...listingOf(ruleset).nftables, ...more] });
  if (read === undefined) throw new Error('the table is not there');
  return read;
}

function update(before: Installed | undefined, desired: Ruleset): Update {
  const planned = plan(before, desired);
  if (planned.kind === 'tampered') throw new Error(`tampered: ${planned.chains.join(', ')}`);
  return planned;
}

/** A batch as text, with short digests. */
const shown = (commands: readonly Command[]): string =>
  printCommands(commands).replaceAll(/([0-9a-f]{4})[0-9a-f]{28}/g, '$1');
const kinds = (commands: readonly Command[]): readonly string[] => commands.map(({ kind }) => kind);

describe('a reset of base chains', () => {
  const judging = compile(policyOf([written('tcp', 22, 22)], []), { ...options, forwarding: 'on' });
  const emptied = (names: readonly string[]): readonly string[] =>
    resetBases(judging, new Set(names)).flatMap((command) => (command.kind === 'flushChain' ? command.name : []));

  test('attaches, empties and fills those that are named, and makes no set', () => {
    const commands = resetBases(ssh, new Set(['service-inbound']));
    expect(commands.filter((command) => command.kind === 'addRule' && makesSet(command.rule))).toEqual([]);
    expect(printCommands(commands)).toBe(`add table inet service
add chain inet service service-inbound { type filter hook input priority filter; policy accept; }
flush chain inet service service-inbound
${printCommands(install(ssh).filter((command) => command.kind === 'addRule' && command.chain === 'service-inbound'))}`);
  });

  test('leaves the other table alone', () => {
    const commands = resetBases(judging, new Set(['service-forward-outbound']));
    expect(new Set(commands.map(({ table }) => table))).toEqual(new Set(['service-forward']));
    expect(emptied(['service-forward-outbound'])).toEqual(['service-forward-outbound']);
  });

  test.each([
    ['nothing is named', []],
    ['what is named is no base chain', ['strange']],
    ['something else is named besides', ['service-inbound', 'strange']],
  ])('turns all of both tables where %s', (_, names) => {
    const all = ['service-inbound', 'service-outbound', 'service-forward-inbound', 'service-forward-outbound'];
    expect(emptied(names)).toEqual(all);
  });
});

describe('a plan', () => {
  test('from no table loads helper chains first, where no packet comes, then both base chains at once', () => {
    const { stage, flip, collect } = update(undefined, ssh);
    expect(kinds(stage).filter((kind) => kind === 'addBaseChain')).toEqual([]);
    expect(printCommands([...stage, ...flip])).toBe(
      printCommands(install(ssh)).replace('add chain inet service service-inbound', 'add table inet service\n$&'),
    );
    expect(collect).toEqual([]);
  });

  test('from no table to a policy without helper chains has nothing to stage', () => {
    const { stage, flip, collect } = update(undefined, compile(defaultPolicy, options));
    expect([stage, collect]).toEqual([[], []]);
    expect(printCommands(flip)).toBe(printCommands(install(compile(defaultPolicy, options))));
  });

  test('to what is installed is empty', () => {
    expect(isEmpty(update(installed(ssh), ssh))).toBe(true);
    expect(isEmpty(update(installed(ssh), web))).toBe(false);
  });

  test('touches what changed only: new parts are staged, the chain that names them flips, old parts go', () => {
    const { stage, flip, collect } = update(installed(ssh), web);
    const [leaf, inbound] = ssh.helpers.map(({ name }) => name.slice(0, name.indexOf('-') + 5));
    const [sameLeaf, newLeaf, newInbound] = web.helpers.map(({ name }) => name.slice(0, name.indexOf('-') + 5));
    expect(sameLeaf).toBe(leaf);
    expect(shown(stage)).toBe(`add table inet service
add chain inet service ${newLeaf}
add rule inet service ${newLeaf} counter name in-00000000-0000-4000-8000-000000000001 accept
add chain inet service ${newInbound}
add rule inet service ${newInbound} tcp dport vmap { 22 : goto ${leaf}, 80 : goto ${newLeaf} }
`);
    expect(shown(flip)).toBe(`add table inet service
flush chain inet service service-inbound
add rule inet service service-inbound iifname "wg0" ct state established,related counter name in-established accept
add rule inet service service-inbound iifname "wg0" jump ${newInbound}
add rule inet service service-inbound iifname "wg0" counter name in-refused continue
add rule inet service service-inbound iifname "wg0" drop
`);
    expect(shown(collect)).toBe(`flush chain inet service ${inbound}
delete chain inet service ${inbound}
`);
  });

  test('goes on after a stop between stage and flip, and does not load again what was staged', () => {
    const half = installed({ ...closed, counters: ssh.counters, helpers: ssh.helpers });
    const { stage, flip, collect } = update(half, ssh);
    expect(stage).toEqual([]);
    expect(kinds(flip)).toEqual(['addTable', 'flushChain', 'addRule', 'addRule', 'addRule', 'addRule']);
    expect(collect).toEqual([]);
  });

  test('flips a base chain that others have written into, and only that', () => {
    const before = installed(ssh, { rule: { ...own, chain: 'service-outbound', handle: 99, expr: [{ drop: null }] } });
    const { stage, flip, collect } = update(before, ssh);
    expect([stage, collect]).toEqual([[], []]);
    expect(shown(flip)).toBe('add table inet service\nflush chain inet service service-outbound\n');
  });

  test('sets the policy of a base chain right', () => {
    const { chains, ...rest } = installed(ssh);
    const chain = chains.get('service-inbound');
    const attachment = { type: 'filter', hook: 'input', priority: 0, policy: 'drop' };
    const changed = {
      ...rest,
      chains: new Map(chains).set('service-inbound', { rules: [], ...chain, name: 'service-inbound', attachment }),
    };
    const { flip } = update(changed, ssh);
    expect(shown(flip.slice(0, 3))).toBe(`add table inet service
add chain inet service service-inbound { type filter hook input priority filter; policy accept; }
flush chain inet service service-inbound
`);
  });

  test('wakes a table that flags have switched off', () => {
    const { stage, flip, collect } = update({ ...installed(ssh), flagged: true }, ssh);
    expect([stage, collect]).toEqual([[], []]);
    expect(shown(flip)).toBe('add table inet service\n');
  });

  test('asks for new names where a helper chain of ours was changed in place', () => {
    const [leaf] = ssh.helpers;
    const before = installed(ssh, { rule: { ...own, chain: leaf?.name, handle: 99, expr: [{ accept: null }] } });
    expect(plan(before, ssh)).toEqual({ kind: 'tampered', chains: [leaf?.name] });
    const salted = compile(policyOf([written('tcp', 22, 22, '10.0.0.0/8', '12.0.0.1')]), { ...options, salt: '1' });
    const { stage, collect } = update(before, salted);
    expect(kinds(stage).filter((kind) => kind === 'addChain')).toHaveLength(2);
    expect(kinds(collect).filter((kind) => kind === 'deleteChain')).toHaveLength(2);
  });

  test('takes away what others put into our table: rules, then maps and sets, then chains, then the rest', () => {
    const before = installed(
      ssh,
      { counter: { ...own, name: 'k', handle: 90 } },
      { set: { ...own, name: 's', handle: 91 } },
      { map: { ...own, name: 'm', handle: 92 } },
      { 'ct helper': { ...own, name: 'h', handle: 93 } },
      { chain: { ...own, name: 'hooked', handle: 94, type: 'filter', hook: 'forward', prio: 5, policy: 'drop' } },
      { chain: { ...own, name: 'plain', handle: 95 } },
    );
    const { stage, flip, collect } = update(before, ssh);
    expect([stage, flip]).toEqual([[], []]);
    expect(shown(collect)).toBe(`flush chain inet service hooked
flush chain inet service plain
delete set inet service s
delete map inet service m
delete chain inet service hooked
delete chain inet service plain
delete counter inet service k
delete ct helper inet service h
`);
  });

  test.each<[string, Entry]>([
    ['a name that no command can hold', { chain: { ...own, name: 'a b; flush ruleset', handle: 94 } }],
    ['a kind of object that we do not know', { tunnel: { ...own, name: 't', handle: 94 } }],
    ['a set with a name that no command can hold', { set: { ...own, name: '7"', handle: 94 } }],
  ])('replaces the whole table for %s', (_, entry) => {
    const { stage, flip, collect } = update(installed(ssh, entry), ssh);
    expect([stage, collect]).toEqual([[], []]);
    expect(flip).toEqual(rebuild(ssh).filter(({ table }) => table === undefined));
  });

  test('to remove our tables works whether or not they are there', () => {
    expect(printCommands(remove())).toBe(
      ['service', 'service-forward'].map((name) => `add table inet ${name}\ndelete table inet ${name}\n`).join(''),
    );
  });
});

describe('every plan', () => {
  test('between any two policies touches no chain that stays, makes no set in a flip, and leaves nothing behind', () => {
    fc.assert(
      fc.property(canonicalPolicy, canonicalPolicy, (one, other) => {
        const [before, after] = [compile(one, options), compile(other, options)];
        const { stage, flip, collect } = update(installed(before), after);
        const names = ({ helpers }: Ruleset): Set<string> => new Set(helpers.map(({ name }) => name));
        const [old, now] = [names(before), names(after)];
        const added = stage.flatMap((command) => (command.kind === 'addChain' ? [command.name] : []));
        expect(new Set(added)).toEqual(new Set([...now].filter((name) => !old.has(name))));
        const deleted = collect.flatMap((command) => (command.kind === 'deleteChain' ? [command.name] : []));
        expect(new Set(deleted)).toEqual(new Set([...old].filter((name) => !now.has(name))));
        const counting = stage.flatMap((command) => (command.kind === 'addCounter' ? [command.name] : []));
        expect(counting).toEqual(after.counters.filter((name) => !before.counters.includes(name)));
        const uncounted = collect.flatMap((command) => (command.kind === 'deleteObject' ? [command.name] : []));
        expect(uncounted).toEqual(before.counters.filter((name) => !after.counters.includes(name)));
        const literal = after.inbound.rules.length === 6 ? after.inbound.name : undefined;
        const sets = flip.filter((c) => c.kind === 'addRule' && c.chain !== literal && makesSet(c.rule));
        expect(sets).toEqual([]);
        expect(
          kinds(stage).filter((kind) => !['addTable', 'addCounter', 'addChain', 'addRule'].includes(kind)),
        ).toEqual([]);
      }),
      { numRuns: rounds(60, 200) },
    );
  });
});

describe('stage and flip as one transaction', () => {
  const member = parseObjectName('somebody');
  const elements = [[1n, member]] as const;
  test.each([
    ['rules alone', [{ kind: 'addChain', name: member }], true],
    ['a map', [{ kind: 'addMap', name: member, family: 4 }], false],
    ['members that come', [{ kind: 'addElements', map: member, family: 4, elements }], false],
    ['members that go', [{ kind: 'deleteElements', map: member, family: 4, addresses: [1n] }], false],
    ['64 commands', Array.from({ length: 64 }, () => ({ kind: 'addTable' as const })), true],
    ['65 commands', Array.from({ length: 65 }, () => ({ kind: 'addTable' as const })), false],
  ] satisfies [string, Command[], boolean][])('with %s: %s', (_, commands, small) => {
    expect(isSmall({ stage: commands, flip: [] })).toBe(small);
    expect(isSmall({ stage: [], flip: commands })).toBe(small);
  });

  test('is never meant where any rule of either makes a set', () => {
    fc.assert(
      fc.property(canonicalPolicy, canonicalPolicy, (one, other) => {
        const { stage, flip } = update(installed(compile(one, options)), compile(other, options));
        const sets = [...stage, ...flip].filter((command) => command.kind === 'addRule' && makesSet(command.rule));
        expect(isSmall({ stage, flip })).toBe(sets.length === 0 && stage.length + flip.length <= 64);
      }),
      { numRuns: rounds(60, 200) },
    );
  });
});

describe('the plan for forwarded connections', () => {
  const guarded = { ...options, forwarding: 'on' as const };
  const sshGuarded = compile(policyOf([written('tcp', 22, 22, '10.0.0.0/8', '12.0.0.1')]), guarded);
  const bothGuarded = compile(policyOf([written('tcp', 22, 22)], [written('udp', 53, 53)]), guarded);
  const openGuarded = compile(defaultPolicy, guarded);

  function after(ruleset: Ruleset, desired: Ruleset): Update {
    const listing = listingOf(ruleset);
    const planned = plan(parseListing(listing), desired, parseListing(listing, 'service-forward'));
    if (planned.kind === 'tampered') throw new Error(`tampered: ${planned.chains.join(', ')}`);
    return planned;
  }
  const forwardOnly = (commands: readonly Command[]): string =>
    shown(commands.filter(({ table }) => table === 'service-forward'));

  test('stages, flips and collects both tables in the same transactions', () => {
    const { stage, flip, collect } = after(bothGuarded, sshGuarded);
    expect(forwardOnly(stage)).toMatch(/^add table inet service-forward\nadd chain inet service-forward from-/);
    expect(forwardOnly(flip)).toContain('flush chain inet service-forward service-forward-inbound\n');
    expect(forwardOnly(flip)).toContain('flush chain inet service-forward service-forward-outbound\n');
    expect(forwardOnly(collect)).toContain('delete chain inet service-forward outbound-');
    expect([...stage, ...flip].some((command) => command.kind === 'addRule' && command.table === undefined)).toBe(true);
    expect(isEmpty(after(bothGuarded, bothGuarded))).toBe(true);
  });

  test('has no chain from the flip on for a direction in which everything passes', () => {
    const outOnly = compile(policyOf(defaultInboundRules, [written('udp', 53, 53)]), guarded);
    const { flip, collect } = after(bothGuarded, outOnly);
    expect(forwardOnly(flip)).toContain('delete chain inet service-forward service-forward-inbound\n');
    expect(forwardOnly(collect)).not.toContain('service-forward service-forward-inbound');
  });

  test('makes no set in a flip', () => {
    for (const [from, to] of [
      [openGuarded, bothGuarded],
      [bothGuarded, sshGuarded],
      [sshGuarded, bothGuarded],
    ] as const) {
      const { flip } = after(from, to);
      const made = flip.filter((c) => c.kind === 'addRule' && c.table === 'service-forward' && makesSet(c.rule));
      expect(made).toEqual([]);
    }
  });

  test('takes the table away where nothing is judged any more, and leaves other tables alone', () => {
    expect(forwardOnly(after(bothGuarded, openGuarded).flip)).toBe(
      'add table inet service-forward\ndelete table inet service-forward\n',
    );
    expect(forwardOnly(after(sshGuarded, ssh).flip)).toContain('delete table inet service-forward');
    expect(forwardOnly(after(ssh, openGuarded).flip)).toBe('');
  });

  test('names what was changed in place in either table', () => {
    const listing = listingOf(bothGuarded);
    const [leaf] = bothGuarded.forward?.helpers ?? [];
    listing.nftables.push({
      rule: { family: 'inet', table: 'service-forward', chain: leaf?.name, handle: 99, expr: [{ accept: null }] },
    });
    expect(plan(parseListing(listing), bothGuarded, parseListing(listing, 'service-forward'))).toEqual({
      kind: 'tampered',
      chains: [leaf?.name],
    });
  });
});
