/**
 * Owns the reading of a group as a user sends it: create and update bodies (reference 2.3), with all problems at once.
 */
import { readSelectors } from './fleet/read-peers.ts';
import { isUuid } from './ids.ts';
import { defaultLimits, type Limits } from './limits.ts';
import { countRanges } from './normalize.ts';
import { at, Problems, show, type Found, type Problem } from './problem.ts';
import {
  groupModes,
  guardrailKinds,
  type GroupMode,
  type GuardrailKind,
  type Selector,
  type StoredRule,
} from './rule.ts';
import { field, isObject, type JsonObject } from './json.ts';
import { readText } from './names/read-text.ts';
import { readRules, refuseUnknownFields, tooManyRanges } from './validate.ts';

/** What a valid body says. A field that the body does not name is absent. */
export interface GroupInput {
  readonly group_name?: string;
  readonly group_description?: string;
  readonly inbound_rules?: readonly StoredRule[];
  readonly outbound_rules?: readonly StoredRule[];
  readonly applies_to?: readonly Selector[];
  readonly guardrail?: GuardrailKind;
  readonly mode?: GroupMode;
}

/** What a group holds now. */
export interface CurrentGroup {
  readonly inbound_rules: readonly StoredRule[];
  readonly outbound_rules: readonly StoredRule[];
  readonly applies_to?: readonly Selector[] | undefined;
  readonly guardrail?: GuardrailKind | undefined;
}

export interface ReadGroupOptions {
  readonly mode: 'create' | 'update';
  /** The organization that the path names: a body may repeat it, not contradict it. */
  readonly org_id?: string;
  /** On update: what the group holds now, so that the limit counts the direction that stays. */
  readonly stored?: CurrentGroup;
  readonly limits?: Limits;
  /** Whether the organization has this device. Absent: ids are not checked. */
  readonly knowsDevice?: (id: string) => boolean;
  /**
   * The time at which the group is written, in milliseconds since the epoch: rules must not have expired by then.
   * Absent: expiry is not checked.
   */
  readonly now?: number;
}

const groupFields = ['group_name', 'group_description', 'org_id', 'inbound_rules', 'outbound_rules'];
const groupFieldsWithNames = [...groupFields, 'applies_to', 'guardrail', 'mode'];

function checkOrganization(body: JsonObject, expected: string | undefined, problems: Problems): void {
  const value = field(body, 'org_id');
  if (value === undefined) return;
  if (!isUuid(value))
    problems.add(
      '/org_id',
      value === null ? 'null_not_allowed' : 'not_an_id',
      () => `org_id must be a UUID, got ${show(value)}.`,
    );
  else if (expected !== undefined && value.toLowerCase() !== expected.toLowerCase()) {
    problems.add('/org_id', 'contradiction', () => `org_id says ${value}, the path says ${expected}.`);
  }
}

/** Which devices the group applies to, and whether it is a guardrail, which must say so (reference 1.3, 1.4). */
function readApplication(
  body: JsonObject,
  { mode, stored }: ReadGroupOptions,
  most: number,
  problems: Problems,
): Pick<GroupInput, 'applies_to' | 'guardrail'> {
  const said = { applies_to: field(body, 'applies_to'), guardrail: field(body, 'guardrail') };
  const guardrail = guardrailKinds.find((kind) => kind === said.guardrail);
  if (said.guardrail === null) {
    problems.add(
      '/guardrail',
      'null_not_allowed',
      () => 'guardrail must be a string; for a group that is not a guardrail, omit it.',
    );
  } else if (said.guardrail !== undefined && guardrail === undefined) {
    const known = guardrailKinds.join(', ');
    problems.add(
      '/guardrail',
      'not_one_of',
      () => `${show(said.guardrail)} is not a kind of guardrail; known kinds: ${known}.`,
    );
  } else if (mode === 'update' && said.guardrail !== undefined && guardrail !== stored?.guardrail) {
    const is = stored?.guardrail === undefined ? 'no guardrail' : `a guardrail of kind ${stored.guardrail}`;
    problems.add(
      '/guardrail',
      'guardrail_fixed',
      () => `The group is ${is}, and this cannot change; create another group.`,
    );
  }
  const applies_to =
    said.applies_to === undefined ? undefined : readSelectors(said.applies_to, '/applies_to', problems, most);
  const stays = applies_to ?? stored?.applies_to ?? [];
  const isEmpty = Array.isArray(said.applies_to ?? []) && stays.length === 0;
  if ((guardrail ?? stored?.guardrail) !== undefined && isEmpty) {
    problems.add('/applies_to', 'too_few_items', () => 'A guardrail needs applies_to with at least one selector.');
  }
  return { ...(applies_to && { applies_to }), ...(guardrail && { guardrail }) };
}

