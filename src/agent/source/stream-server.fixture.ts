/**
 * Owns an in-memory server that streams the devices and groups of one organization as the real one does: a listing,
 * then every change.
 */
import type { SecurityGroup } from '../../api/group.ts';
import type { WatchKind } from '../../api/kinds.ts';
import type { WatchItem } from '../../api/watch.ts';
import type { Device } from '../../api/device.ts';
import type { ClientOptions } from '../../client/http.ts';
import { fakeNetwork, FakeStream, json, problem, turn } from '../../client/fake.fixture.ts';
import { device, deviceId, group, groupId } from '../../client/records.fixture.ts';

interface Held {
  readonly kind: WatchKind;
  readonly value: Device | SecurityGroup;
}

/** Fields of records that are not on the wire of every server yet. */
export type Fields = Readonly<Record<string, unknown>>;

export class StreamServer {
  readonly network: ReturnType<typeof fakeNetwork>;
  /** What each stream asked for, in order. */
  readonly asked: (readonly WatchItem[])[] = [];
  /** Groups that were read one by one. */
  readonly reads: string[] = [];
  /** Whether it is of an earlier version, which knows no view. */
  old = false;
  /** While true, it answers no request. */
  away = false;
  #stream: FakeStream | undefined;
  #revision = 0;
  readonly #held = new Map<string, Held>();

  constructor(options: Partial<ClientOptions> = {}) {
    this.network = fakeNetwork((request) => {
      if (this.away) return problem(503, {});
      if (request.method === 'GET') return this.#read(request.url.split('/').at(-1) ?? '');
      const items = request.body as readonly WatchItem[];
      const at = items.findIndex((item) => 'view' in item);
      if (this.old && at >= 0) {
        const errors = [{ pointer: `/${at}/view`, code: 'unknown_field', detail: 'Unknown field "view".' }];
        return problem(422, { code: 'invalid', errors });
      }
      this.asked.push(items);
      this.#stream = new FakeStream(request.signal);
      this.#list(this.#stream, items);
      return this.#stream.response;
    }, options);
  }

  get revision(): number {
    return this.#revision;
  }

  /** Creates or changes a device. Resolves when the follower has applied it. */
  device(number: number, fields: Fields = {}): Promise<void> {
    const before = this.#held.get(deviceId(number))?.value as Partial<Device> | undefined;
    return this.#put('device', { ...device(number, 0, before), ...fields });
  }
  group(number: number, fields: Fields = {}): Promise<void> {
    const before = this.#held.get(groupId(number))?.value as Partial<SecurityGroup> | undefined;
    return this.#put('security-groups', { ...group(number, 0, before), ...fields });
  }
  async remove(id: string): Promise<void> {
    const held = this.#held.get(id);
    if (held === undefined) throw new Error(`there is no ${id}`);
    this.#held.delete(id);
    const value = { ...held.value, revision: ++this.#revision };
    this.#tell({ type: 'delete', kind: held.kind, value });
    await turn(5);
  }
  /** Lets the follower take in what was said. */
  settle(): Promise<void> {
    return turn(20);
  }
  /** Cuts the stream. The follower reconnects. */
  cut(): void {
    this.#stream?.cut();
  }

  async #put(kind: WatchKind, record: Device | SecurityGroup): Promise<void> {
    const value = { ...record, revision: ++this.#revision };
    this.#held.set(value.id, { kind, value });
    this.#tell({ type: 'change', kind, value });
    await turn(5);
  }

  #tell(document: object): void {
    if (this.#stream?.closed === false) this.#stream.send(document);
  }

  #read(id: string): Response {
    this.reads.push(id);
    const held = this.#held.get(id);
    return held === undefined ? problem(404, { code: 'not_found' }) : json(held.value);
  }

  #list(stream: FakeStream, items: readonly WatchItem[]): void {
    for (const { kind, gt_revision = 0 } of items) {
      const values = [...this.#held.values()].filter((held) => held.kind === kind && held.value.revision > gt_revision);
      const sorted = values.toSorted((a, b) => a.value.revision - b.value.revision);
      stream.send(...sorted.map(({ value }) => ({ type: 'change', kind, value })), { type: 'tail', kind });
    }
  }
}
