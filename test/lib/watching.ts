/** Owns what tests of streams share: a server, streams that are closed with the test file, and the small writes they look at. */
import { afterAll, beforeAll } from 'vitest';
import {
  newPlace,
  startPostgres,
  startTestServer,
  type Place,
  type TestPostgres,
  type TestServer,
  type TestServerOptions,
} from './server.ts';
import { EventStream, type StreamOptions } from './stream.ts';

export interface Watching {
  readonly postgres: TestPostgres;
  readonly server: TestServer;
  /** Another server on the same database. */
  readonly replica: (options?: TestServerOptions) => Promise<TestServer>;
  readonly place: () => Promise<Place>;
  /** A stream, read by the member unless another token is named. */
  readonly watch: (
    place: Place,
    body: unknown,
    options?: StreamOptions & { token?: string | undefined; on?: TestServer },
  ) => EventStream;
  readonly newDevice: (place: Place, more?: object) => Promise<Device>;
  readonly change: (place: Place, id: string, hostname: string) => Promise<Device>;
  readonly remove: (place: Place, id: string) => Promise<Device>;
}

export interface Device {
  readonly id: string;
  readonly revision: number;
  readonly device_token: string;
}

/** To be called once at the top of a test file. */
export function watching(options: TestServerOptions = {}): Watching {
  let postgres: TestPostgres | undefined;
  let server: TestServer | undefined;
  const streams: EventStream[] = [];
  const replicas: TestServer[] = [];
  let made = 0;
  beforeAll(async () => {
    postgres = await startPostgres();
    server = await startTestServer(postgres, options);
  });
  afterAll(async () => {
    for (const stream of streams) stream.close();
    for (const one of replicas) await one.close();
    await server?.close();
    await postgres?.stop();
  });
  const there = <T>(thing: T | undefined): T => {
    if (thing === undefined) throw new Error('the server is started before the first test');
    return thing;
  };
  return {
    get postgres() {
      return there(postgres);
    },
    get server() {
      return there(server);
    },
    async replica(given = {}) {
      const one = await startTestServer(there(postgres), { ...options, ...given, url: there(server).databaseUrl });
      let closing: Promise<void> | undefined;
      const replica = { ...one, close: () => (closing ??= one.close()) };
      replicas.push(replica);
      return replica;
    },
    place: () => newPlace(there(server)),
    watch(place, body, given = {}) {
      const token = 'token' in given ? given.token : place.member.token;
      const stream = new EventStream((given.on ?? there(server)).url, token, place.org, body, given);
      streams.push(stream);
      return stream;
    },
    newDevice(place, more = {}) {
      made += 1;
      return place.member.api.expect(201, 'POST', `${place.base}/devices`, { public_key: `key-${made}`, ...more });
    },
    change: (place, id, hostname) => place.member.api.expect(200, 'PATCH', `${place.base}/devices/${id}`, { hostname }),
    remove: (place, id) => place.member.api.expect(200, 'DELETE', `${place.base}/devices/${id}`),
  };
}
