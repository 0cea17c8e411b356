/** Owns the check that the chains which record and answer packets are those that we write: whoever changed one changed what packets meet. */
import { accept, drop, targets, type Rule, type Verdict } from '../ast.ts';
import {
  admitRules,
  answerRules,
  recordRules,
  refuseRules,
  secondRules,
  type RecorderChains,
  type RecorderPlace,
} from '../compile/recorder.ts';
import { isObjectName, type ObjectName } from '../names.ts';
import { printRules } from '../print.ts';
import type { RecordedVerdict } from '../recording.ts';
import type { Installed } from './listing.ts';
import { unexpectedLayout } from './read-chain.ts';

/** The rules of a chain; nothing where it is not there, or one of them is not ours. */
function rulesOf({ chains }: Installed, name: string): readonly Rule[] | undefined {
  const chain = chains.get(name);
  const rules = chain?.rules.flatMap((each) => (each.kind === 'known' ? each.rule : [])) ?? [];
  return chain === undefined || chain.attachment !== undefined || rules.length < chain.rules.length ? undefined : rules;
}

const areRules = (found: readonly Rule[] | undefined, wanted: readonly Rule[]): boolean =>
  found !== undefined && printRules(found) === printRules(wanted);

function isRecordChain(installed: Installed, place: RecorderPlace, verdict: RecordedVerdict, name: string): boolean {
  const rules = rulesOf(installed, name);
  const [next] = rules?.[0] === undefined ? [] : targets(rules[0]);
  return (
    next !== undefined &&
    areRules(rules, recordRules(place, verdict, next)) &&
    areRules(rulesOf(installed, next), secondRules(place, verdict))
  );
}

/** The chains are as we write them; they are `used` from here on. */
function isRecorder(installed: Installed, place: RecorderPlace, chains: RecorderChains, used: Set<string>): boolean {
  const { refused, admitted, answer } = chains;
  const mayAnswer = place.table === 'service' || place.direction === 'inbound';
  const isRight =
    (refused === undefined || isRecordChain(installed, place, 'refused', refused)) &&
    (admitted === undefined || isRecordChain(installed, place, 'admitted', admitted)) &&
    (answer === undefined || areRules(rulesOf(installed, answer), mayAnswer ? answerRules : []));
  if (!isRight) return false;
  for (const name of [refused, admitted, answer]) {
    if (name === undefined) continue;
    used.add(name);
    for (const next of (rulesOf(installed, name) ?? []).flatMap(targets)) used.add(next);
  }
  return true;
}

/** Throws where a chain that the base chain records or answers by is not as we write it. */
export function checkRecorder(
  installed: Installed,
  place: RecorderPlace,
  chains: RecorderChains,
  used: Set<string>,
): void {
  if (isRecorder(installed, place, chains, used)) return;
  throw unexpectedLayout(chains.refused ?? chains.admitted ?? chains.answer ?? '');
}

const startingWith = (rules: readonly Rule[], start: string): ObjectName | undefined =>
  rules.flatMap(targets).find((name) => name.startsWith(start));

/** What a chain does to every packet that comes to it, besides recording and answering. */
function verdictOf(installed: Installed, place: RecorderPlace, name: string, used: Set<string>): Verdict | undefined {
  const rules = rulesOf(installed, name);
  if (rules === undefined || !isObjectName(name)) return undefined;
  const record = startingWith(rules, 'record-');
  const answer = startingWith(rules, 'answer-');
  if (name.startsWith('admit-')) {
    if (record === undefined || !areRules(rules, admitRules(record))) return undefined;
    return isRecorder(installed, place, { admitted: record }, used) ? accept : undefined;
  }
  const chains = { ...(record && { refused: record }), ...(answer && { answer }) };
  if (!areRules(rules, refuseRules(chains))) return undefined;
  return isRecorder(installed, place, chains, used) ? drop : undefined;
}

/** The chains that record or answer a packet and then decide about it, with what they decide. */
export function recorderVerdicts(
  installed: Installed,
  place: RecorderPlace,
  used: Set<string>,
): ReadonlyMap<string, Verdict> {
  const verdicts = new Map<string, Verdict>();
  for (const name of installed.chains.keys()) {
    if (!name.startsWith('admit-') && !name.startsWith('refuse-')) continue;
    const verdict = verdictOf(installed, place, name, used);
    if (verdict === undefined) continue;
    verdicts.set(name, verdict);
    used.add(name);
  }
  return verdicts;
}
