/** Proves the hints between the processes of one server: complete, in order, bounded, and counted as received only when they were. */
import { describe, expect, test } from 'vitest';
import { parseOrganizationId, parseUserId, type OrganizationId } from '../../../policy/ids.ts';
import type { Entry, Hint } from '../data/change-log.ts';
import { decodeHint } from './hint-text.ts';
import { WorkerPeerHints } from './worker-peer-hints.ts';
import { readMessage } from './worker-peer-message.ts';
import { MemoryWorkerPeers } from './worker-peers.fixture.ts';

const idOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const org: OrganizationId = parseOrganizationId(idOf(1));
const user = parseUserId(idOf(2));
const source = idOf(100);

const entry = (revision: number, more: Partial<Entry> = {}): Entry => ({
  revision,
  kind: 'device',
  type: 'change',
  id: idOf(3),
  json: `{"id":"${idOf(3)}","hostname":"\\"ä\\u0007  ","revision":${revision}}`,
  only_for: undefined,
  left_at: 0,
  ...more,
});

/** Two processes; what runs behind other work runs when `turn` is called. */
function pair() {
  const [here, there] = MemoryWorkerPeers.pair();
  const deferred: (() => void)[] = [];
  const heard: Hint[] = [];
  const defer = (run: () => void): void => void deferred.push(run);
  const one = new WorkerPeerHints({ workerPeers: here, source, deliver: () => {}, defer });
  const other = new WorkerPeerHints({
    workerPeers: there,
    source: idOf(101),
    deliver: (hint) => heard.push(hint),
    defer,
  });
  const turn = (): void => {
    for (const run of deferred.splice(0)) run();
  };
  const tell = (entries: readonly Entry[] = []): number =>
    one.tell([`o${org}`], entries.length === 0 ? [] : [{ organization_id: org, entries }]);
  return { here, one, other, heard, turn, tell };
}

const revisions = (heard: readonly Hint[]): readonly (readonly number[])[] =>
  heard.map(({ logged }) => logged.flatMap(({ entries }) => entries.map(({ revision }) => revision)));

describe('what a process tells the others of its server', () => {
  test('arrives whole, as it was told, in its order, and what is told in one moment in one message', () => {
    const t = pair();
    const entries = [
      entry(5, { only_for: user, left_at: 4, identity: '{"revision":5}' }),
      entry(6, { kind: 'security-groups', type: 'delete' }),
    ];
    t.tell(entries);
    t.one.tell([`c${user}`, `m${org}/${user}`], []);
    t.tell([entry(7, { kind: 'organization' })]);
    expect(t.heard).toEqual([]);
    t.turn();
    expect(t.heard).toStrictEqual([
      { ...decodeHint(`o${org}`), logged: [{ organization_id: org, entries }] },
      decodeHint(`c${user} m${org}/${user}`),
      {
        ...decodeHint(`o${org}`),
        logged: [{ organization_id: org, entries: [entry(7, { kind: 'organization' })] }],
      },
    ]);
    expect(t.here.sizes).toHaveLength(1);
  });

  test('goes without entries when they are many at once, each piece of news once, and the next time with them', () => {
    const t = pair();
    for (let revision = 1; revision <= 4_000; revision += 1) t.tell([entry(revision, { json: 'x'.repeat(1_000) })]);
    t.one.tell([`c${user}`], []);
    t.turn();
    expect(t.here.sizes).toHaveLength(1);
    expect(t.here.sizes[0]).toBeLessThan(300_000);
    // The hint about the organization comes first, so that the remaining entries are read from the log.
    expect(t.heard[0]).toStrictEqual(decodeHint(`o${org}`));
    expect(t.heard.at(-1)).toStrictEqual(decodeHint(`c${user}`));
    expect(t.other.hasReceived(t.one.markFrom(1))).toBe(true);
    t.tell([entry(4_001)]);
    t.turn();
    expect(revisions(t.heard).at(-1)).toEqual([4_001]);
  });

  test('goes without entries when a transaction is large by itself', () => {
    const t = pair();
    t.tell([entry(1, { json: 'x'.repeat(200_000), identity: 'x'.repeat(100_000) })]);
    t.turn();
    expect(t.heard).toStrictEqual([decodeHint(`o${org}`)]);
  });

  test('is lost when it is more than anybody should keep, and then NOTIFY counts', () => {
    const t = pair();
    t.tell();
    t.turn();
    for (let n = 0; n < 10_000; n += 1) t.one.tell([`c${idOf(n)}`], []);
    t.turn();
    expect(t.heard.length).toBeLessThan(7_000);
    expect(t.other.hasReceived(t.one.markFrom(2))).toBe(false);
    // From here on it goes on.
    const next = t.tell();
    t.turn();
    expect(t.other.hasReceived(t.one.markFrom(next))).toBe(true);
  });
});

