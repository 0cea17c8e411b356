/** Owns the random commands of many people at one organization: mostly sensible, often refused, sometimes broken. */
import { randomUUID } from 'node:crypto';
import type { Answered, Json } from '../lib/http.ts';
import type { Random } from '../lib/random.ts';

/** Who asks: by name; the run knows the credentials. */
export type Caller = string;

export interface Command {
  readonly as: Caller;
  readonly method: string;
  /** With ids of the old server, as everything here. */
  readonly path: string;
  readonly body?: Json;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What both servers said. */
export interface Answers {
  readonly old: Answered;
  readonly new: Answered;
}

export interface Difference {
  /** Where in the answer. */
  readonly path: string;
  readonly old: unknown;
  readonly new: unknown;
}

const labels = ['app', 'db', 'web', 'canary', 'prod', 'edge'] as const;
const ports = [0, 22, 80, 443, 5_432, 8_080, 65_535] as const;
const addresses = ['10.0.0.1', '10.0.0.2', '10.0.0.3', 'fd00::1', 'fd00::2', '192.0.2.9'] as const;
const ranges = [
  ...addresses,
  '10.0.0.0/8',
  '10.0.0.5-10.0.0.9',
  'fd00::/64',
  '0.0.0.0/0',
  '10.0.0.300',
  '9-1',
] as const;
const nonsense = [null, '', 0, -1, true, [], {}, 'x'.repeat(300), 'label:db', 1e9, ['a', 'a']] as const;

/** What the commands so far have made, as far as it may be there still. */
interface Known {
  readonly devices: string[];
  readonly groups: string[];
  readonly trials: string[];
  readonly changes: string[];
  readonly keys: string[];
  readonly tokens: string[];
  revision: number;
}

export interface People {
  /** Who stays an owner. */
  readonly owner: Caller;
  readonly org: string;
  readonly defaultGroup: string;
  /** User ids of the other members, and of one who never was. */
  readonly users: readonly string[];
  readonly usernames: readonly string[];
  /** Callers, the likelier the more often they are named. */
  readonly callers: readonly Caller[];
}

export class Commands {
  readonly #random: Random;
  readonly #people: People;
  readonly #known: Known;
  #count = 0;
  /** Everything that was made, also what is gone: it has a history. */
  readonly ever = { devices: [] as string[], groups: [] as string[] };

  constructor(random: Random, people: People) {
    this.#random = random;
    this.#people = people;
    const groups = [people.defaultGroup];
    this.#known = { devices: [], groups, trials: [], changes: [], keys: [], tokens: [], revision: 1 };
  }

  /** Learns from an answer of the old server what later commands can be about. */
  learn({ method, path }: Command, { status, json }: Answered): void {
    if (status >= 300 || typeof json !== 'object' || json === null) return;
    const { devices, groups, trials, changes, keys, tokens } = this.#known;
    const is = (pattern: RegExp): boolean => pattern.test(path);
    const ids = (records: Json): string[] => records.map(({ id }: Json) => id);
    // A whole list says what is there; a page or a past list does not.
    if (method === 'GET' && Array.isArray(json)) {
      if (is(/\/organizations\/[^/]+\/devices$/)) devices.splice(0, devices.length, ...ids(json));
      if (is(/\/organizations\/[^/]+\/security_groups$/)) groups.splice(0, groups.length, ...ids(json));
      if (is(/\/trials$/)) trials.splice(0, trials.length, ...ids(json).slice(0, 6));
      return;
    }
    if (typeof json.revision === 'number') this.#known.revision = json.revision;
    const remember = (known: string[], one: unknown): void => {
      if (typeof one === 'string' && !known.includes(one)) known.push(one);
    };
    if (status === 201) {
      if (is(/\/devices$|\/devices\?/)) remember(this.ever.devices, json.id);
      if (is(/\/security_groups$|\/security_groups\?/)) remember(this.ever.groups, json.id);
      if (is(/\/devices$|\/devices\?/)) remember(devices, json.id);
      if (is(/\/security_groups$|\/security_groups\?/)) remember(groups, json.id);
      if (is(/\/enrollment_keys$/)) remember(keys, json.id);
      if (is(/\/tokens$/)) remember(tokens, json.id);
    }
    for (const group of Array.isArray(json.security_groups) && json.change_id !== undefined ? json.security_groups : [])
      remember(groups, group.id);
    remember(trials, json.trial?.id);
    remember(changes, json.change_id);
  }

