/** Owns the writers of a fault run: random operations through the API of whichever server answers, and what was acknowledged. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../lib/random.ts';
import { Api, type Answered } from '../lib/http.ts';

export interface Person {
  readonly id: string;
  readonly token: string;
}

/** What exists as far as the writers know. Wrong now and then, after an answer was lost; the server says so. */
interface World {
  readonly devices: Map<string, Person>;
  readonly groups: Map<string, Person | 'organization'>;
}

export interface WritersOptions {
  readonly servers: () => readonly string[];
  readonly org: string;
  readonly owner: Person;
  readonly members: readonly Person[];
  /** Joins, makes things and is removed, over and over: many revisions in one transaction. */
  readonly guest: Person;
  readonly random: Random;
}

export class Writers {
  /** Revision → id, of every acknowledged write. */
  readonly acknowledged = new Map<number, string>();
  committed = 1;
  failed = 0;
  readonly #o: WritersOptions;
  readonly #world: World = { devices: new Map(), groups: new Map() };
  readonly #apis = new Map<string, Api>();
  readonly #stop = new AbortController();
  #running: Promise<unknown> = Promise.resolve();
  #made = 0;
  #quota = 0;

  constructor(options: WritersOptions) {
    this.#o = options;
  }

  /** So many at once, in bursts of so many writes every half second: what comes together is sent together. */
  start(count: number, burst: number): void {
    const filling = (async () => {
      for (; !this.#stop.signal.aborted; await sleep(500)) this.#quota = burst;
    })();
    this.#running = Promise.all([filling, ...Array.from({ length: count }, () => this.#work())]);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    for (const api of this.#apis.values()) api.close();
  }

  async #work(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      if (this.#quota > 0) {
        this.#quota -= 1;
        await this.#act().catch(() => {
          this.failed += 1;
        });
      } else await sleep(this.#o.random.int(5, 30));
    }
  }

  #api(person: Person): Api {
    const server = this.#o.random.pick(this.#o.servers());
    let api = this.#apis.get(server);
    if (api === undefined) this.#apis.set(server, (api = new Api(server)));
    return api.as(person.token);
  }

  async #ask(person: Person, method: string, path: string, body?: unknown): Promise<Answered> {
    const late = sleep(15_000, undefined, { ref: false }).then(() => {
      throw new Error('no answer');
    });
    const answer = await Promise.race([this.#api(person).ask(method, path, { body }), late]);
    const revision: unknown = answer.json?.revision;
    if (answer.status < 300 && typeof revision === 'number' && typeof answer.json.id === 'string') {
      // A write that changed nothing answers with the current revision.
      if (method !== 'GET' && !this.acknowledged.has(revision)) this.acknowledged.set(revision, answer.json.id);
      this.committed = Math.max(this.committed, revision);
    }
    if (answer.status >= 500) throw new Error(answer.text);
    return answer;
  }

  #act(): Promise<unknown> {
    const { random } = this.#o;
    const chance = random.int(0, 99);
    if (chance < 30) return this.#createDevice();
    if (chance < 62) return this.#updateDevice();
    if (chance < 74) return this.#deleteDevice();
    if (chance < 80) return this.#createGroup();
    if (chance < 86) return this.#updateGroup();
    if (chance < 94) return this.#applyGroups();
    if (chance < 97) return this.#deleteGroup();
    if (chance < 98) return this.#resetDefault();
    if (chance < 99) return this.#renameOrganization();
    return this.#guestComesAndGoes();
  }

  get #base(): string {
    return `/api/organizations/${this.#o.org}`;
  }

  async #createDevice(person = this.#o.random.pick(this.#o.members)): Promise<void> {
    this.#made += 1;
    const body = { public_key: `key-${this.#made}`, hostname: `host-${this.#made}-ä` };
    const { status, json } = await this.#ask(person, 'POST', `${this.#base}/devices`, body);
    if (status === 201) this.#world.devices.set(json.id, person);
  }

  #device(): readonly [string, Person] {
    const all = [...this.#world.devices];
    return all.length === 0 ? ['00000000-0000-4000-8000-000000000000', this.#o.owner] : this.#o.random.pick(all);
  }

  async #updateDevice(): Promise<void> {
    const [id, person] = this.#device();
    const body = { hostname: `host-${this.#o.random.int(1, 1_000_000)}` };
    const { status } = await this.#ask(person, 'PATCH', `${this.#base}/devices/${id}`, body);
    if (status === 404) this.#world.devices.delete(id);
  }

  async #deleteDevice(): Promise<void> {
    const [id, person] = this.#device();
    await this.#ask(person, 'DELETE', `${this.#base}/devices/${id}`);
    this.#world.devices.delete(id);
  }

  async #createGroup(person?: Person): Promise<void> {
    const { random, members, owner, org } = this.#o;
    const mine = person ?? (random.chance(0.7) ? random.pick(members) : undefined);
    const path = mine === undefined ? `${this.#base}/security_groups` : `/api/user/${org}/security_groups`;
    const rule = { ip_protocol: 'tcp', from_port: 22, to_port: 22, ip_ranges: ['10.0.0.0/8'] };
    const body = { group_name: `group-${random.int(1, 1_000)}`, inbound_rules: [rule] };
    const { status, json } = await this.#ask(mine ?? owner, 'POST', path, body);
    if (status === 201) this.#world.groups.set(json.id, mine ?? 'organization');
  }

  #group(): readonly [string, Person, string] {
    const { random, owner, org } = this.#o;
    const all = [...this.#world.groups];
    if (all.length === 0) return ['00000000-0000-4000-8000-000000000000', owner, `${this.#base}/security_groups`];
    const [id, of] = random.pick(all);
    return of === 'organization'
      ? [id, owner, `${this.#base}/security_groups`]
      : [id, of, `/api/user/${org}/security_groups`];
  }

  async #updateGroup(): Promise<void> {
    const [id, person, path] = this.#group();
    const body = { group_description: `text ${this.#o.random.int(1, 1_000_000)}` };
    const { status } = await this.#ask(person, 'PATCH', `${path}/${id}`, body);
    if (status === 404) this.#world.groups.delete(id);
  }

  async #deleteGroup(): Promise<void> {
    const [id, person, path] = this.#group();
    const { status } = await this.#ask(person, 'DELETE', `${path}/${id}?detach=${this.#o.random.chance(0.7)}`);
    if (status < 300 || status === 404) this.#world.groups.delete(id);
  }

  /** Groups enter and leave everyone's view. */
  async #applyGroups(): Promise<void> {
    const { random } = this.#o;
    const [id, person] = this.#device();
    const mine = [...this.#world.groups].filter(([, of]) => of === 'organization' || of === person).map(([one]) => one);
    const security_groups = random.chance(0.5) ? [] : random.shuffled(mine).slice(0, random.int(1, 3));
    await this.#ask(person, 'PATCH', `${this.#base}/devices/${id}`, { security_groups });
  }

  async #resetDefault(): Promise<void> {
    const { owner } = this.#o;
    const { json } = await this.#ask(owner, 'GET', this.#base);
    const [id] = (json?.security_groups ?? []) as readonly string[];
    if (id !== undefined) await this.#ask(owner, 'DELETE', `${this.#base}/security_groups/${id}`);
  }

  async #renameOrganization(): Promise<void> {
    await this.#ask(this.#o.owner, 'PATCH', this.#base, { description: `text ${this.#o.random.int(1, 1_000_000)}` });
  }

  #guestBusy = false;
  async #guestComesAndGoes(): Promise<void> {
    const { owner, guest } = this.#o;
    if (this.#guestBusy) return;
    this.#guestBusy = true;
    try {
      await this.#ask(owner, 'POST', `${this.#base}/members`, { user_id: guest.id });
      for (let i = 0; i < 3; i += 1) await this.#createDevice(guest);
      await this.#createGroup(guest);
      await this.#ask(owner, 'DELETE', `${this.#base}/members/${guest.id}`);
    } finally {
      for (const things of [this.#world.devices, this.#world.groups])
        for (const [id, of] of things) if (of === guest) things.delete(id);
      this.#guestBusy = false;
    }
  }
}
