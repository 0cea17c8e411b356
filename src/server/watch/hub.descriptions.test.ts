/** Owns the hub's rule for descriptions of rules, on a model database: people get them, agents do not, and each of the two shares one buffer. */
import { expect, test } from 'vitest';
import { parseDeviceId } from '../../policy/ids.ts';
import type { Entry } from '../store/data/change-log.ts';
import { hubMaker } from './hub.fixture.ts';
import { ModelDatabase } from './model.fixture.ts';

const make = hubMaker();
const groups = [{ kind: 'security-groups' }] as const;
const agent = { kind: 'device', device: parseDeviceId('44444444-4444-4444-8444-000000000001') } as const;

/** Every group has a rule with a description. */
class DescribedDatabase extends ModelDatabase {
  #described(entries: readonly Entry[]): readonly Entry[] {
    return entries.map((entry) => ({
      ...entry,
      json: entry.json.replace('"text":', '"inbound_rules":[{"from_port":22,"description":"on call"}],"text":'),
    }));
  }

  override async readChanges(...asked: Parameters<ModelDatabase['readChanges']>) {
    const page = await super.readChanges(...asked);
    return page && this.#described(page);
  }

  override async readState(...asked: Parameters<ModelDatabase['readState']>) {
    const page = await super.readState(...asked);
    return { ...page, entries: this.#described(page.entries) };
  }
}

test('people get descriptions and agents do not, in listings, changes and resumes, each from one shared buffer', async () => {
  const t = make({ db: new DescribedDatabase() });
  const id = t.db.create('security-groups');
  const open = async (options: Parameters<typeof t.watch>[1]) => [
    await t.watch(groups, options),
    await t.watch(groups, options),
    await t.watch([{ kind: 'security-groups', gt_revision: 1 }], options),
  ];
  const [people, agents, reporters] = [await open({}), await open(agent), await open({ takesReceiptRequests: true })];
  t.db.update(id);
  await t.hint();
  for (const sink of people) expect(sink.body()).toContain('"description":"on call"');
  for (const sink of [...agents, ...reporters]) {
    expect(sink.body()).not.toContain('description');
    expect(sink.body()).toContain('{"from_port":22}');
  }
  const last = (sinks: typeof people): number => new Set(sinks.map((sink) => sink.sent.at(-1))).size;
  expect([last(people), last([...agents, ...reporters])]).toEqual([1, 1]);
});