  next(): Command {
    this.#count += 1;
    // Now and then an owner looks at what is there.
    if (this.#count % 12 < 3) {
      const list = ['devices', 'security_groups', 'trials'][this.#count % 12] ?? '';
      return { as: this.#people.owner, method: 'GET', path: `${this.#base}/${list}` };
    }
    // A fleet to begin with.
    if (this.#count < 40 && this.#count % 4 === 3) {
      const [path, body] = this.#random.chance(0.6)
        ? ['devices', this.#device({ public_key: `key-${this.#count}` })]
        : ['security_groups', this.#group(true)];
      return { as: this.#people.owner, method: 'POST', path: `${this.#base}/${path}`, body };
    }
    const [, make] = this.#weighted();
    const command = make();
    const headers: Record<string, string> = {};
    if (this.#random.chance(0.04)) headers['if-match'] = `"${this.#random.int(1, this.#known.revision + 1)}"`;
    return { as: this.#random.pick(this.#people.callers), headers, ...command };
  }

  #weighted(): readonly [number, () => Omit<Command, 'as'>] {
    const all = this.#all;
    let at = this.#random.int(
      1,
      all.reduce((sum, [weight]) => sum + weight, 0),
    );
    for (const one of all) {
      at -= one[0];
      if (at <= 0) return one;
    }
    return all[0] as readonly [number, () => Omit<Command, 'as'>];
  }

  get #base(): string {
    return `/api/organizations/${this.#people.org}`;
  }

  readonly #all: readonly (readonly [number, () => Omit<Command, 'as'>])[] = [
    [8, () => this.#write('POST', `${this.#base}/devices`, this.#device({ public_key: `key-${this.#count}` }))],
    [14, () => this.#write('PATCH', this.#devicePath(), this.#device({}))],
    [3, () => this.#write('DELETE', this.#devicePath())],
    [2, () => this.#write('POST', `${this.#devicePath()}/move`, { user_id: this.#user() })],
    [3, () => this.#write('POST', `${this.#devicePath()}/isolate`, this.#isolation())],
    [3, () => this.#write('DELETE', `${this.#devicePath()}/isolate`)],
    [9, () => this.#write('POST', `${this.#base}/security_groups`, this.#group(true))],
    [5, () => this.#write('POST', this.#userPath(), this.#group(true))],
    [12, () => this.#write('PATCH', this.#groupPath(), this.#group(false))],
    [3, () => this.#write('PATCH', `${this.#userPath()}/${this.#groupId()}`, this.#group(false))],
    [3, () => this.#write('DELETE', this.#groupPath())],
    [1, () => this.#write('DELETE', `${this.#userPath()}/${this.#groupId()}`)],
    [3, () => this.#write('POST', `${this.#groupPath()}/restore`, { revision: this.#revision() })],
    [10, () => this.#write('POST', `${this.#base}/changes`, this.#changes())],
    [3, () => this.#write('POST', `${this.#base}/changes/${this.#pick(this.#known.changes)}/revert`)],
    [8, () => this.#plain('POST', `${this.#base}/simulate`, this.#changes())],
    [3, () => this.#write('POST', `${this.#trialPath()}/confirm`)],
    [3, () => this.#plain('POST', `${this.#trialPath()}/revert`)],
    [
      2,
      () => this.#write('PATCH', this.#trialPath(), { scope: this.#random.pick([null, 'all-devices', this.#scope()]) }),
    ],
    [3, () => this.#write('PUT', `${this.#base}/policy_tests`, this.#tests())],
    [
      2,
      () =>
        this.#plain(
          'POST',
          `${this.#base}/members`,
          this.#random.pick([{ user_id: this.#user() }, { username: this.#username() }]),
        ),
    ],
    [
      2,
      () =>
        this.#plain('PATCH', `${this.#base}/members/${this.#user()}`, {
          role: this.#random.pick(['owner', 'member', 'x']),
        }),
    ],
    [
      1,
      () => this.#write('DELETE', `${this.#base}/members/${this.#user()}`, undefined, ['keep=devices', 'detach=true']),
    ],
    [3, () => this.#plain('POST', `${this.#base}/enrollment_keys`, this.#key())],
    [1, () => this.#plain('DELETE', `${this.#base}/enrollment_keys/${this.#pick(this.#known.keys)}`)],
    [1, () => this.#plain('PATCH', this.#base, this.#settings())],
    [
      1,
      () => this.#plain('POST', '/api/users/me/tokens', { name: 'x', scope: this.#random.pick(['full', 'read-only']) }),
    ],
    [1, () => this.#plain('DELETE', `/api/tokens/${this.#pick(this.#known.tokens)}`)],
    [2, () => this.#plain('PUT', `${this.#devicePath()}/status`, this.#status())],
    [22, () => this.#read()],
  ];

  #read(): Omit<Command, 'as'> {
    const past = this.#random.chance(0.3) ? `?at_revision=${this.#revision()}` : '';
    const end = (): string => this.#random.pick([this.#pick(this.#known.devices), ...addresses]);
    const path = this.#random.pick([
      () => `${this.#base}/devices${past}`,
      () => `${this.#base}/security_groups${past}`,
      () => `${this.#base}/devices?limit=3&gt_revision=${this.#revision()}`,
      () => this.#devicePath(),
      () => `${this.#devicePath()}/groups`,
      () => `${this.#devicePath()}/history`,
      () => `${this.#devicePath()}/namesakes`,
      () => this.#groupPath(),
      () => `${this.#groupPath()}/history`,
      () => `${this.#userPath()}/${this.#groupId()}`,
      () => this.#userPath(),
      () => `${this.#base}/members`,
      () => `${this.#base}/trials`,
      () => this.#trialPath(),
      () => `${this.#base}/policy_tests`,
      () => `${this.#base}/enrollment_keys`,
      () => `${this.#base}/changes/${this.#pick(this.#known.changes)}`,
      () => `${this.#base}/device_statuses`,
      () => `${this.#base}/convergence?revision=${this.#revision()}`,
      () =>
        `${this.#base}/explain?from=${end()}&to=${end()}&protocol=${this.#random.pick(['tcp&port=22', 'tcp&port=5432', 'udp&port=80', 'icmp'])}`,
      () => `${this.#base}/unused_rules`,
      () => `${this.#groupPath()}/usage`,
      () => this.#base,
      () => '/api/users/me',
    ])();
    return { method: 'GET', path };
  }

  #plain(method: string, path: string, body?: Json): Omit<Command, 'as'> {
    return { method, path, ...(body === undefined ? {} : { body: this.#perhapsBroken(body) }) };
  }

  /** With what writes can be asked to do besides. */
  #write(method: string, path: string, body?: Json, more: readonly string[] = []): Omit<Command, 'as'> {
    const query = [
      ...(this.#random.chance(0.3) ? ['detach=true'] : []),
      ...(this.#random.chance(0.2) ? ['skip_tests=true'] : []),
      ...(this.#random.chance(0.05) ? ['force=true'] : []),
      ...more.filter(() => this.#random.chance(0.5)),
    ];
    if (this.#random.chance(0.2)) {
      query.push('confirm_within=3600');
      if (this.#random.chance(0.5)) query.push(`scope=${encodeURIComponent(this.#scope())}`);
    }
    // Only what the operation takes, mostly: the others answer that they do not know it.
    const takes = this.#random.chance(0.03)
      ? query
      : query.filter((one) => isTaken(method, path, one.split('=')[0] ?? ''));
    return this.#plain(method, takes.length === 0 ? path : `${path}?${takes.join('&')}`, body);
  }

  #perhapsBroken(body: Json): Json {
    if (!this.#random.chance(0.06) || typeof body !== 'object') return body;
    const keys = Object.keys(body);
    const key = this.#random.chance(0.2) || keys.length === 0 ? 'unknown_field' : this.#random.pick(keys);
    const broken: Json = Array.isArray(body) ? [...body] : { ...body };
    broken[key] = this.#random.pick(nonsense);
    return broken;
  }

  #pick(ids: readonly string[]): string {
    // Now and then one of another kind, or one that never was.
    if (ids.length === 0 || this.#random.chance(0.02)) return '00000000-0000-4000-8000-000000000000';
    return this.#random.pick(ids);
  }

  #groupId = (): string => this.#pick(this.#known.groups);
  #devicePath = (): string => `${this.#base}/devices/${this.#pick(this.#known.devices)}`;
  #groupPath = (): string => `${this.#base}/security_groups/${this.#groupId()}`;
  #userPath = (): string => `/api/user/${this.#people.org}/security_groups`;
  #trialPath = (): string => `${this.#base}/trials/${this.#pick(this.#known.trials)}`;
  #user = (): string => this.#random.pick(this.#people.users);
  #username = (): string => this.#random.pick(this.#people.usernames);
  #revision = (): number => this.#random.int(0, this.#known.revision + 1);
  #scope = (): string =>
    this.#random.many(this.#random.int(1, 2), () => `label:${this.#labels().join('+') || 'app'}`).join(',');

  #labels(): string[] {
    return [...new Set(this.#random.many(this.#random.int(0, 2), () => this.#random.pick(labels)))].toSorted();
  }

  #some<T>(most: number, draw: () => T): T[] {
    return this.#random.many(this.#random.int(0, most), draw);
  }

  #list(): string[] {
    return [...new Set(this.#some(2, this.#groupId))];
  }

  #device(fixed: Json): Json {
    const { chance, pick } = {
      chance: (p: number) => this.#random.chance(p),
      pick: <T>(of: readonly T[]) => this.#random.pick(of),
    };
    const isNew = 'public_key' in fixed;
    return {
      ...fixed,
      ...(isNew && chance(0.05) ? { public_key: 'taken' } : {}),
      ...(isNew || chance(0.2) ? { hostname: `host-${this.#random.int(1, 9)}` } : {}),
      ...(chance(0.35) ? { labels: this.#labels() } : {}),
      ...(chance(0.35) ? { security_groups: this.#list() } : {}),
      ...(chance(0.3) ? { tunnel_ip: pick(addresses) } : {}),
      ...(chance(0.15) ? { addresses: [...new Set(this.#some(2, () => pick(addresses)))] } : {}),
      ...(chance(0.1) ? { relay: chance(0.5) } : {}),
      ...(chance(0.05) ? { user_id: this.#user() } : {}),
      ...(chance(0.05) ? { child_prefix: pick([null, ['10.1.0.0/16'], ['x']]) } : {}),
    };
  }

  #peer(): Json {
    return this.#random.pick([
      () => ({ labels: this.#random.chance(0.9) ? [this.#random.pick(labels)] : this.#labels() }),
      () => ({ device_id: this.#pick(this.#known.devices) }),
      () => ({ all_devices: true }),
    ])();
  }

  #rule(): Json {
    const protocol = this.#random.pick(['tcp', 'tcp', 'tcp', 'udp', 'icmp', 'ipv4', 'ip', 'icmpv6', 'ICMPv4']);
    const isPing = /icmp/i.test(protocol);
    const from = isPing ? 0 : this.#random.pick(ports);
    return {
      ip_protocol: protocol,
      from_port: from,
      to_port: this.#random.chance(0.9) ? from : this.#random.pick(ports),
      ...(this.#random.chance(0.3) ? { ip_ranges: this.#some(2, () => this.#random.pick(ranges)) } : {}),
      ...(this.#random.chance(0.4) ? { peers: [this.#peer()] } : {}),
      ...(this.#random.chance(0.1) ? { description: 'why' } : {}),
      ...(this.#random.chance(0.05)
        ? { expires_at: this.#random.pick(['2999-01-01T00:00:00Z', '2001-01-01T00:00:00Z']) }
        : {}),
    };
  }

  #group(isNew: boolean): Json {
    const selector = (): Json =>
      this.#random.chance(0.85) ? { labels: [this.#random.pick(labels)] } : { all_devices: true };
    return {
      ...(isNew || this.#random.chance(0.2) ? { group_name: `group-${this.#random.int(1, 20)}` } : {}),
      ...(this.#random.chance(0.2) ? { group_description: 'text' } : {}),
      ...(this.#random.chance(0.6) ? { inbound_rules: this.#some(3, () => this.#rule()) } : {}),
      ...(this.#random.chance(0.25) ? { outbound_rules: this.#some(2, () => this.#rule()) } : {}),
      ...(this.#random.chance(0.3) ? { applies_to: this.#some(2, selector) } : {}),
      ...(isNew && this.#random.chance(0.15) ? { guardrail: this.#random.pick(['forbid', 'require']) } : {}),
      ...(this.#random.chance(0.1) ? { mode: this.#random.pick(['observe', 'enforce']) } : {}),
    };
  }

  #isolation(): Json {
    return {
      reason: 'Suspicious logins',
      ...(this.#random.chance(0.3) ? { until: '2999-01-01T00:00:00Z' } : {}),
      ...(this.#random.chance(0.4) ? { allow: [this.#peer()] } : {}),
    };
  }

  #changes(): Json {
    const { chance } = { chance: (p: number) => this.#random.chance(p) };
    const group = (): Json => {
      if (chance(0.6))
        return { id: this.#groupId(), ...this.#group(false), ...(chance(0.05) ? { revision: this.#revision() } : {}) };
      return {
        ...(chance(0.3) ? { id: randomUUID() } : {}),
        ...this.#group(true),
        ...(chance(0.2) ? { user_id: this.#user() } : {}),
      };
    };
    return {
      ...(chance(0.7) ? { security_groups: this.#some(2, group) } : {}),
      ...(chance(0.6)
        ? { devices: this.#some(2, () => ({ id: this.#pick(this.#known.devices), ...this.#device({}) })) }
        : {}),
      ...(chance(0.2)
        ? { delete: this.#some(2, () => this.#random.pick([this.#groupId(), this.#pick(this.#known.devices)])) }
        : {}),
      ...(chance(0.1) ? { policy_tests: this.#tests() } : {}),
    };
  }

  #tests(): Json {
    const end = (): Json =>
      this.#random.pick([
        () => ({ labels: [this.#random.pick(labels)] }),
        () => ({ all_devices: true }),
        () => ({ device_id: this.#pick(this.#known.devices) }),
        () => ({ address: this.#random.pick(addresses) }),
      ])();
    return Array.from({ length: this.#random.int(0, 3) }, (_, index) => {
      const protocol = this.#random.pick(['tcp', 'tcp', 'udp', 'icmp']);
      return {
        name: `test-${index}`,
        from: end(),
        to: end(),
        protocol,
        ...(protocol === 'icmp' ? {} : { port: this.#random.pick([22, 80, 443, 5_432]) }),
        expect: this.#random.pick(['allow', 'refuse']),
      };
    });
  }

  #key(): Json {
    return {
      name: 'key',
      ...(this.#random.chance(0.5) ? { uses: this.#random.int(0, 5) } : {}),
      ...(this.#random.chance(0.4) ? { security_groups: this.#list() } : {}),
      ...(this.#random.chance(0.4) ? { labels: this.#labels() } : {}),
    };
  }

  #settings(): Json {
    return {
      ...(this.#random.chance(0.5) ? { description: `text ${this.#count}` } : {}),
      ...(this.#random.chance(0.5) ? { observe: this.#random.pick(['off', 'counters', 'refused', 'all']) } : {}),
    };
  }

  #status(): Json {
    return {
      state: this.#random.pick(['starting', 'applied', 'failed', 'reverted']),
      revision: this.#revision(),
      policy_digest: this.#random.pick(['a', 'b']).repeat(64),
    };
  }
}

/** The parameters that a write takes. */
function isTaken(method: string, path: string, name: string): boolean {
  const isGroup = /security_groups/.test(path);
  if (/\/(isolate|status)$/.test(path)) return false;
  if (path.endsWith('/policy_tests')) return name === 'skip_tests';
  if (/\/changes\/[^/]+\/revert$/.test(path)) return name === 'skip_tests' || name === 'detach' || name === 'force';
  if (/\/members\//.test(path)) return name !== 'force' && name !== 'confirm_within' && name !== 'scope';
  if (/\/trials\//.test(path) || path.endsWith('/move')) return name === 'skip_tests' || name === 'detach';
  if (method === 'DELETE') return name === 'skip_tests' || (isGroup && name === 'detach');
  if (method === 'POST' && path.endsWith('/devices')) return name === 'skip_tests';
  if (method === 'POST' && path.endsWith('/security_groups')) return name !== 'detach';
  if (/\/devices\//.test(path)) return name !== 'force';
  return true;
}
