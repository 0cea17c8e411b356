/** Owns the decompilation of the installed state into the policy that it enforces, and the list of foreign parts. */
import type { CanonicalPolicy, DirectionPolicy } from '../../policy/canonical.ts';
import type { ServerAccess } from '../../policy/server-access.ts';
import { matchesNothing } from '../../policy/address-sets.ts';
import { targets, type Rule, type TableName } from '../ast.ts';
import { baseHook, baseName, baseRules, discoveryRules, type BaseContent, type HookPoint } from '../compile/base.ts';
import { readCounter } from '../counters.ts';
import { isProperlyAttached, type Installed, type InstalledObject } from './listing.ts';
import type { InterfaceName } from '../names.ts';
import { isPeerMapName } from '../compile/peer-maps.ts';
import { printRules } from '../print.ts';
import { isRecordSetName, unrecordedCounter } from '../recording.ts';
import type { RecorderChains } from '../compile/recorder.ts';
import { checkRecorder, recorderVerdicts } from './read-recorder.ts';
import { ChainReader, Unexpected, unexpectedLayout, type Finding } from './read-chain.ts';
import { everybody, MatchReader } from './read-matches.ts';
import { readServerAccess } from '../compile/server-access.ts';

export interface Enforced {
  readonly policy: CanonicalPolicy;
  /** Unknown where both directions are open: then no rule names one. */
  readonly interface: InterfaceName | undefined;
  /** Unknown where no direction needs to say. */
  readonly neighbourDiscovery: boolean | undefined;
  /** The agent's way to its server; absent where none is kept open. */
  readonly serverAccess?: ServerAccess;
}

export interface Decompiled {
  /** What the table does to packets; absent as soon as anything that can touch a packet is not of our making. */
  readonly enforced: Enforced | undefined;
  /** Unused chains are harmless leftovers of an update; everything else calls for a repair. */
  readonly findings: readonly Finding[];
}

const directions = ['inbound', 'outbound'] as const;

interface BaseReading {
  readonly policy: DirectionPolicy;
  readonly interface?: InterfaceName;
  readonly neighbourDiscovery?: boolean;
  readonly serverAccess?: ServerAccess;
}

interface BaseLayout {
  readonly content: BaseContent;
  readonly recorder: RecorderChains;
}

/** Which of our base chains these rules are: made anew from each candidate, and compared. */
function layoutOf(place: HookPoint, rules: readonly Rule[], name: InterfaceName): BaseLayout | undefined {
  const chains = rules.flatMap(targets);
  const discovery = chains.find((chain) => chain.startsWith('discovery-'));
  const server = chains.find((chain) => chain.startsWith('server-'));
  const forbid = chains.find((chain) => chain.startsWith('forbid-'));
  const record = chains.find((chain) => chain.startsWith('record-'));
  const answer = chains.find((chain) => chain.startsWith('answer-'));
  const others = new Set<string | undefined>([discovery, server, forbid, record, answer]);
  const dispatch = chains.find((chain) => !others.has(chain));
  const before = { ...(discovery && { discovery }), ...(server && { server }) };
  const candidates: readonly BaseContent[] = [
    { kind: 'closed', ...before, ...(forbid && { forbid }), ...(dispatch && { dispatch }) },
    ...(forbid === undefined ? [] : [{ kind: 'forbidding' as const, ...before, forbid }]),
    { kind: 'open' },
    place.direction === 'inbound' ? { kind: 'default' } : { kind: 'syn-only' },
  ];
  const text = printRules(rules);
  return candidates
    .map((content): BaseLayout => {
      // Where something is refused at the end, that is what is recorded; elsewhere all that comes so far is admitted.
      const recorder: RecorderChains =
        content.kind === 'closed'
          ? { ...(record && { refused: record }), ...(answer && { answer }) }
          : { ...(record && { admitted: record }) };
      return { content, recorder };
    })
    .find(({ content, recorder }) => printRules(baseRules(place, name, content, recorder)) === text);
}

