/** Owns the steps of a plan as one change, in the form that the server simulates and writes, and where in the files its entries are. */
import type { ChangeSetBody } from '../../api/change/change-set.ts';
import { ruleInSentence, type DeviceNaming } from '../../client/words/rule.ts';
import type { Direction, StoredRule } from '../../policy/rule.ts';
import { fileField, pathText, pointerPath } from '../group/written-group.ts';
import type { EntryNaming } from '../lookup/write-changes.ts';
import type { CurrentPolicy, GroupReference, Step } from './plan.ts';
import { testsAfter } from './plan-tests.ts';

type GroupEntry = NonNullable<ChangeSetBody['security_groups']>[number];
type DeviceEntry = NonNullable<ChangeSetBody['devices']>[number];

const keyOf = ({ scope, name }: { readonly scope: string; readonly name: string }): string => `${scope} ${name}`;

/** Ids that sort in the order in which they are made, as those of the server do (UUID version 7). */
function orderedIds(): () => string {
  let count = 0;
  const start = Date.now();
  return () => {
    const time = (start + Math.floor(count / 0x1000)).toString(16).padStart(12, '0');
    const place = (count % 0x1000).toString(16).padStart(3, '0');
    count += 1;
    return `${time.slice(0, 8)}-${time.slice(8)}-7${place}-${crypto.randomUUID().slice(19)}`;
  };
}

/** Groups that the steps create choose their ids, so that devices of the same change can name them. */
function chosenIds(steps: readonly Step[]): ReadonlyMap<string, string> {
  const newId = orderedIds();
  return new Map(
    steps.flatMap((step) => (step.kind === 'group' && step.action === 'create' ? [[keyOf(step), newId()]] : [])),
  );
}

/** Every record is changed only while it is what the plan was made from. */
export function plannedChange(
  steps: readonly Step[],
  { me, tests }: Pick<CurrentPolicy, 'me' | 'tests'>,
  testsRevision: number | undefined,
): ChangeSetBody {
  const made = chosenIds(steps);
  const idOf = (group: GroupReference): string => ('id' in group ? group.id : (made.get(keyOf(group)) ?? ''));
  const groups = steps.flatMap((step): readonly GroupEntry[] => {
    if (step.kind !== 'group' || step.action === 'delete') return [];
    if (step.action === 'update') return [{ ...step.body, id: step.group.id, revision: step.group.revision }];
    const id = made.get(keyOf(step));
    return [{ ...step.body, ...(id !== undefined && { id }), ...(step.scope === 'me' && { user_id: me }) }];
  });
  const devices = steps.flatMap((step): readonly DeviceEntry[] =>
    step.kind === 'device'
      ? [
          {
            id: step.device.id,
            revision: step.device.revision,
            ...(step.groups && { security_groups: step.groups.map(idOf) }),
            ...(step.labels && { labels: [...step.labels] }),
          },
        ]
      : [],
  );
  const gone = steps.flatMap((step) => (step.kind === 'group' && step.action === 'delete' ? [step.group.id] : []));
  const tested = steps.flatMap((step) => (step.kind === 'test' ? [step] : []));
  return {
    ...(groups.length > 0 && { security_groups: groups }),
    ...(devices.length > 0 && { devices }),
    ...(gone.length > 0 && { delete: gone }),
    ...(tested.length > 0 && {
      policy_tests: testsAfter(tests, tested),
      ...(testsRevision !== undefined && { policy_tests_revision: testsRevision }),
    }),
  };
}

/** `rule \`tcp 22 from any\``, `labels[0]`: what a pointer into an entry leads to. */
function fieldWords(entry: unknown, pointer: string, names: DeviceNaming): string {
  const [field = '', index, ...rest] = pointerPath(pointer);
  const direction: Direction | undefined =
    field === 'inbound_rules' ? 'inbound' : field === 'outbound_rules' ? 'outbound' : undefined;
  const rules = direction && (entry as Readonly<Record<string, readonly StoredRule[] | undefined>>)[field];
  const rule = rules?.[Number(index)];
  if (direction !== undefined && rule !== undefined) return `rule \`${ruleInSentence(direction, rule, names)}\``;
  return pathText([fileField(String(field)), ...(index === undefined ? [] : [index]), ...rest]);
}

/** `policy.yaml:12: group web`, for the entries of the change that the steps became. */
export function namesInFiles(steps: readonly Step[], change: ChangeSetBody, names: DeviceNaming): EntryNaming {
  const written = (kind: 'group' | 'device'): readonly Step[] =>
    steps.filter((step) => step.kind === kind && step.action !== 'delete');
  const [groups, devices] = [written('group'), written('device')];
  const byEntry = new Map<unknown, Step | undefined>();
  for (const [index, entry] of (change.security_groups ?? []).entries()) byEntry.set(entry, groups[index]);
  for (const [index, entry] of (change.devices ?? []).entries()) byEntry.set(entry, devices[index]);
  for (const step of steps) {
    if (step.kind === 'test') byEntry.set(step.test, step);
    else if (step.kind === 'group' && step.action === 'delete') byEntry.set(step.group.id, step);
  }
  return (entry, pointer) => {
    const step = byEntry.get(entry);
    if (step === undefined) return undefined;
    const { where, kind, name } = step;
    const field = pointer === '' ? '' : `: ${fieldWords(entry, pointer, names)}`;
    return `${where === undefined ? '' : `${where}: `}${kind} ${name}${field}`;
  };
}
