/**
 * Proves that the members of a peer can be read at any later time, and that the change between two moments is reported
 * correctly.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Address } from '../address.ts';
import { mergeRanges } from '../range.ts';
import type { Family, Members } from '../rule.ts';
import { changeOfMembers, isMember, MembersHistory, uniteMembers } from './members.ts';

const address: fc.Arbitrary<Address> = fc.record({
  family: fc.constantFrom<Family[]>(4, 6),
  value: fc.bigInt({ min: 0n, max: 12n }),
});
const all = ([4, 6] as const).flatMap((family) => Array.from({ length: 13 }, (_, i) => ({ family, value: BigInt(i) })));
const keyOf = ({ family, value }: Address): string => `${family} ${value}`;
const keys = (addresses: readonly Address[]): string[] => addresses.map(keyOf).toSorted();

function written(present: ReadonlySet<string>): Members {
  const of = (family: Family) =>
    mergeRanges(
      all
        .filter((each) => each.family === family && present.has(keyOf(each)))
        .map(({ value }) => ({ first: value, last: value })),
    );
  return { v4: of(4), v6: of(6) };
}

const plain = ({ v4, v6 }: Members): Members => ({ v4, v6 });

/** A peer whose addresses come and go, which remembers at least so many changes. */
class Peer {
  readonly present = new Set<string>();
  readonly #remembered: number;
  readonly history = new MembersHistory(
    () => written(this.present),
    (each) => this.present.has(keyOf(each)),
  );

  constructor(remembered: number) {
    this.#remembered = remembered;
  }

  toggle(each: Address): void {
    const joined = !this.present.has(keyOf(each));
    this.history.note(each, joined, 0, this.#remembered);
    if (joined) this.present.add(keyOf(each));
    else this.present.delete(keyOf(each));
  }
}

/** Who was there when, beside what was given out then. */
interface Moment {
  readonly present: ReadonlySet<string>;
  readonly members: Members;
}

function check(before: Moment, after: Moment, remembered: boolean): void {
  const change = changeOfMembers(before.members, after.members);
  if (remembered) expect(change).toBeDefined();
  if (change === undefined) return;
  const only = (one: Moment, other: Moment): string[] =>
    [...one.present].filter((key) => !other.present.has(key)).toSorted();
  expect(keys(change.gained)).toEqual(only(after, before));
  expect(keys(change.lost)).toEqual(only(before, after));
}

describe('the members of a peer', () => {
  it('are at every later time who they were, and what changed between any two moments adds up', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(address, fc.boolean()), { maxLength: 40 }),
        fc.constantFrom(3, 1_000),
        fc.boolean(),
        (toggles, remembered, readsEarly) => {
          const peer = new Peer(remembered);
          const moments: Moment[] = [];
          for (const [each, looks] of toggles) {
            peer.toggle(each);
            if (!looks) continue;
            const members = peer.history.now;
            moments.push({ present: new Set(peer.present), members });
            if (readsEarly) expect(members.v4).toEqual(written(peer.present).v4);
          }
          for (const [i, before] of moments.entries()) {
            for (const after of moments.slice(i)) {
              check(before, after, remembered === 1_000);
              check(after, before, remembered === 1_000);
            }
            for (const each of all) expect(isMember(before.members, each)).toBe(before.present.has(keyOf(each)));
            expect(plain(before.members)).toEqual(written(before.present));
          }
        },
      ),
    );
  });

  it('of several peers together are told by the address, whichever of them has it', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(2), address), { maxLength: 30 }), (toggles) => {
        const peers = [new Peer(1_000), new Peer(1_000), new Peer(1_000)];
        const momentOf = (): Moment => ({
          present: new Set(peers.flatMap(({ present }) => [...present])),
          members: uniteMembers(peers.map(({ history }) => history.now)),
        });
        const moments = [momentOf()];
        for (const [i, each] of toggles) {
          peers[i]?.toggle(each);
          moments.push(momentOf());
        }
        for (const [i, before] of moments.entries()) {
          for (const after of moments.slice(i)) check(before, after, true);
          expect(plain(before.members)).toEqual(written(before.present));
        }
      }),
    );
  });

  it('that are written out, as isolated devices are, are compared whole where they are few', () => {
    const range = (first: bigint, last: bigint) => ({ first, last });
    const [before, after] = [
      { v4: [range(1n, 3n)], v6: [range(7n, 7n)] },
      { v4: [range(2n, 4n)], v6: [] },
    ];
    const change = changeOfMembers(before, after);
    expect([keys(change?.gained ?? []), keys(change?.lost ?? [])]).toEqual([['4 4'], ['4 1', '6 7']]);
    expect(changeOfMembers(before, { v4: [range(0n, 5_000n)], v6: [] })).toBeUndefined();
  });

  it('that nobody remembers together are not compared by what changed', () => {
    const [one, other] = [new Peer(1_000), new Peer(1_000)];
    expect(changeOfMembers(one.history.now, other.history.now)).toBeUndefined();
    expect(changeOfMembers(one.history.now, { v4: [], v6: [] })).toBeUndefined();
    expect(changeOfMembers(uniteMembers([]), one.history.now)).toBeUndefined();
  });
});
