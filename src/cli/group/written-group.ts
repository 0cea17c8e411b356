/** Owns the reading of groups from files: the whole group, and every problem with its place in the file. */
import { readGroup, type GroupInput } from '../../policy/group.ts';
import { isObject, type JsonObject } from '../../policy/json.ts';
import { defaultLimits, namingLimits, type Limits } from '../../policy/limits.ts';
import type { Direction } from '../../policy/rule.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import type { InputDocument } from '../terminal/input-file.ts';
import type { YamlPath } from '../terminal/read-yaml.ts';
import { readSelector, type PeerNames } from './peer-text.ts';
import { readRuleWords } from './rule-text.ts';

const wireNames: Readonly<Record<string, string>> = {
  name: 'group_name',
  description: 'group_description',
  inbound: 'inbound_rules',
  outbound: 'outbound_rules',
};
/** Reads peers and selectors as the server would. The server itself decides whether it allows them. */
const limits: Limits = { ...defaultLimits, ...namingLimits };
/** What a file calls a field of the server, where it does not use the field's own name. */
export const fileField = (wire: string): string =>
  Object.keys(wireNames).find((name) => wireNames[name] === wire) ?? wire;
const directions: Readonly<Record<string, Direction>> = { inbound_rules: 'inbound', outbound_rules: 'outbound' };
/** What a record of the server carries besides: it may be given back as it came. */
const recordOnly = new Set([
  'id',
  'org_id',
  'user_id',
  'is_default',
  'revision',
  'created_at',
  'updated_at',
  'warnings',
]);

export interface WrittenProblem {
  /** The path in the file. */
  readonly path: YamlPath;
  /** A rule in words, as it was written. */
  readonly words?: string;
  readonly detail: string;
}

export interface ReadText {
  readonly group: GroupInput;
  readonly problems: readonly WrittenProblem[];
}

/** One entry of a list of rules, and the rules that it means: words with several ports mean several. */
interface Entry {
  readonly path: YamlPath;
  readonly words: string | undefined;
}

interface Body {
  readonly body: JsonObject;
  /** For each field of the body its name in the file. */
  readonly names: ReadonlyMap<string, string>;
  /** For each rule of a direction the entry that it comes from. */
  readonly entries: ReadonlyMap<string, readonly Entry[]>;
  readonly problems: readonly WrittenProblem[];
}

const withoutDirection = (text: string): string => text.replace(/^\s*(in|inbound|out|outbound)\s+/i, '');

/** Rules in words become rules; everything else is left for the validation to judge. */
function expand(
  value: readonly unknown[],
  name: string,
  readWords: (words: string) => readonly unknown[],
): {
  readonly values: readonly unknown[];
  readonly entries: readonly Entry[];
  readonly problems: readonly WrittenProblem[];
} {
  const values: unknown[] = [];
  const entries: Entry[] = [];
  const problems: WrittenProblem[] = [];
  for (const [index, entry] of value.entries()) {
    const path = [name, index];
    const words = typeof entry === 'string' ? entry : undefined;
    try {
      for (const meant of words === undefined ? [entry] : readWords(words)) {
        values.push(meant);
        entries.push({ path, words });
      }
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      problems.push({ path, detail: error.message, ...(words !== undefined && { words }) });
    }
  }
  return { values, entries, problems };
}

/** How the words of a field's entries are read; undefined where its entries have no words. */
function wordsReader(wire: string, names: PeerNames): ((words: string) => readonly unknown[]) | undefined {
  if (wire === 'applies_to') return (words) => [readSelector(words)];
  const direction = Object.hasOwn(directions, wire) ? directions[wire] : undefined;
  return direction && ((words) => readRuleWords(direction, [withoutDirection(words)], names));
}

