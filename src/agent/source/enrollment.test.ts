/** Proves that a device is enrolled once, whatever is cut off in between, and that a refusal is explained in a line. */
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { AddDevice, RegisteredDevice } from '../../api/device.ts';
import { FakeClock } from '../../client/fake.fixture.ts';
import { RingfenceError } from '../../client/error.ts';
import { device, organization } from '../../client/records.fixture.ts';
import { parseOrganizationId } from '../../policy/ids.ts';
import { enroll, NotEnrolled, type EnrollmentOptions } from './enrollment.ts';
import { BadIdentity, IdentityFolder } from './identity.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ringfence-enroll-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** A server that registers each public key once. */
class FakeServer {
  readonly asked: AddDevice[] = [];
  readonly #taken = new Set<string>();
  refusal: RingfenceError | undefined;
  /** Answers by request key; a server of an earlier version keeps none. */
  answers: Map<string, RegisteredDevice> | undefined;
  /** The answer of the next registration gets lost on its way. */
  losesAnswer = false;

  async register(body: AddDevice, requestKey: string): Promise<RegisteredDevice> {
    this.asked.push(body);
    if (this.refusal !== undefined) throw this.refusal;
    const first = this.answers?.get(requestKey);
    if (first !== undefined) return first;
    if (this.#taken.has(body.public_key)) throw new RingfenceError({ code: 'conflict', message: 'taken', status: 409 });
    this.#taken.add(body.public_key);
    const answer = { ...device(this.#taken.size, 1), device_token: `rf_device_${this.#taken.size}` };
    this.answers?.set(requestKey, answer);
    if (this.losesAnswer) {
      this.losesAnswer = false;
      throw new RingfenceError({ code: 'unreachable', message: 'reset' });
    }
    return answer;
  }
}

function setUp(server: FakeServer, overrides: Partial<EnrollmentOptions> = {}) {
  const identity = new IdentityFolder(folder);
  const logged: string[] = [];
  const clock = new FakeClock();
  let keys = 0;
  const run = () =>
    enroll(
      {
        organization,
        folder: identity,
        publicKey: undefined,
        makeKey: () => `made-${(keys += 1)}`,
        makeRequestKey: () => `request-${keys}`,
        hostname: 'web-1',
        tunnelAddresses: async () => [],
        register: (body, requestKey) => server.register(body, requestKey),
        clock,
        log: (_, message) => logged.push(message),
        ...overrides,
      },
      new AbortController().signal,
    );
  return { identity, logged, run, clock };
}

describe('an enrollment', () => {
  test('names the addresses that the device has in the tunnel already, as many as a record takes', async () => {
    const server = new FakeServer();
    const more = Array.from({ length: 20 }, (_, index) => `fd7f::${index + 1}`);
    await setUp(server, { tunnelAddresses: async () => ['100.64.0.1', ...more] }).run();
    const addresses = more.slice(0, 16);
    expect(server.asked).toEqual([{ public_key: 'made-1', hostname: 'web-1', tunnel_ip: '100.64.0.1', addresses }]);
  });

  test('names no further address where there is one', async () => {
    const server = new FakeServer();
    await setUp(server, { tunnelAddresses: async () => ['100.64.0.1'] }).run();
    expect(server.asked).toEqual([{ public_key: 'made-1', hostname: 'web-1', tunnel_ip: '100.64.0.1' }]);
  });

  test('registers the device under its host name, and keeps id and token for its own user only', async () => {
    const server = new FakeServer();
    const { identity, run } = setUp(server);
    const who = await run();
    expect(who).toMatchObject({ organization, device: device(1, 1).id, token: 'rf_device_1', publicKey: 'made-1' });
    expect(server.asked).toEqual([{ public_key: 'made-1', hostname: 'web-1' }]);
    expect((await stat(identity.path('identity'))).mode & 0o777).toBe(0o600);
    expect(await readdir(folder)).toEqual(['identity.json']);
  });

  test('is made once: a restart with the same state asks nobody', async () => {
    const server = new FakeServer();
    const first = await setUp(server).run();
    expect(await setUp(server).run()).toEqual(first);
    expect(server.asked).toHaveLength(1);
  });

  test('is made anew for another organization', async () => {
    const server = new FakeServer();
    await setUp(server).run();
    const other = parseOrganizationId('a0000000-0000-4000-8000-000000000002');
    expect(await setUp(server, { organization: other, makeKey: () => 'other' }).run()).toMatchObject({
      organization: other,
      publicKey: 'other',
    });
    expect(server.asked).toHaveLength(2);
  });

  test('uses the tunnel key that was given', async () => {
    const server = new FakeServer();
    expect((await setUp(server, { publicKey: 'tunnel' }).run()).publicKey).toBe('tunnel');
  });

  test.each<[what: string, answer: object]>([
    ['nothing', {}],
    ['no id', { id: undefined }],
    ['another id', { id: '../../etc/passwd' }],
    ['no token', { device_token: undefined }],
    ['a token with a line end', { device_token: 'rf_device_1\r\nx: y' }],
    ['a token with a control character', { device_token: 'rf_device_\u001b[2J' }],
    ['a token that is a list', { device_token: ['rf_device_1'] }],
    ['a token of a megabyte', { device_token: 'x'.repeat(1_000_000) }],
  ])('saves no answer that is no device: %s', async (what, answer) => {
    const server = new FakeServer();
    server.answers = new Map();
    const register: EnrollmentOptions['register'] = async (body, requestKey) => {
      const good = await server.register(body, requestKey);
      return (what === 'nothing' ? answer : { ...good, ...answer }) as RegisteredDevice;
    };
    const bad = setUp(server, { register });
    await expect(bad.run()).rejects.toThrow(NotEnrolled);
    expect(await readdir(folder)).toEqual(['enrolling.json']);
    // The same request has another answer later.
    expect(await setUp(server).run()).toMatchObject({ device: device(1, 1).id, token: 'rf_device_1' });
    expect(server.asked.map(({ public_key }) => public_key)).toEqual(['made-1', 'made-1']);
  });

  test('a saved identity whose token no request could carry is named, and not its token', async () => {
    const { identity, run } = setUp(new FakeServer());
    await run();
    const saved = JSON.parse(await readFile(identity.path('identity'), 'utf8')) as object;
    await writeFile(identity.path('identity'), JSON.stringify({ ...saved, token: 'secret\nword' }));
    const refusal = identity.identity();
    await expect(refusal).rejects.toThrow(BadIdentity);
    await expect(refusal).rejects.toThrow(/identity\.json cannot be used: it has no token/);
    await expect(refusal).rejects.not.toThrow(/secret/);
  });

  test('asks with the same key again after an attempt that failed', async () => {
    const server = new FakeServer();
    const { run } = setUp(server);
    server.refusal = new RingfenceError({ code: 'unavailable', message: 'starting', status: 503 });
    await expect(run()).rejects.toThrow('the server refuses the enrollment: starting');
    server.refusal = undefined;
    await run();
    expect(server.asked.map(({ public_key }) => public_key)).toEqual(['made-1', 'made-1']);
  });

  test.each([undefined, 'tunnel'])(
    'whose answer was lost is sent again with the same request key, also after a restart, and gets the same device (public key: %s)',
    async (publicKey) => {
      const server = new FakeServer();
      server.answers = new Map();
      server.losesAnswer = true;
      await expect(setUp(server, { publicKey }).run()).rejects.toThrow(NotEnrolled);
      const { run, identity } = setUp(server, { publicKey, makeRequestKey: () => 'another' });
      expect(await run()).toMatchObject({ publicKey: publicKey ?? 'made-1', token: 'rf_device_1' });
      expect(server.answers.size).toBe(1);
      // A later enrollment, as of a device that was deleted, is another request.
      expect(await identity.application()).toBeUndefined();
    },
  );

  test('whose answer was lost registers another device in its place where the server does not know the request, and says what is left over', async () => {
    const server = new FakeServer();
    server.losesAnswer = true;
    const { run, logged } = setUp(server);
    await expect(run()).rejects.toThrow(NotEnrolled);
    expect(await run()).toMatchObject({ publicKey: 'made-2', token: 'rf_device_2' });
    expect(logged.join()).toContain('an earlier enrollment was interrupted');
  });

  test.each<[string, number | undefined, string | undefined, RegExp]>([
    ['a bad key', 401, undefined, /^the server does not accept the enrollment key: sorry$/],
    ['a key of another organization', 404, undefined, /does not belong to this organization/],
    ['a tunnel key that is taken', 409, 'tunnel', /already registered: delete it, or use it/],
    ['a server that is away', undefined, undefined, /^no answer to the enrollment: sorry$/],
  ])('explains %s in a line', async (_, status, publicKey, message) => {
    const server = new FakeServer();
    server.refusal = new RingfenceError({ code: 'unauthenticated', message: 'sorry', status });
    await expect(setUp(server, { publicKey }).run()).rejects.toThrow(message);
  });

  test('that a spent key refuses on a second attempt hints at what may have happened', async () => {
    const server = new FakeServer();
    server.losesAnswer = true;
    const { run } = setUp(server);
    await expect(run()).rejects.toThrow(NotEnrolled);
    server.refusal = new RingfenceError({ code: 'unauthenticated', message: 'used up', status: 401 });
    await expect(run()).rejects.toThrow(/An earlier attempt may have used it/);
  });

  test('that cannot be written down is used all the same, and written down as soon as that works', async () => {
    const server = new FakeServer();
    // A folder in place of the file simulates a disk that accepts no write. It appears between the application and the
    // answer.
    const obstacle = new IdentityFolder(folder).path('identity');
    const { identity, run, clock, logged } = setUp(server, {
      register: async (body, requestKey) => {
        await mkdir(obstacle);
        return server.register(body, requestKey);
      },
    });
    expect(await run()).toMatchObject({ token: 'rf_device_1' });
    expect(logged.join()).toContain('cannot save the enrollment yet');
    await clock.advance(25_000);
    await rm(obstacle, { recursive: true, force: true });
    // The disk takes its own time, whatever the clock says.
    for (let look = 0; look < 6_000 && !logged.includes('the enrollment is saved'); look++) {
      await clock.advance(10_000);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(await identity.identity()).toMatchObject({ token: 'rf_device_1' });
    expect(server.asked).toHaveLength(1);
  });

  test.each(['', '{', '[]', '{"organization": 7}', `{"organization": "${organization}"}`])(
    'is not made over a damaged identity: %j',
    async (text) => {
      const server = new FakeServer();
      const { identity, run } = setUp(server);
      await writeFile(identity.path('identity'), text);
      await expect(run()).rejects.toThrow(BadIdentity);
      expect(server.asked).toEqual([]);
    },
  );
});
