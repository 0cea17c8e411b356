/** Owns the reading of a snapshot that `ringfence export --snapshot` wrote: an organization's groups, devices and tests as records. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { isUuid } from '../../policy/ids.ts';
import { isObject, type JsonObject } from '../../policy/json.ts';
import { readPolicyTests } from '../../policy/policy-test/read-tests.ts';
import type { CurrentPolicy } from '../policy/plan.ts';
import { usageError } from '../terminal/exit.ts';
import type { InputDocument } from '../terminal/input-file.ts';

const isRecord = (value: unknown): value is JsonObject => isObject(value) && isUuid(value['id']);
const isGroup = (value: unknown): boolean => isRecord(value) && typeof value['group_name'] === 'string';
const isTexts = (value: unknown): boolean =>
  value === undefined || (Array.isArray(value) && value.every((one) => typeof one === 'string'));
const isDevice = (value: unknown): boolean =>
  isRecord(value) &&
  ['hostname', 'public_key', 'tunnel_ip', 'user_id'].every((name) => typeof value[name] === 'string') &&
  ['labels', 'addresses', 'security_groups'].every((name) => isTexts(value[name]));

function listIn(
  value: JsonObject,
  name: string,
  isEntry: (entry: unknown) => boolean,
  file: string,
): readonly unknown[] {
  const list = value[name];
  if (Array.isArray(list) && list.every(isEntry)) return list as unknown[];
  throw usageError(
    `${file} is not a snapshot: \`${name}\` is not a list of records; write it with \`ringfence export --snapshot\``,
  );
}

export interface ReadSnapshot extends CurrentPolicy {
  /** When it was made. */
  readonly at: string | undefined;
}

/** Records are taken as the server wrote them; what decides verdicts in them is judged by the policy core. */
export function readSnapshot({ value, file }: Pick<InputDocument, 'value' | 'file'>): ReadSnapshot {
  if (!isObject(value) || value['snapshot'] !== 1)
    throw usageError(`${file} is not a snapshot: write it with \`ringfence export --snapshot\``);
  const { tests, problems } = readPolicyTests(value['policy_tests']);
  if (problems.length > 0)
    throw usageError(`${file} is not a snapshot: ${problems.map(({ detail }) => detail).join(' ')}`);
  return {
    groups: listIn(value, 'security_groups', isGroup, file) as readonly SecurityGroup[],
    devices: listIn(value, 'devices', isDevice, file) as readonly Device[],
    tests,
    me: typeof value['user_id'] === 'string' ? value['user_id'] : '',
    at: typeof value['at'] === 'string' ? value['at'] : undefined,
  };
}
