/**
 * Owns rulesets as earlier versions laid them out, for tests of what an agent of this version finds: every look-up was a map, and every protocol and
 * every address set had a chain of its own.
 */
import {
  goto,
  node,
  portKindOf,
  portLookUp,
  protocolEntries,
  rule,
  type PortKind,
  type Rule,
  type Ruleset,
  type TableRules,
  type TransportName,
  type Verdict,
} from '../ast.ts';
import { Helpers, type HelperPurpose } from './helpers.ts';
import type { ObjectName } from '../names.ts';

/** One table, chain by chain: targets come before the chains that name them. */
class EarlierTable {
  readonly #helpers = new Helpers({ salt: '', longestList: Number.POSITIVE_INFINITY });
  readonly #names = new Map<ObjectName, ObjectName>();

  of<T extends TableRules>(table: T): T {
    for (const { name, rules } of table.helpers) {
      const purpose = name.slice(0, name.indexOf('-')) as HelperPurpose;
      this.#names.set(
        name,
        this.#helpers.add(
          purpose,
          this.#unfolded(
            purpose,
            rules.map((each) => this.#renamed(each)),
          ),
        ),
      );
    }
    const base = <B extends { readonly rules: readonly Rule[] }>(chain: B): B => ({
      ...chain,
      rules: chain.rules.map((each) => this.#renamed(each)),
    });
    const { inbound, outbound } = table;
    return {
      ...table,
      helpers: this.#helpers.chains,
      ...(inbound && { inbound: base(inbound) }),
      ...(outbound && { outbound: base(outbound) }),
    };
  }

  #unfolded(purpose: HelperPurpose, rules: readonly Rule[]): readonly Rule[] {
    if (purpose === 'tcp' || purpose === 'udp') return this.#portRules(rules, purpose);
    if (purpose === 'transport') return this.#portRules(rules, 'th');
    if (purpose !== 'inbound' && purpose !== 'outbound' && purpose !== 'forbid') return rules;
    const told = rules.filter((each) => portKindOf(each) !== undefined);
    const others = rules.filter((each) => !told.includes(each));
    const [first] = told;
    const { transport = 'th' } = (first && portKindOf(first)) ?? {};
    if (transport === 'th') {
      return others.map((each) => {
        const entries = protocolEntries(each);
        return entries === undefined ? each : rule([], node({ kind: 'protocolMap', entries }));
      });
    }
    const verdict = goto(this.#helpers.add(transport, this.#portRules(told, transport)));
    const protocol = transport === 'tcp' ? 6 : 17;
    return [...others, rule([], node({ kind: 'protocolMap', entries: [{ protocol, verdict }] }))];
  }

  #portRules(rules: readonly Rule[], transport: TransportName | 'th'): readonly Rule[] {
    const folded = rules.filter((each) => portKindOf(each) !== undefined && portLookUp(each) === undefined);
    const before = rules.filter((each) => !folded.includes(each));
    const kindOf = (each: Rule): PortKind => ({ ...portKindOf(each), transport });
    const maps = before.map((each) => {
      const found = portLookUp(each);
      return found === undefined ? each : rule([], node({ kind: 'portMap', ...kindOf(each), entries: found.entries }));
    });
    const [first] = folded;
    const ports = first?.matches[0];
    if (first === undefined || ports?.kind !== 'ports') return maps;
    const leaf = folded.map((each) => ({ ...each, matches: each.matches.slice(1) }));
    const entry = { from: ports.from, to: ports.to, verdict: goto(this.#helpers.add('from', leaf)) };
    return [...maps, rule([], node({ kind: 'portMap', ...kindOf(first), entries: [entry] }))];
  }

  #renamed(each: Rule): Rule {
    const led = (verdict: Verdict): Verdict =>
      'chain' in verdict ? { ...verdict, chain: this.#names.get(verdict.chain) ?? verdict.chain } : verdict;
    const { action } = each;
    if (action.kind === 'reject') return each;
    if (!('entries' in action)) return { ...each, action: led(action) };
    const entries = action.entries.map((entry) => ({ ...entry, verdict: led(entry.verdict) }));
    return { ...each, action: { ...action, entries } as Rule['action'] };
  }
}

/** The same rules in the earlier form, under the names that it gave them. */
export const earlierForm = (ruleset: Ruleset): Ruleset => ({
  ...new EarlierTable().of(ruleset),
  ...(ruleset.forward && { forward: new EarlierTable().of(ruleset.forward) }),
});
