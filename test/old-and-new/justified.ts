/** Owns the differences from older programs that are meant: each with its reason, and only as wide as that reason. */
import type { Answered, Json } from '../lib/http.ts';
import type { Answers, Command, Difference } from './commands.ts';

interface Justified {
  readonly reason: string;
  /** What both servers answer later differs by it. */
  readonly parts?: true;
  readonly is: (command: Command, answers: Answers, differences: readonly Difference[]) => boolean;
}

const turned = ({ old, new: now }: Answers, from: number, to: number): boolean =>
  old.status === from && now.status === to;

const codeOf = ({ json }: Answered): unknown => json?.code;

/** Without names and ids of devices. */
const unnamed = (detail: unknown): string => String(detail).replace(/(?:[^ ]+ \()?[0-9a-f-]{36}\)?/g, 'DEVICE');

const justified: readonly Justified[] = [
  {
    reason: 'An owner may revert every trial of the organization.',
    is: ({ method, path }, answers) =>
      method === 'POST' && /\/trials\/[^/]+\/revert$/.test(path) && turned(answers, 403, 200),
  },
  {
    reason: 'Who never agreed to be an owner does not count as the last one.',
    is: ({ method, path }, answers) =>
      /^(PATCH|DELETE) .*\/members\/[^/]+$/.test(`${method} ${path}`) &&
      answers.old.status === 200 &&
      codeOf(answers.new) === 'last_owner',
  },
  {
    reason: 'The refusal to delete a group says what helps where it applies by label.',
    is: (_command, { old, new: now }, differences) =>
      old.status === 409 &&
      now.status === 409 &&
      differences.every((each) => String(each.old).includes('Remove it from the devices and revoke the keys first')),
  },
  {
    reason: 'An operation knows more fields, and says so.',
    is: (_command, { old, new: now }, differences) =>
      old.status === now.status &&
      differences.every(({ old: said, new: says }) => {
        const [fewer, more] = [String(said).split('known fields: '), String(says).split('known fields: ')];
        const known = new Set(more[1]?.replace(/\.$/, '').split(', '));
        return (
          fewer[0] === more[0] &&
          fewer[1]
            ?.replace(/\.$/, '')
            .split(', ')
            .every((field) => known.has(field)) === true
        );
      }),
  },
  {
    reason: 'The audit says of a trial that only some of its records went back.',
    is: (_command, _answers, differences) =>
      differences.every((each) => /^\/\d+\/fields$/.test(each.path) && JSON.stringify(each.new) === '["records"]'),
  },
  {
    reason:
      'A change of a group is not refused for a device that was open before it: one whose empty list is being tried.',
    is: ({ method, path }, answers) =>
      method === 'PATCH' &&
      path.includes('/security_groups/') &&
      turned(answers, 409, 200) &&
      codeOf(answers.old) === 'would_open',
  },
  {
    reason: 'Of several devices on which a guardrail makes a rule void, the first by id is named.',
    is: (_command, _answers, differences) =>
      differences.every(
        ({ path, old: said, new: says }) =>
          /^\/warnings\/\d+\/detail$/.test(path) &&
          String(said).replace(/^On .*?, this rule/, '') === String(says).replace(/^On .*?, this rule/, ''),
      ),
  },
  {
    reason: 'A policy test that passes only by a trial is failing until the trial ends.',
    parts: true,
    is: (_command, { old, new: now }, differences) =>
      old.status === now.status &&
      differences.every(({ path }) => {
        const [, index, field] = /^\/(\d+)\/(state|failure)$/.exec(path) ?? [];
        const test = field === undefined ? undefined : now.json?.[Number(index)];
        return test?.state === 'failing' && test.until !== undefined && old.json?.[Number(index)]?.state === 'passing';
      }),
  },
  {
    reason: 'A write that leaves a policy test passing only by a trial is refused.',
    is: (_command, { old, new: now }) =>
      old.status < 300 &&
      codeOf(now) === 'policy_test_failed' &&
      String(now.json?.detail).includes('It passes only until'),
  },
  {
    reason: 'The devices that a refused change would open are named in the order of their names, as these are now.',
    is: (_command, { old, new: now }, differences) =>
      codeOf(old) === 'would_open' &&
      codeOf(now) === 'would_open' &&
      differences.every(({ path, old: said, new: says }) => path === '/detail' && unnamed(said) === unnamed(says)),
  },
  {
    reason: 'Of several pairs that fail a policy test, another one is named.',
    is: (_command, { old, new: now }, differences) =>
      old.status === now.status &&
      differences.some((each) => /\/failure\/(from|to)\//.test(each.path)) &&
      differences.every((each) => /\/failure\/|^\/detail$|^\/errors\/\d+\/detail$/.test(each.path)),
  },
];

/** Fields that the older program lacks, each with what it tells. */
const newFields: Readonly<Record<string, string>> = {
  accepted: 'whether an owner whom somebody else made one has agreed',
  until: 'when a trial ends on which a policy test depends',
  refused_addresses: 'the addresses that an isolation makes others refuse',
};

/** Operations that the older program does not know: their entries are missing in its audit. */
const newOperations: ReadonlySet<unknown> = new Set(['acceptMember']);

export const isNewEntry = (entry: Json): boolean => newOperations.has(entry?.operation);

export const isNewField = (name: string): boolean => Object.hasOwn(newFields, name);

/** Why this difference is meant; undefined where it is a defect until somebody can say why it is better. */
export const justification = (
  command: Command,
  answers: Answers,
  differences: readonly Difference[],
): Pick<Justified, 'reason' | 'parts'> | undefined => justified.find(({ is }) => is(command, answers, differences));
