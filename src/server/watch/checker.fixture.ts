/**
 * Owns the check of what streams promise, against the database's own record: ordered, unique, exact, complete,
 * resumable, tail never ahead of data. It does not depend on how a server works; its input is what was written and what
 * was received.
 */
import type { WatchKind } from '../../api/kinds.ts';
import type { OrganizationId, UserId } from '../../policy/ids.ts';
import type { Entry } from '../store/data/change-log.ts';
import { framesOf, maskOf, visible } from '../store/follow/frame.ts';

/** One received document. `print` is a fingerprint of its type and its value's text. */
export interface Received {
  readonly kind: WatchKind;
  readonly type: 'change' | 'delete' | 'tail';
  readonly revision: number;
  readonly print: number;
}

/** One connection of a client. */
export interface Connection {
  readonly items: readonly { readonly kind: WatchKind; readonly gt_revision?: number; readonly at_tail?: boolean }[];
  /** A head known to be committed before the request was sent. */
  readonly headBefore: number;
  readonly received: readonly Received[];
  /** Whether the client stayed until it must have received everything up to the last revision. */
  readonly complete: boolean;
}

/** A client: its connections one after the other, each resuming where the last one stopped. */
export interface Client {
  readonly name: string;
  readonly reader: UserId;
  /** Whether it watches devices by identity. */
  readonly byIdentity?: boolean;
  readonly connections: readonly Connection[];
}

