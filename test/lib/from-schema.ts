/** Owns the making of random values from the server's own description: valid by its schema, or broken in one place. */
import * as fc from 'fast-check';
import type { Json } from './http.ts';

export type Schema = Readonly<Record<string, Json>>;

/** What random texts would hardly ever hit. */
const words: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  public_key: fc.integer({ min: 1, max: 30 }).map((n) => `key ${n}`),
  username: fc.integer({ min: 1, max: 40 }).map((n) => `user ${n}`),
  ip_protocol: fc.constantFrom('tcp', 'UDP', 'icmp', 'icmpv4', 'icmpv6', 'ipv4', 'ipv6', 'ip', 'gre'),
  from_port: fc.constantFrom(0, 0, 22, 80, 65_535),
  to_port: fc.constantFrom(0, 0, 22, 443, 65_535),
  local_ip: fc.constantFrom('', '10.0.0.1:51820', '[fd00::1]:1', '10.0.0.9'),
  tunnel_ip: fc.constantFrom('', '100.64.0.1', 'fd00::1'),
  reflexive_ip4: fc.constantFrom('', '1.2.3.4', '9.9.9.9'),
  endpoint_local_address_ip4: fc.constantFrom('', '10.0.0.1'),
  addresses: fc.constantFrom([], ['10.9.0.1'], ['fd00::9', '10.9.0.2'], ['10.9.0.0/24']),
  labels: fc.constantFrom([], ['db'], ['app', 'prod'], ['Db'], ['db', 'db']),
  applies_to: fc.constantFrom([], [], [], [{ all_devices: true }], [{ labels: ['db'] }], [{ labels: ['Db'] }]),
  peers: fc.constantFrom(
    [{ all_devices: true }],
    [{ labels: ['db', 'prod'] }],
    [{ labels: ['db'] }, { all_devices: true }],
    [],
  ),
  child_prefix: fc.constantFrom(null, [], ['10.0.0.0/8'], ['fd00::/64', '10.1.0.0/16']),
  url: fc.constantFrom('http://127.0.0.1:9/', 'http://127.0.0.1:9/hook', 'https://elsewhere.example/'),
  expires_at: fc.constantFrom('2099-01-01T00:00:00Z', '2001-01-01T00:00:00Z', '2099-02-30T00:00:00Z'),
};
const ranges = fc.constantFrom(
  '10.0.0.0/8',
  '10.0.0.1',
  '10.0.0.1-10.0.0.9',
  'fd00::/8',
  'fd00::1',
  '1.2.3',
  '10.0.0.9-10.0.0.1',
  '',
);

const rule = (ip_protocol: string, from_port: number, to_port: number, ...ip_ranges: string[]): unknown => ({
  ip_protocol,
  from_port,
  to_port,
  ...(ip_ranges.length === 0 ? {} : { ip_ranges }),
});
const goodRules = fc.array(
  fc.constantFrom(
    rule('tcp', 22, 22),
    rule('IP', 80, 90, '10.0.0.0/8'),
    rule('icmp', 0, 0, 'fd00::/8', '10.0.0.1-10.0.0.9'),
  ),
  { maxLength: 4 },
);

/** Mostly a time that most fields take; else the first and the last one there is, and those just beyond. */
const time = fc.oneof(
  { weight: 4, arbitrary: fc.constant('2099-01-01T00:00:00Z') },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '0001-01-01T00:00:00Z',
      '9999-12-31T23:59:59.999Z',
      '0000-12-31T23:59:59Z',
      '9999-12-31T23:59:59-12:00',
    ),
  },
);

export class Values {
  readonly #schemas: Readonly<Record<string, Schema>>;
  readonly #ids: () => readonly string[];
  readonly #home: () => string;
  readonly #users: () => readonly string[];

  /** `ids` are the ids that exist by now, `home` is the organization that is asked about most. */
  constructor(
    schemas: Readonly<Record<string, Schema>>,
    ids: () => readonly string[],
    home: () => string,
    users: () => readonly string[],
  ) {
    this.#home = home;
    this.#users = users;
    this.#schemas = schemas;
    this.#ids = ids;
  }

