/** Owns the writing of a policy file from what the server has. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { PolicyTest } from '../../policy/policy-test/policy-test.ts';
import { allDevices, deviceWords } from '../lookup/device.ts';
import { allGroups, namesOfGroup } from '../lookup/group.ts';
import { peerNames, type PeerNames } from '../group/peer-text.ts';
import { writeGroup } from '../group/text.ts';
import { wordsFor } from '../../client/words/naming.ts';
import type { Session } from '../session/session.ts';
import { toJson, toYaml } from '../terminal/output.ts';
import { pastWords, readPast, type PastOptions } from '../lookup/past.ts';
import { noTests, storedTests } from '../lookup/stored-tests.ts';
import type { Scope } from './policy-file.ts';
import { writeTest } from './written-test.ts';

export interface ExportOptions extends PastOptions {
  readonly namesOnly?: boolean;
  readonly snapshot?: boolean;
}

/** What `apply` would read as what is there: the organization's groups and mine, and the devices that have any. */
export async function exportPolicy(session: Session, options: ExportOptions): Promise<void> {
  const { namesOnly, snapshot } = options;
  const past = readPast(options);
  const client = await session.client();
  const [groups, devices, me, { tests }] = await Promise.all([
    allGroups(session, past),
    allDevices(session, past),
    client.whoAmI(),
    past === undefined ? storedTests(session) : noTests,
  ]);
  if (past !== undefined)
    session.say(`Groups and devices as they were ${pastWords(past)}. Policy tests have no history and are left out.`);
  if (snapshot === true) {
    const security_groups = groups;
    return printSnapshot(session, { user_id: me.id, security_groups, devices, policy_tests: tests });
  }
  const mine = groups.filter(({ user_id }) => user_id === undefined || user_id === me.id);
  const names = countBy(mine, ({ group_name }) => group_name);
  const wordFor = deviceWords(devices);
  const groupWord = wordsFor(groups, namesOfGroup);
  const groupName = (id: string): string => {
    const group = mine.find((one) => one.id === id);
    return group === undefined ? id : groupWord(group);
  };
  const policy = {
    groups: mine.map((group) => exportGroup(group, names.get(group.group_name) ?? 0, peerNames(devices))),
    devices: devices.flatMap((device) => {
      const { id, hostname, security_groups = [], labels = [] } = device;
      if (security_groups.length + labels.length === 0) return [];
      return [
        {
          ...(namesOnly === true ? { device: wordFor(device) } : { device: hostname || id, id }),
          ...(labels.length > 0 && { labels }),
          groups: security_groups.map(groupName),
        },
      ];
    }),
    ...(tests.length > 0 && { tests: tests.map((test) => writeTest(test, peerNames(devices))) }),
  };
  const text = await toYaml(policy);
  return session.print({ data: policy, ids: mine.map(({ id }) => id), table: () => text });
}

/** The records themselves, as `ringfence test --snapshot` reads them. */
async function printSnapshot(
  session: Session,
  records: {
    readonly user_id: string;
    readonly security_groups: readonly SecurityGroup[];
    readonly devices: readonly Device[];
    readonly policy_tests: readonly PolicyTest[];
  },
): Promise<void> {
  const at = new Date().toISOString();
  const data = { snapshot: 1, at, organization_id: await session.organization(), ...records };
  return session.print({ data, ids: records.devices.map(({ id }) => id), table: () => toJson(data, 2) });
}

/** An id only where the name alone would not do: so that a file can be applied to another organization. */
function exportGroup(group: SecurityGroup, sameName: number, peers: PeerNames): Readonly<Record<string, unknown>> {
  const scope: Scope = group.is_default === true ? 'default' : group.user_id === undefined ? 'organization' : 'me';
  const { name, ...rest } = writeGroup(group, peers);
  return {
    name,
    ...(scope === 'default' && { default: true }),
    ...(scope === 'me' && { owner: 'me' }),
    ...(sameName > 1 && { id: group.id }),
    ...rest,
  };
}

function countBy<T>(things: readonly T[], key: (thing: T) => string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const thing of things) counts.set(key(thing), (counts.get(key(thing)) ?? 0) + 1);
  return counts;
}