describe('a NOTIFY', () => {
  test('is passed over where all that it holds was heard, and there only', () => {
    const t = pair();
    const mark = (first: number): string => t.one.markFrom(first);
    const first = t.tell();
    expect(t.other.hasReceived(`${mark(first)} o${org}`)).toBe(false);
    t.turn();
    expect(t.other.hasReceived(`${mark(first)} o${org}`)).toBe(true);
    expect(t.other.hasReceived(mark(first))).toBe(true);
    expect(t.one.hasReceived(mark(first))).toBe(false);
    expect(t.other.hasReceived(mark(first).replace(source, idOf(7)))).toBe(false);
    for (const strange of ['', `o${org}`, `${mark(first)}0`, `${mark(first)}x`, `x${mark(first)}`, `s${source}/1`]) {
      expect([strange, t.other.hasReceived(strange)]).toEqual([strange, false]);
    }
    const second = t.tell();
    expect(t.other.hasReceived(mark(first))).toBe(false);
    t.turn();
    expect(t.other.hasReceived(mark(second))).toBe(true);
    expect(t.other.hasReceived(mark(first))).toBe(true);
  });

  test('that holds what was lost is not passed over, whatever was heard since', () => {
    const t = pair();
    const lost = t.tell();
    t.here.isCut = true;
    t.turn();
    t.here.isCut = false;
    const heard = t.tell();
    t.turn();
    expect(t.heard).toHaveLength(1);
    expect(t.other.hasReceived(t.one.markFrom(lost))).toBe(false);
    expect(t.other.hasReceived(t.one.markFrom(heard))).toBe(true);
    t.here.isCut = true;
    t.tell();
    t.turn();
    t.here.isCut = false;
    t.tell();
    t.turn();
    expect(t.other.hasReceived(t.one.markFrom(heard))).toBe(false);
  });

  test('of a process that was not heard of for long is not passed over: few are remembered', () => {
    const [here, there] = MemoryWorkerPeers.pair();
    const other = new WorkerPeerHints({ workerPeers: there, source: idOf(101), deliver: () => {} });
    const message = (n: number) => ({ source: idOf(n), after: 0, through: 1, hints: [] });
    for (let n = 1_000; n < 1_070; n += 1) here.send(message(n));
    const remembered = Array.from({ length: 70 }, (_, n) => other.hasReceived(`s${idOf(1_000 + n)}/1/1`));
    expect(remembered.indexOf(true)).toBe(6);
    expect(remembered.lastIndexOf(false)).toBe(5);
  });
});

describe('a message', () => {
  const good = () => ({
    source,
    after: 3,
    through: 4,
    hints: [{ text: `o${org}`, logged: [{ organization_id: org, entries: [JSON.parse(JSON.stringify(entry(5)))] }] }],
  });
  const withEntry = (more: object) => {
    const message = good();
    Object.assign(message.hints[0]?.logged[0]?.entries[0] ?? {}, more);
    return message;
  };

  test('is read', () => {
    expect(readMessage(good())).toMatchObject({ source, after: 3, through: 4, hints: [{ organizations: [org] }] });
    expect(readMessage(withEntry({ identity: '{}', only_for: user }))).toBeDefined();
  });

  test.each([
    ['nothing', undefined],
    ['null', null],
    ['a text', 'o'],
    ['no source', { ...good(), source: undefined }],
    ['a source that is no UUID', { ...good(), source: 'x' }],
    ['no numbers', { ...good(), after: '3' }],
    ['a number below nothing', { ...good(), after: -1 }],
    ['a half', { ...good(), through: 4.5 }],
    ['no hints', { ...good(), hints: {} }],
    ['a hint that is none', { ...good(), hints: [5] }],
    ['a hint that is no text', { ...good(), hints: [{ text: 5, logged: [] }] }],
    ['nothing logged', { ...good(), hints: [{ text: '' }] }],
    ['no organization', { ...good(), hints: [{ text: '', logged: [{ organization_id: 'x', entries: [] }] }] }],
    ['no entries', { ...good(), hints: [{ text: '', logged: [{ organization_id: org }] }] }],
    ['an unknown kind', withEntry({ kind: 'toString' })],
    ['an unknown type', withEntry({ type: 'made' })],
    ['no revision', withEntry({ revision: null })],
    ['no record', withEntry({ json: { id: 1 } })],
    ['a strange id', withEntry({ id: 7 })],
    ['a strange reader', withEntry({ only_for: 'everybody' })],
    ['a strange identity', withEntry({ identity: null })],
    ['a strange departure', withEntry({ left_at: '4' })],
  ])('with %s is none', (_, message) => {
    expect(readMessage(message)).toBeUndefined();
  });

  test('that cannot be read is as good as lost', () => {
    const [here, there] = MemoryWorkerPeers.pair();
    const heard: Hint[] = [];
    const other = new WorkerPeerHints({ workerPeers: there, source, deliver: (hint) => heard.push(hint) });
    here.send({ ...good(), source: idOf(7), through: 3.5 });
    expect(heard).toEqual([]);
    expect(other.hasReceived(`s${idOf(7)}/4/4`)).toBe(false);
  });
});