/** The body that the server would get. */
function toBody(written: JsonObject, peers: PeerNames): Body {
  const body: Record<string, unknown> = {};
  const names = new Map<string, string>();
  const entries = new Map<string, readonly Entry[]>();
  const problems: WrittenProblem[] = [];
  for (const [name, value] of Object.entries(written)) {
    if (recordOnly.has(name)) continue;
    const wire = (Object.hasOwn(wireNames, name) ? wireNames[name] : undefined) ?? name;
    const other = names.get(wire);
    if (other !== undefined) {
      problems.push({ path: [name], detail: `\`${other}\` and \`${name}\` mean the same: use only one` });
      continue;
    }
    names.set(wire, name);
    const readWords = wordsReader(wire, peers);
    if (readWords === undefined) body[wire] = value === null && wire === 'group_description' ? '' : value;
    else if (!Array.isArray(value)) body[wire] = value ?? [];
    else {
      const read = expand(value, name, readWords);
      body[wire] = read.values;
      entries.set(wire, read.entries);
      problems.push(...read.problems);
    }
  }
  return { body, names, entries, problems };
}

/** The steps of a JSON pointer. */
const stepsOf = (pointer: string): readonly string[] =>
  pointer === ''
    ? []
    : pointer
        .slice(1)
        .split('/')
        .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));

const pathOf = (steps: readonly string[]): YamlPath => steps.map((step) => (/^\d+$/.test(step) ? Number(step) : step));

/** A JSON pointer as the way into a document. */
export const pointerPath = (pointer: string): YamlPath => pathOf(stepsOf(pointer));

/** The validation calls fields by their names on the wire; a person looks for the names in the file. */
const inFileWords = (detail: string, names: ReadonlyMap<string, string>): string =>
  detail.replaceAll(
    /\b(group_name|group_description|inbound_rules|outbound_rules)\b/g,
    (wire) => names.get(wire) ?? fileField(wire),
  );

/** Turns a problem of the validated body into a problem of the file. */
function toWritten(pointer: string, told: string, { names, entries }: Body): WrittenProblem {
  const detail = inFileWords(told, names);
  const [field = '', index = '', ...rest] = stepsOf(pointer);
  const entry = index === '' ? undefined : entries.get(field)?.[Number(index)];
  if (entry === undefined) return { path: field === '' ? [] : [names.get(field) ?? field], detail };
  const { path, words } = entry;
  if (words !== undefined) return { path, words, detail };
  return { path: [...path, ...pathOf(rest)], detail };
}

const key = ({ path, detail }: WrittenProblem): string => `${path.join('/')} ${detail}`;

/** Reads a group out of a file and judges it as the server would. */
export function readWritten(written: unknown, mode: 'create' | 'update', names: PeerNames): ReadText {
  if (!isObject(written)) {
    return {
      group: {},
      problems: [{ path: [], detail: 'a group is a mapping with `name`, `inbound` and `outbound`' }],
    };
  }
  const body = toBody(written, names);
  const { group, problems, more } = readGroup(body.body, { mode, limits });
  const found = [...body.problems, ...problems.map(({ pointer, detail }) => toWritten(pointer, detail, body))];
  const once = [...new Map(found.map((problem) => [key(problem), problem])).values()];
  return { group, problems: more === 0 ? once : [...once, { path: [], detail: `and ${more} more problems` }] };
}

/** `policy.yaml:12: tcp 70000: a port must be between 1 and 65535, got 70000.` */
export const problemLine = ({ words, detail }: WrittenProblem, place: string): string =>
  `${place}: ${words === undefined ? '' : `\`${words}\`: `}${detail}`;

/** A path as text, such as `inbound[2].from_port`, for input whose line numbers are not shown. */
export const pathText = (path: YamlPath): string =>
  path.map((step, index) => (typeof step === 'number' ? `[${step}]` : index === 0 ? step : `.${step}`)).join('') ||
  'the group';

/** The group that a file holds, or all that is wrong with it. */
export function readOrRefuse(
  { file, value, place }: InputDocument,
  mode: 'create' | 'update',
  names: PeerNames,
): GroupInput {
  const { group, problems } = readWritten(value, mode, names);
  if (problems.length > 0) {
    throw usageError(
      `${file} is not valid:`,
      problems.map((problem) => problemLine(problem, place(problem.path))),
    );
  }
  return group;
}
