/** Proves the informer's promise on random histories with random cuts: no gap, no ghost, nothing out of order. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { rounds } from '../../test/lib/thorough.ts';
import type { WatchKind } from '../api/kinds.ts';
import type { WatchItem } from '../api/watch.ts';
import { fakeNetwork, problem, turn, type RecordedRequest } from './fake.fixture.ts';
import { createInformer } from './informer.ts';
import { Model, type Listing } from './model.fixture.ts';
import { organization } from './records.fixture.ts';

const encoder = new TextEncoder();

/** A network whose every move comes from a list of numbers; when they are used up, it is a perfect one. */
class RandomNetwork {
  readonly #moves: readonly number[];
  readonly #model: Model;
  readonly #listing: Listing;
  #used = 0;
  /** The stream in force has nothing more to say. */
  drained = false;
  hung = false;

  constructor(moves: readonly number[], model: Model, listing: Listing) {
    this.#moves = moves;
    this.#model = model;
    this.#listing = listing;
  }

  get over(): boolean {
    return this.#used >= this.#moves.length;
  }
  #draw(below: number): number {
    const move = this.#moves[this.#used] ?? 0;
    this.#used += 1;
    return move % below;
  }

  readonly answer = (request: RecordedRequest): Response | Promise<Response> => {
    this.drained = false;
    this.hung = false;
    const items = request.body as readonly WatchItem[];
    if (!this.over) {
      const roll = this.#draw(16);
      if (roll === 1) return problem(503, {}, { 'retry-after': '1' });
      if (roll === 2) return Promise.reject(new TypeError('fetch failed'));
      if (roll === 3) {
        this.hung = true;
        return new Promise<never>(() => undefined);
      }
      if (roll === 4) this.#model.purged = this.#model.head;
    }
    if (items.some((item) => this.#model.isGone(item))) return problem(410, { code: 'revision_gone' });
    return this.#stream(request, items);
  };

  #stream({ signal }: RecordedRequest, items: readonly WatchItem[]): Response {
    const documents = this.#model.stream(items, this.#listing);
    let text = new Uint8Array();
    /** Fills up what is to be sent; false when the history has nothing more. */
    const refill = (): boolean => {
      if (text.length > 0) return true;
      const { value } = documents.next();
      if (value !== undefined) text = encoder.encode(`${JSON.stringify(value)}\n`);
      return value !== undefined;
    };
    const body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          signal.addEventListener('abort', () => controller.error(signal.reason), { once: true });
        },
        pull: (controller) => {
          while (!this.over) {
            const move = this.#draw(24);
            if (move < 9) this.#model.write(this.#draw(1 << 12));
            else if (move === 9) return controller.error(new TypeError('terminated'));
            else if (move === 10) return controller.close();
            else if (move === 11) {
              this.hung = true;
              return new Promise<never>(() => undefined);
            } else if (move === 12) this.#model.purged = Math.max(this.#model.purged, this.#draw(this.#model.head + 1));
            else if (move === 13 && text.length === 0) return controller.enqueue(encoder.encode('\n'));
            else if (refill()) {
              // Now a few bytes, now the rest of the document, so that cuts fall everywhere.
              const size = move < 17 ? 1 + this.#draw(40) : text.length;
              controller.enqueue(text.slice(0, size));
              text = text.slice(size);
              return;
            }
          }
          if (refill()) {
            controller.enqueue(text);
            text = new Uint8Array();
            return;
          }
          this.drained = true;
          return new Promise<never>(() => undefined);
        },
      },
      { highWaterMark: 0 },
    );
    return new Response(body, { headers: { 'content-type': 'application/json;stream=watch' } });
  }
}

/** Plays one history to its end and checks every report on the way. Answers what the run was worth. */
async function play(moves: readonly number[], kinds: readonly WatchKind[], listing: Listing) {
  const model = new Model();
  const network = new RandomNetwork(moves, model, listing);
  const { client, clock, seen } = fakeNetwork(network.answer);
  const informer = createInformer({ client, organization, kinds });
  /** What somebody knows who has heard every report and never looked at the copy. */
  const heard = new Map<WatchKind, Map<string, number>>(kinds.map((kind) => [kind, new Map<string, number>()]));
  const counts = { added: 0, updated: 0, deleted: 0, missing: 0 };
  informer.onChange((changes) => {
    for (const change of changes) {
      const known = heard.get(change.kind);
      const before = known?.get(change.id);
      counts[change.type] += 1;
      if (change.type === 'added') expect(before).toBeUndefined();
      else expect(before).toBe(change.old.revision);
      if (change.type === 'updated') expect(change.new.revision).toBeGreaterThan(change.old.revision);
      if (change.type === 'deleted') {
        if (change.revision === undefined) counts.missing += 1;
        else expect(change.revision).toBeGreaterThan(change.old.revision);
        known?.delete(change.id);
      } else known?.set(change.id, change.new.revision);
    }
  });
  const abort = new AbortController();
  const run = informer.run({ signal: abort.signal });
  for (let step = 0; !(network.over && network.drained && informer.state.phase === 'live'); step += 1) {
    if (step > 20_000) throw new Error(`no end: ${JSON.stringify(informer.state)}`);
    await turn();
    if (network.hung || informer.state.phase === 'waiting') await clock.advance(clock.next ?? 0);
  }
  expect(informer.synced).toBe(true);
  for (const kind of kinds) {
    const copy = new Map([...informer.view(kind)].map(({ id, revision }) => [id as string, revision]));
    expect(copy).toEqual(model.truth(kind));
    expect(heard.get(kind)).toEqual(model.truth(kind));
  }
  abort.abort();
  await run;
  expect(clock.timers).toBe(0);
  return { ...counts, streams: seen.length };
}

it('whatever is written and wherever the stream is cut, the copy ends equal to the truth, and every report was in order', async () => {
  const total = { added: 0, updated: 0, deleted: 0, missing: 0, streams: 0 };
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat(1 << 16), { minLength: 20, maxLength: 300, size: 'max' }),
      fc.constantFrom<readonly WatchKind[]>(['device'], ['device', 'security-groups'], ['security-groups', 'device']),
      fc.constantFrom<Listing>('bounded', 'unbounded'),
      async (moves, kinds, listing) => {
        const counts = await play(moves, kinds, listing);
        for (const name of Object.keys(total) as (keyof typeof total)[]) total[name] += counts[name];
      },
    ),
    { numRuns: rounds(60, 250), seed: 4 },
  );
  // A run that saw too little proves nothing.
  expect(total.streams).toBeGreaterThan(rounds(240, 1_000));
  expect(total.added).toBeGreaterThan(rounds(240, 1_000));
  expect(total.updated).toBeGreaterThan(rounds(40, 200));
  expect(total.deleted).toBeGreaterThan(rounds(40, 200));
  expect(total.missing).toBeGreaterThan(rounds(4, 20));
});
