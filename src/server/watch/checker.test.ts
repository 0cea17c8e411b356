/** Proves the checker: it detects each kind of broken stream and accepts a correct one. */
import { describe, expect, test } from 'vitest';
import { Checker, type Client, type Connection, type Received } from './checker.fixture.ts';
import { ModelDatabase, modelOrg, userOf } from './model.fixture.ts';
import { parseLine } from './sink.fixture.ts';

function recorded(): ModelDatabase {
  const db = new ModelDatabase();
  const devices = [0, 1, 2, 3].map(() => db.create('device'));
  for (const id of devices) db.update(id);
  const own = db.create('security-groups', userOf(1));
  db.apply(own, true);
  db.apply(own, false);
  db.update(own);
  db.delete(devices[0] ?? '');
  db.update(devices[1] ?? '');
  return db;
}

const document = (line: { type: string; json: string }, kind: 'device' | 'security-groups'): Received =>
  parseLine(`{"type":"${line.type}","value":${line.json}}`, kind);
const tail: Received = { kind: 'device', type: 'tail', revision: 0, print: 0 };

/** What an honest server sends to a watcher of devices who came when the head was 8. */
function honest(db: ModelDatabase): Connection {
  const at = (revision: number): Received => {
    const entry = db.log[revision - 1];
    if (entry === undefined) throw new Error(`no revision ${revision}`);
    return document(entry, 'device');
  };
  const received = [at(5), at(6), at(7), at(8), tail, at(13), at(14)];
  return { items: [{ kind: 'device' }], headBefore: 8, received, complete: true };
}

const client = (...connections: readonly Connection[]): Client => ({ name: 'agent', reader: userOf(2), connections });
const mutated = (change: (received: Received[]) => void): readonly string[] => {
  const db = recorded();
  const connection = honest(db);
  const received = [...connection.received];
  change(received);
  return new Checker(modelOrg, db.log).check(client({ ...connection, received }));
};

describe('the checker', () => {
  test('passes an honest stream', () => {
    expect(mutated(() => undefined)).toEqual([]);
  });

  test('passes a stream in two connections, the second resumed from the last revision of the first', () => {
    const db = recorded();
    const { received } = honest(db);
    const first = {
      items: [{ kind: 'device' }],
      headBefore: 8,
      received: received.slice(0, 2),
      complete: false,
    } as const;
    const items = [{ kind: 'device', gt_revision: 6 }] as const;
    const second = { items, headBefore: 8, received: received.slice(2), complete: true };
    expect(new Checker(modelOrg, db.log).check(client(first, second))).toEqual([]);
  });

  test.each<[string, (received: Received[]) => void]>([
    ['a dropped event of the listing', (r) => r.splice(1, 1)],
    ['a dropped event after the tail', (r) => r.splice(6, 1)],
    ['a dropped deletion', (r) => r.splice(5, 1)],
    ['two events swapped', (r) => r.splice(0, 2, ...r.slice(0, 2).toReversed())],
    ['an event sent twice', (r) => r.splice(1, 0, ...r.slice(1, 2))],
    ['a tail that comes early', (r) => r.splice(3, 2, ...r.slice(3, 5).toReversed())],
    ['a second tail', (r) => r.push(tail)],
    ['a missing tail', (r) => r.splice(4, 1)],
    ['an event with another text', (r) => r.splice(0, 1, { ...tail, type: 'change', revision: 5, print: 1 })],
    ['a revision that was never written', (r) => r.push({ ...tail, type: 'change', revision: 99, print: 1 })],
    [
      'a kind that was not asked for',
      (r) => r.push({ ...tail, kind: 'security-groups', type: 'change', revision: 20 }),
    ],
  ])('catches %s', (_, change) => {
    expect(mutated(change)).not.toEqual([]);
  });

  test('catches an old deletion in a listing from nothing', () => {
    const db = recorded();
    const connection = { ...honest(db), headBefore: db.head };
    expect(new Checker(modelOrg, db.log).check(client(connection)).join()).toContain('old deletion 13');
  });

  test("catches a private state of another user's group", () => {
    const db = recorded();
    const secret = db.log.find((entry) => entry.only_for !== undefined);
    if (secret === undefined) throw new Error('the record has no private state');
    const items = [{ kind: 'security-groups' }] as const;
    const received = [document(secret, 'security-groups')];
    const connection = { items, headBefore: 0, received, complete: false };
    const checker = new Checker(modelOrg, db.log);
    expect(checker.check(client(connection)).join()).toContain("not this reader's");
    expect(checker.check({ name: 'owner', reader: userOf(1), connections: [connection] })).toEqual([]);
  });

  test('catches a ghost: a resource deleted between two connections and never told of', () => {
    const db = recorded();
    const { received } = honest(db);
    const first = {
      items: [{ kind: 'device' }],
      headBefore: 8,
      received: received.slice(0, 5),
      complete: false,
    } as const;
    const items = [{ kind: 'device', gt_revision: 8, at_tail: true }] as const;
    const second = { items, headBefore: 14, received: received.slice(6), complete: true };
    expect(new Checker(modelOrg, db.log).check(client(first, second)).join()).toContain('deleted at 13');
  });

  test('catches a tail in the middle of a transaction', () => {
    const db = recorded();
    const transactions = db.log.map(({ revision }) => (revision === 8 || revision === 13 ? 'one' : `${revision}`));
    const wrong = new Checker(modelOrg, db.log, transactions).check(client(honest(db)));
    expect(wrong.join()).toContain('splits a transaction');
  });

  test('refuses a record with a hole', () => {
    const { log } = recorded();
    expect(() => new Checker(modelOrg, log.toSpliced(3, 1))).toThrow('hole');
  });
});
