/** Proves that a refusal of a plan names the file, the line and the rule. */
import { expect, test } from 'vitest';
import type { SecurityGroup } from '../../api/group.ts';
import { RingfenceError } from '../../client/error.ts';
import { namedRefusal } from '../lookup/write-changes.ts';
import { commandExitOf } from '../terminal/exit.ts';
import type { Step } from './plan.ts';
import { namesInFiles, plannedChange } from './planned-change.ts';

const names = { nameOf: (id: string) => (id === 'id-of-db-1' ? 'db-1' : undefined) };
const peers = [{ device_id: 'id-of-db-1' }];
const steps: readonly Step[] = [
  {
    action: 'update',
    kind: 'group',
    where: 'policy.yaml:12',
    name: 'web',
    lines: [],
    group: { id: 'id-of-web', revision: 3 } as unknown as SecurityGroup,
    body: { group_name: 'web', outbound_rules: [{ ip_protocol: 'tcp', from_port: 22, to_port: 22, peers }] },
  },
  {
    action: 'delete',
    kind: 'group',
    name: 'old',
    lines: [],
    group: { id: 'id-of-old', revision: 4 } as unknown as SecurityGroup,
  },
];
const change = plannedChange(steps, { me: 'me', tests: [] }, undefined);

const said = (message: string, errors: readonly { readonly pointer: string; readonly detail: string }[] = []) => {
  const problems = errors.map((one) => ({ ...one, code: 'contradiction' as const }));
  const error = new RingfenceError({ code: 'invalid', status: 422, message, errors: problems });
  const { code, lines } = commandExitOf(namedRefusal(error, change, namesInFiles(steps, change, names)), {
    debug: false,
  });
  expect(code).toBe(2);
  return lines;
};

test('a refusal names the entry by its place in the file, and the rule by its words', () => {
  expect(said('/security_groups/0: No.')).toEqual(['policy.yaml:12: group web: No.']);
  expect(said('/delete/0: No.')).toEqual(['group old: No.']);
  expect(said('No.', [{ pointer: '/security_groups/0/outbound_rules/0/peers/0', detail: 'No.' }])).toEqual([
    'policy.yaml:12: group web: rule `tcp 22 to device:db-1`: No.',
  ]);
  expect(
    said('Two problems.', [
      { pointer: '/security_groups/0/group_name', detail: 'One.' },
      { pointer: '/delete/0', detail: 'Two.' },
    ]),
  ).toEqual(['Two problems.', '  policy.yaml:12: group web: name: One.', '  group old: Two.']);
});

test('an entry that no file names is called by its kind and id, and other text stays as it is', () => {
  const named = (message: string): string =>
    namedRefusal(new RingfenceError({ code: 'forbidden', message }), change, () => undefined).message;
  expect(named('/security_groups/0: No.')).toBe('group id-of-web: No.');
  expect(named('/delete/7: No.')).toBe('/delete/7: No.');
  expect(named('Nothing else.')).toBe('Nothing else.');
});