  resolve(schema: Schema): Schema {
    const name = typeof schema['$ref'] === 'string' ? schema['$ref'].split('/').at(-1) : undefined;
    return name === undefined ? schema : (this.#schemas[name] ?? {});
  }

  /** An id that exists, most of the time. */
  id(): fc.Arbitrary<string> {
    return fc.nat().chain((n) => {
      const ids = this.#ids();
      const known = ids[n % Math.max(1, ids.length)];
      return known === undefined
        ? fc.uuid()
        : fc.oneof({ weight: 6, arbitrary: fc.constant(known) }, { weight: 1, arbitrary: fc.uuid() });
    });
  }

  valid(given: Schema, name = ''): fc.Arbitrary<unknown> {
    const schema = this.resolve(given);
    const word = words[name];
    if (word !== undefined) return word;
    if (/^(in|out)bound_rules$/.test(name)) return fc.oneof(goodRules, this.#plain(schema, name));
    if (name === 'security_groups') return fc.oneof(fc.constant([]), this.#plain(schema, name));
    if (name === 'org_id' || name === 'organization_id') return fc.constant(this.#home());
    if (name === 'user_id') return fc.nat().map((n) => this.#users()[n % this.#users().length]);
    return this.#plain(schema, name);
  }

  #plain(schema: Schema, name: string): fc.Arbitrary<unknown> {
    if (Array.isArray(schema['anyOf'])) return fc.oneof(...(schema['anyOf'] as Schema[]).map((one) => this.valid(one)));
    if (Array.isArray(schema['enum'])) return fc.constantFrom(...(schema['enum'] as unknown[]));
    if ('const' in schema) return fc.constant(schema['const']);
    switch (schema['type']) {
      case 'object':
        return this.#object(schema);
      case 'array':
        return fc.array(name === 'ip_ranges' ? ranges : this.valid(schema['items'] ?? {}), {
          minLength: schema['minItems'] ?? 0,
          maxLength: Math.min(schema['maxItems'] ?? 4, 4),
        });
      case 'string':
        return this.#string(schema);
      case 'integer':
        return this.#integer(schema['minimum'] ?? 0, schema['maximum'] ?? Number.POSITIVE_INFINITY);
      case 'boolean':
        return fc.boolean();
      default:
        return fc.constant(null);
    }
  }

  /** Small ones, as far as there are small ones. */
  #integer(min: number, max: number): fc.Arbitrary<number> {
    return fc.integer({ min, max: Math.min(max, Math.max(100, min + 100)) });
  }

  #string(schema: Schema): fc.Arbitrary<string> {
    if (schema['format'] === 'uuid') return this.id();
    if (schema['format'] === 'date-time') return time;
    return fc.string({ minLength: schema['minLength'] ?? 0, maxLength: 20 });
  }

  #object(schema: Schema): fc.Arbitrary<unknown> {
    const properties = Object.entries((schema['properties'] ?? {}) as Record<string, Schema>);
    const required = new Set((schema['required'] ?? []) as string[]);
    const record = Object.fromEntries(properties.map(([name, inner]) => [name, this.valid(inner, name)]));
    const whole = fc.record(record, { requiredKeys: [...required], noNullPrototype: true });
    // A group is no guardrail, nearly always, and what it is never changes.
    if ('guardrail' in record) {
      return fc.tuple(whole, fc.nat(5)).map(([value, n]) => {
        const { guardrail, ...rest } = value as Record<string, unknown>;
        return n === 0 && guardrail !== undefined ? value : rest;
      });
    }
    // A device's user is its caller, nearly always.
    if (!('public_key' in record)) return whole;
    return fc.tuple(whole, fc.nat(4)).map(([value, n]) => {
      const { user_id, ...rest } = value as Record<string, unknown>;
      return n === 0 && user_id !== undefined ? value : rest;
    });
  }

  /** A valid value with one thing in it replaced, dropped or added; or something else altogether. */
  broken(schema: Schema): fc.Arbitrary<unknown> {
    const odd = fc.oneof(
      fc.constantFrom(
        null,
        '',
        0,
        -1,
        Number.MAX_VALUE,
        1.5,
        true,
        [],
        {},
        'x'.repeat(5000),
        '\u0000',
        '\ud800',
        2 ** 53,
        '__proto__',
      ),
      fc.jsonValue(),
    );
    const spoiled = fc
      .tuple(this.valid(schema), fc.nat(), odd, fc.constantFrom('replace', 'drop', 'add'))
      .map(([value, n, thing, how]) => {
        if (typeof value !== 'object' || value === null) return thing;
        const copy = structuredClone(value) as Record<string, unknown>;
        const keys = Object.keys(copy);
        const key = keys[n % Math.max(1, keys.length)];
        if (how === 'add' || key === undefined) copy[`extra${n % 3}`] = thing;
        else if (how === 'drop') delete copy[key];
        else copy[key] = thing;
        return copy;
      });
    return fc.oneof({ weight: 4, arbitrary: spoiled }, { weight: 1, arbitrary: odd });
  }
}