/** FNV-1a over the characters: equal texts have equal prints, and a wrong text has another with all but certainty. */
export function printOf(type: string, json: string): number {
  let hash = type === 'change' ? 0x811c9dc5 : 0x01234567;
  for (let i = 0; i < json.length; i += 1) hash = Math.imul(hash ^ json.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

interface Shown {
  readonly revision: number;
  readonly kind: WatchKind;
  readonly type: 'change' | 'delete';
  readonly id: string;
  readonly print: number;
}

/** The record as one reader may see it. */
class Story {
  readonly byRevision = new Map<number, Shown>();
  readonly byId = new Map<string, Shown[]>();
  readonly #inOrder: Shown[] = [];

  constructor(org: OrganizationId, log: readonly Entry[], reader: UserId, byIdentity: boolean) {
    const asked = maskOf([byIdentity ? 'device-identity' : 'device', 'security-groups']);
    for (const entry of log) {
      for (const frame of framesOf(org, entry)) {
        if (entry.kind === 'organization' || !visible(frame, reader) || (frame.mask & asked) === 0) continue;
        const { revision, type, id } = frame;
        const shown = { revision, kind: entry.kind, type, id, print: printOf(type, frame.json) };
        this.byRevision.set(revision, shown);
        this.#inOrder.push(shown);
        const states = this.byId.get(id);
        if (states === undefined) this.byId.set(id, [shown]);
        else states.push(shown);
      }
    }
  }

  /** The next thing of a kind that the reader would see after a revision. */
  nextOf(kind: WatchKind, after: number): Shown | undefined {
    let low = 0;
    let high = this.#inOrder.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#inOrder[middle]?.revision ?? 0) > after) high = middle;
      else low = middle + 1;
    }
    for (; low < this.#inOrder.length; low += 1) if (this.#inOrder[low]?.kind === kind) return this.#inOrder[low];
    return undefined;
  }
}

export class Checker {
  readonly #org: OrganizationId;
  readonly #log: readonly Entry[];
  readonly #stories = new Map<string, Story>();
  readonly #transactions: readonly string[];
  /** Documents looked at. */
  checked = 0;

  /** `log` is every revision from 1 to the last; `transactions` names the one that wrote each, if that is known. */
  constructor(org: OrganizationId, log: readonly Entry[], transactions: readonly string[] = []) {
    for (const [index, entry] of log.entries()) {
      if (entry.revision !== index + 1) throw new Error(`the record itself has a hole before ${entry.revision}`);
    }
    this.#org = org;
    this.#log = log;
    this.#transactions = transactions;
  }

  /** Every violation, one sentence each. */
  check(client: Client): readonly string[] {
    const wrong: string[] = [];
    const say = (index: number) => (what: string) => wrong.push(`${client.name}, connection ${index}: ${what}`);
    const story = this.#story(client.reader, client.byIdentity ?? false);
    const held = new Map<string, Shown>();
    for (const [index, connection] of client.connections.entries()) {
      this.checked += connection.received.length;
      new ConnectionCheck({ story, connection, held, say: say(index), transactions: this.#transactions }).run();
    }
    const last = client.connections.at(-1);
    if (last?.complete === true) this.#compare(story, last, held, say(client.connections.length - 1));
    return wrong;
  }

  #story(reader: UserId, byIdentity: boolean): Story {
    const key = `${reader} ${byIdentity}`;
    let story = this.#stories.get(key);
    if (story === undefined) this.#stories.set(key, (story = new Story(this.#org, this.#log, reader, byIdentity)));
    return story;
  }

  /** Complete: after all its connections the client holds what the database holds, no more and no less. */
  #compare(story: Story, last: Connection, held: ReadonlyMap<string, Shown>, say: (what: string) => void): void {
    const kinds = new Set(last.items.map((item) => item.kind));
    for (const [id, states] of story.byId) {
      const truth = states.at(-1);
      if (truth === undefined || !kinds.has(truth.kind)) continue;
      const mine = held.get(id);
      if (truth.type === 'delete') {
        if (mine?.type === 'change')
          say(`still holds ${id} at ${mine.revision}, which was deleted at ${truth.revision}`);
      } else if (mine?.revision !== truth.revision) {
        say(`holds ${id} at ${mine?.revision ?? 'no revision'}, the database at ${truth.revision}`);
      }
    }
  }
}

class ConnectionCheck {
  readonly #story: Story;
  readonly #connection: Connection;
  readonly #held: Map<string, Shown>;
  readonly #say: (what: string) => void;
  readonly #transactions: readonly string[];
  readonly #at = new Map<WatchKind, number>();
  readonly #fresh = new Set<WatchKind>();
  readonly #tails = new Set<WatchKind>();
  /** The item whose listing is under way; past the last one, changes come merged. */
  #listing = 0;
  #merged = 0;
  /** Of the document being looked at. */
  #index = 0;
  /** The positions at which each resource was received, with the revision of each. */
  #told: Map<string, (readonly [number, number])[]> | undefined;

  constructor(parts: {
    readonly story: Story;
    readonly connection: Connection;
    readonly held: Map<string, Shown>;
    readonly say: (what: string) => void;
    readonly transactions: readonly string[];
  }) {
    const { connection, held } = parts;
    this.#story = parts.story;
    this.#connection = connection;
    this.#held = held;
    this.#say = parts.say;
    this.#transactions = parts.transactions;
    for (const { kind, gt_revision = 0 } of connection.items) {
      this.#at.set(kind, gt_revision);
      if (gt_revision > 0) continue;
      this.#fresh.add(kind);
      for (const [id, shown] of held) if (shown.kind === kind) held.delete(id);
    }
  }

  run(): void {
    for (const [index, document] of this.#connection.received.entries()) {
      this.#index = index;
      if (document.type === 'tail') this.#tail(document.kind);
      else this.#event(document);
    }
    const { items, complete } = this.#connection;
    for (const item of items) {
      if (complete && item.at_tail !== true && !this.#tails.has(item.kind)) this.#say(`no tail for ${item.kind}`);
    }
  }

  #event(document: Received): void {
    const { kind, revision } = document;
    const at = this.#at.get(kind);
    if (at === undefined) return this.#say(`${kind} was not asked for`);
    if (revision === at) this.#say(`revision ${revision} of ${kind} came twice`);
    else if (revision < at) this.#say(`revision ${revision} of ${kind} came after ${at}`);
    this.#at.set(kind, revision);
    this.#order(kind, revision);
    const truth = this.#story.byRevision.get(revision);
    if (truth === undefined || truth.kind !== kind) {
      return this.#say(`revision ${revision} of ${kind} is not this reader's to see`);
    }
    if (truth.type !== document.type || truth.print !== document.print) {
      this.#say(`revision ${revision} is not what was written`);
    }
    if (document.type === 'delete' && this.#fresh.has(kind) && revision <= this.#connection.headBefore) {
      this.#say(`a listing from nothing shows the old deletion ${revision}`);
    }
    this.#held.set(truth.id, truth);
    return undefined;
  }

  /** Listings come in the order of the request, each before its tail; what follows is merged. */
  #order(kind: WatchKind, revision: number): void {
    const { items } = this.#connection;
    // Without a tail there is no telling where a listing ends: a document of a later kind ends it.
    while (this.#listing < items.length && items[this.#listing]?.kind !== kind) {
      if (items[this.#listing]?.at_tail !== true && !this.#tails.has(items[this.#listing]?.kind ?? kind)) {
        return this.#say(`revision ${revision} of ${kind} came before the tail of ${items[this.#listing]?.kind}`);
      }
      this.#listing += 1;
    }
    if (items.every((item) => item.at_tail !== true) && this.#listing >= items.length) {
      if (revision <= this.#merged) this.#say(`later changes are not merged: ${revision} after ${this.#merged}`);
      this.#merged = revision;
    }
    return undefined;
  }

  #tail(kind: WatchKind): void {
    const item = this.#connection.items.find((one) => one.kind === kind);
    if (item === undefined || item.at_tail === true) return this.#say(`an unasked tail of ${kind}`);
    if (this.#tails.has(kind)) this.#say(`a second tail of ${kind}`);
    this.#tails.add(kind);
    while (this.#connection.items[this.#listing]?.kind !== kind) {
      const skipped = this.#connection.items[this.#listing];
      if (skipped === undefined || skipped.at_tail !== true) return this.#say(`the tail of ${kind} is out of order`);
      this.#listing += 1;
    }
    this.#listing += 1;
    this.#whole(kind, item.gt_revision ?? 0);
    return this.#nothingOwed(kind, item.gt_revision ?? 0);
  }

  /** Atomic: what one transaction did is on one side of a tail. */
  #whole(kind: WatchKind, from: number): void {
    const at = this.#at.get(kind) ?? 0;
    const transaction = this.#transactions[at - 1];
    if (at <= from || transaction === undefined) return;
    for (let next = this.#story.nextOf(kind, at); next !== undefined; next = this.#story.nextOf(kind, next.revision)) {
      if (this.#transactions[next.revision - 1] !== transaction) return;
      if (from === 0 && this.#goneUntold(next)) continue;
      this.#say(`the tail of ${kind} splits a transaction, after ${at}: ${next.revision} is missing`);
      return;
    }
  }

  /** Gone since then: a listing from nothing need not tell of it, now or later. */
  #goneUntold({ id, revision }: Shown): boolean {
    const gone = this.#story.byId.get(id)?.find((state) => state.type === 'delete' && state.revision >= revision);
    return gone !== undefined && !this.#comesLater(id, gone.revision);
  }

  /** Whether a resource was received again after the current document, with a revision up to this one. */
  #comesLater(id: string, until: number): boolean {
    if (this.#told === undefined) {
      this.#told = new Map();
      for (const [index, { revision }] of this.#connection.received.entries()) {
        const shown = this.#story.byRevision.get(revision);
        if (shown !== undefined) this.#told.set(shown.id, [...(this.#told.get(shown.id) ?? []), [index, revision]]);
      }
    }
    return this.#told.get(id)?.some(([index, revision]) => index > this.#index && revision <= until) ?? false;
  }

  /** A tail says: you have everything that was there when you came. */
  #nothingOwed(kind: WatchKind, from: number): void {
    const { headBefore } = this.#connection;
    for (const [id, states] of this.#story.byId) {
      const newest = states.findLast((state) => state.revision <= headBefore);
      if (newest === undefined || newest.kind !== kind || newest.revision <= from) continue;
      if (newest.type === 'delete' && from === 0) continue;
      const mine = this.#held.get(id);
      if (mine !== undefined && mine.revision >= newest.revision) continue;
      // Gone meanwhile: a listing from nothing need not tell of it, now or later.
      const gone = states.find((state) => state.type === 'delete' && state.revision > headBefore);
      if (from === 0 && gone !== undefined && !this.#comesLater(id, gone.revision)) continue;
      this.#say(`the tail of ${kind} came before revision ${newest.revision}, committed at ${headBefore} or before`);
    }
  }
}