/** What a base chain does, with everything that it leads to. */
function readBase(installed: Installed, place: HookPoint, used: Set<string>): BaseReading {
  const name = baseName(place);
  const chain = installed.chains.get(name);
  if (chain === undefined) throw new Unexpected('missing_chain', name, 'the chain does not exist');
  if (!isProperlyAttached(chain, baseHook(place))) {
    throw new Unexpected('wrong_attachment', name, 'the chain has another hook, priority or policy');
  }
  const chains = new ChainReader(installed, used, recorderVerdicts(installed, place, used));
  const rules = chains.rules(name);
  const [first] = rules;
  if (first === undefined) return { policy: { kind: 'open' } };
  const here = first.matches.find((match) => match.kind === 'interface');
  if (here === undefined) throw new Unexpected('wrong_layout', name, 'a rule does not name the interface');
  const layout = layoutOf(place, rules, here.name);
  if (layout === undefined) throw new Unexpected('wrong_layout', name, 'the rules are in another order');
  const { content, recorder } = layout;
  checkRecorder(installed, place, recorder, used);
  const admitted = new MatchReader(chains, place, 'accept');
  if (content.kind === 'default') {
    return { policy: { kind: 'closed', ...admitted.dispatch(undefined), any: everybody }, interface: here.name };
  }
  if (content.kind === 'open' || content.kind === 'syn-only') {
    return { policy: { kind: 'open' }, interface: here.name };
  }
  const { discovery, server, forbid } = content;
  if (discovery !== undefined && printRules(chains.rules(discovery)) !== printRules(discoveryRules(place.direction)))
    throw unexpectedLayout(discovery);
  const serverAccess = server === undefined ? undefined : readServerAccess(chains.rules(server));
  if (server !== undefined && serverAccess === undefined) throw unexpectedLayout(server);
  const forbidden = forbid === undefined ? undefined : new MatchReader(chains, place, 'drop').dispatch(forbid);
  // Where the forbidden part matches no current address, nothing is forbidden.
  const forbidding = forbidden === undefined || matchesNothing(forbidden) ? {} : { forbid: forbidden };
  const policy: DirectionPolicy =
    content.kind === 'forbidding'
      ? { kind: 'open', ...forbidding }
      : { kind: 'closed', ...admitted.dispatch(content.dispatch), ...forbidding };
  return {
    policy,
    interface: here.name,
    neighbourDiscovery: discovery !== undefined,
    ...(serverAccess && { serverAccess }),
  };
}

/** Whether the object is a counter of ours: one that a rule names, or one that is left of an earlier policy. */
export const isOurCounter = ({ object, name }: InstalledObject): boolean =>
  object === 'counter' && (name === unrecordedCounter || readCounter(name) !== undefined);

/** Whether the object is a set that rules of ours record into, or did. What it holds is no part of the rules. */
export const isOurSet = ({ object, name }: InstalledObject): boolean => object === 'set' && isRecordSetName(name);

/** Whether the object is a map of ours, or one that is left of an earlier policy. */
export const isOurMap = ({ object, name, members }: InstalledObject): boolean =>
  object === 'map' && members !== undefined && isPeerMapName(name);

function strangers({ flagged, chains, objects }: Installed, table: TableName): Finding[] {
  const own = new Set<string>(directions.map((direction) => baseName({ table, direction })));
  const found: Finding[] = [];
  if (flagged) found.push({ code: 'table_flags', name: '', detail: 'the table has flags, which may disable it' });
  for (const { object, name } of objects.filter(
    (each) => ![isOurCounter, isOurMap, isOurSet].some((isOurs) => isOurs(each)),
  )) {
    found.push({ code: 'foreign_object', name, detail: `the table contains a foreign ${object}` });
  }
  for (const { name, attachment } of chains.values()) {
    if (attachment === undefined || own.has(name)) continue;
    found.push({ code: 'foreign_chain', name, detail: `a foreign chain is attached to hook ${attachment.hook}` });
  }
  return found;
}

/** Foreign sets and counters touch packets only through rules, which are found where they stand. */
const isHarmless = ({ code }: Finding): boolean => code === 'foreign_object';

/** One direction of one table. For forwarded connections, a direction in which everything passes has no chain. */
function readDirection(installed: Installed, place: HookPoint, used: Set<string>): BaseReading {
  if (place.table === 'service-forward' && !installed.chains.has(baseName(place))) return { policy: { kind: 'open' } };
  return readBase(installed, place, used);
}

/** One answer of two readings: what either says, as long as they do not contradict. */
function agreed<T>(a: T | undefined, b: T | undefined, what: string): T | undefined {
  if (a !== undefined && b !== undefined && a !== b) {
    throw new Unexpected('wrong_layout', '', `the two base chains differ in ${what}`);
  }
  return a ?? b;
}

function unused(installed: Installed, used: ReadonlySet<string>): Finding[] {
  return [...installed.chains.values()]
    .filter(({ name, attachment }) => attachment === undefined && !used.has(name))
    .map(({ name }) => ({ code: 'unused_chain', name, detail: 'nothing refers to the chain' }));
}

/** The policy that a table of ours enforces, and what in it is not of our making. */
export function decompile(installed: Installed, table: TableName = 'service'): Decompiled {
  const findings = strangers(installed, table);
  const used = new Set<string>();
  const readings: BaseReading[] = [];
  for (const direction of directions) {
    try {
      readings.push(readDirection(installed, { table, direction }, used));
    } catch (error) {
      if (!(error instanceof Unexpected)) throw error;
      findings.push(error.finding);
    }
  }
  const [inbound, outbound] = readings;
  if (inbound === undefined || outbound === undefined) return { enforced: undefined, findings };
  try {
    const enforced = {
      policy: { inbound: inbound.policy, outbound: outbound.policy },
      interface: agreed(inbound.interface, outbound.interface, 'their interface'),
      neighbourDiscovery: agreed(inbound.neighbourDiscovery, outbound.neighbourDiscovery, 'neighbour discovery'),
      ...(outbound.serverAccess && { serverAccess: outbound.serverAccess }),
    };
    return {
      enforced: findings.every(isHarmless) ? enforced : undefined,
      findings: [...findings, ...unused(installed, used)],
    };
  } catch (error) {
    if (!(error instanceof Unexpected)) throw error;
    return { enforced: undefined, findings: [...findings, error.finding] };
  }
}