/** Whether the group enforces or is watch only (reference 1.6). */
function readMode(body: JsonObject, problems: Problems): Pick<GroupInput, 'mode'> {
  const value = field(body, 'mode');
  if (value === undefined) return {};
  const mode = groupModes.find((one) => one === value);
  if (mode !== undefined) return { mode };
  const [code, known] = [value === null ? 'null_not_allowed' : 'not_one_of', groupModes.join(' or ')] as const;
  problems.add('/mode', code, () => `mode must be ${known}, got ${show(value)}.`);
  return {};
}

const found = ({ problems, more }: Problems): Found<Problem> => ({ problems, more });

/** Every problem of a body, and what it says where there is none. Never throws, whatever the value. */
export function readGroup(body: unknown, options: ReadGroupOptions): Found<Problem> & { readonly group: GroupInput } {
  const problems = new Problems();
  const limits = options.limits ?? defaultLimits;
  if (!isObject(body)) {
    problems.add('', 'not_an_object', () => `The body must be an object, got ${show(body)}.`);
    return { ...found(problems), group: {} };
  }
  const { selectorsPerGroup } = limits;
  refuseUnknownFields(body, selectorsPerGroup === undefined ? groupFields : groupFieldsWithNames, '', problems);
  if (options.mode === 'create' && field(body, 'group_name') === undefined) {
    problems.add('/group_name', 'missing_field', () => 'A group needs a group_name.');
  }
  const group_name = readText(body, 'group_name', { shortest: 1, longest: limits.nameLength, lines: false }, problems);
  const group_description = readText(
    body,
    'group_description',
    { shortest: 0, longest: limits.descriptionLength, lines: true },
    problems,
  );
  checkOrganization(body, options.org_id, problems);
  const read = (name: 'inbound_rules' | 'outbound_rules'): readonly StoredRule[] | undefined => {
    const value = field(body, name);
    if (value === undefined) return undefined;
    const { knowsDevice, now, stored } = options;
    const checks = { ...limits, knowsDevice, now, storedRules: () => stored?.[name] ?? [] };
    return readRules(value, at('', name), problems, checks);
  };
  const inbound_rules = read('inbound_rules');
  const outbound_rules = read('outbound_rules');
  const application =
    selectorsPerGroup === undefined
      ? {}
      : { ...readApplication(body, options, selectorsPerGroup, problems), ...readMode(body, problems) };
  const ranges =
    countRanges(inbound_rules ?? options.stored?.inbound_rules ?? []) +
    countRanges(outbound_rules ?? options.stored?.outbound_rules ?? []);
  if ((inbound_rules ?? outbound_rules) !== undefined && ranges > limits.rangesPerGroup) {
    const pointer = inbound_rules === undefined ? '/outbound_rules' : '/inbound_rules';
    tooManyRanges(pointer, ranges, problems, limits);
  }
  return {
    ...found(problems),
    group: {
      ...(group_name === undefined ? {} : { group_name }),
      ...(group_description === undefined ? {} : { group_description }),
      ...(inbound_rules === undefined ? {} : { inbound_rules }),
      ...(outbound_rules === undefined ? {} : { outbound_rules }),
      ...application,
    },
  };
}
