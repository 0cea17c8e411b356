/** Proves the chains that record and answer packets: what they hold, that they only add, and that no verdict hangs on a set. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { basesOf, rulesOfTable, tableNames, type Rule, type Ruleset } from '../ast.ts';
import { parseInterfaceName } from '../names.ts';
import { canonicalPolicy, defaultPolicy, policyOf, recorderOptions, written } from '../policies.fixture.ts';
import { compile } from './compile.ts';
import { readable } from './readable.fixture.ts';

const options = { interface: parseInterfaceName('wg0'), neighbourDiscovery: false } as const;
const web = policyOf([written('tcp', 80, 80)], [written('udp', 53, 53)]);

const allRules = (ruleset: Ruleset): readonly Rule[] =>
  tableNames.flatMap((table) => {
    const rules = rulesOfTable(ruleset, table);
    return rules === undefined ? [] : [...basesOf(rules), ...rules.helpers].flatMap((chain) => chain.rules);
  });

describe('what is refused', () => {
  test('is recorded in the chain that refuses it, before the drop, which stays as it is specified', () => {
    const shown = readable(compile(web, { ...options, observe: 'refused' }));
    expect(shown.slice(0, shown.indexOf('service-outbound'))).toBe(`service-inbound:
  iifname "wg0" ct state established,related counter name in-established accept
  iifname "wg0" jump inbound-1
  iifname "wg0" ct state new jump record-2
  iifname "wg0" counter name in-refused continue
  iifname "wg0" drop
`);
    expect(shown).toContain(`record-2:
  meta nfproto @observed-second goto record-6
  meta l4proto { 6, 17 } update @in-refused-port4-1 { ip saddr . meta l4proto . th dport counter } return
  meta l4proto { 6, 17 } update @in-refused-port6-1 { ip6 saddr . meta l4proto . th dport counter } return
  icmp type echo-request update @in-refused-plain4-1 { ip saddr . meta l4proto counter } return
  icmpv6 type echo-request update @in-refused-plain6-1 { ip6 saddr . meta l4proto counter } return
  meta l4proto != { 1, 6, 17, 58 } update @in-refused-plain4-1 { ip saddr . meta l4proto counter } return
  meta l4proto != { 1, 6, 17, 58 } update @in-refused-plain6-1 { ip6 saddr . meta l4proto counter } return
  meta l4proto { 6, 17 } update @in-refused-port4-1 { ip saddr . meta l4proto . th dport } return
  meta l4proto { 6, 17 } update @in-refused-port6-1 { ip6 saddr . meta l4proto . th dport } return
  icmp type echo-request update @in-refused-plain4-1 { ip saddr . meta l4proto } return
  icmpv6 type echo-request update @in-refused-plain6-1 { ip6 saddr . meta l4proto } return
  meta l4proto != { 1, 6, 17, 58 } update @in-refused-plain4-1 { ip saddr . meta l4proto } return
  meta l4proto != { 1, 6, 17, 58 } update @in-refused-plain6-1 { ip6 saddr . meta l4proto } return
  meta l4proto != { 1, 58 } counter name unrecorded continue
  icmp type echo-request counter name unrecorded continue
  icmpv6 type echo-request counter name unrecorded continue`);
  });

  test('is answered after it was counted, and dropped where there were too many to answer', () => {
    const shown = readable(compile(web, { ...options, refuseWith: 'reject' }));
    expect(shown).toContain(`
  iifname "wg0" counter name in-refused continue
  iifname "wg0" jump answer-2
  iifname "wg0" drop
`);
    expect(shown).toContain(`answer-2:
  meta l4proto 6 limit rate 100/second burst 100 packets reject with tcp reset
  meta l4proto != 6 limit rate 100/second burst 100 packets reject with icmpx admin-prohibited`);
  });

  test('is never answered where the kernel would not take it: after the source was translated', () => {
    const { forward } = compile(web, { ...options, forwarding: 'on', refuseWith: 'reject' });
    const [into, out] = [forward?.inbound, forward?.outbound].map((base) =>
      (base?.rules ?? []).flatMap(({ action }) =>
        'chain' in action && action.chain.startsWith('answer-') ? action.chain : [],
      ),
    );
    const rulesOf = (name: string | undefined): readonly Rule[] | undefined =>
      forward?.helpers.find((chain) => chain.name === name)?.rules;
    expect(rulesOf(into?.[0])).toHaveLength(2);
    expect(rulesOf(out?.[0])).toEqual([]);
  });
});

describe('what is admitted', () => {
  test('of the default group is recorded between rules that stay to the letter', () => {
    const { inbound, outbound } = compile(defaultPolicy, { ...options, observe: 'all' });
    const { inbound: literal } = compile(defaultPolicy, options);
    const isRecording = ({ action }: Rule): boolean => 'chain' in action && action.chain.startsWith('record-');
    expect(inbound.rules.filter((each) => !isRecording(each))).toEqual(literal.rules);
    expect(inbound.rules.findIndex(isRecording)).toBe(1);
    expect(outbound.rules.map(({ matches }) => matches.map(({ kind }) => kind))).toEqual([['interface', 'new']]);
  });

  test('by a rule is recorded by the chain that accepts it, so that established connections meet nothing more', () => {
    const shown = readable(compile(web, { ...options, observe: 'all' }));
    expect(shown).toContain('ct state established,related counter name in-established accept\n');
    expect(shown).toMatch(/admit-\d+:\n {2}ct state new jump record-\d+\n {2}accept\n/);
    expect(shown).toMatch(/tcp dport 80 counter name in-group1 goto admit-\d+\n/);
  });
});

describe('the recorder', () => {
  test('of `off` and `counters` with `drop` is none: the same rules, and the same objects where there are some', () => {
    fc.assert(
      fc.property(canonicalPolicy, fc.constantFrom('off', 'counters'), (policy, observe) => {
        expect(readable(compile(policy, { ...options, observe, refuseWith: 'drop' }))).toBe(
          readable(compile(policy, options)),
        );
      }),
      { numRuns: 50 },
    );
  });

  test('puts no verdict about a packet behind a set that may be full', () => {
    fc.assert(
      fc.property(canonicalPolicy, recorderOptions, (policy, recorder) => {
        const recording = allRules(compile(policy, { ...options, forwarding: 'on', ...recorder })).filter(
          ({ record }) => record !== undefined,
        );
        expect(recording.filter(({ action }) => action.kind !== 'return')).toEqual([]);
      }),
      { numRuns: 50 },
    );
  });
});
