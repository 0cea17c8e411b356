/** Owns what most tests of a running server stand on, made before a file's tests and taken away after them. */
import { afterAll, beforeAll } from 'vitest';
import { Program } from './program.ts';
import type { TestProvider } from './provider.ts';
import {
  newPlace,
  startPostgres,
  startTestServer,
  type Place,
  type TestPostgres,
  type TestServer,
  type TestServerOptions,
} from './server.ts';

export interface Stage {
  readonly postgres: TestPostgres;
  readonly server: TestServer;
  /** An organization that all tests of the file share. */
  readonly place: Place;
}

/** Something that is there while the file's tests run. */
export function lasting<Thing>(make: () => Promise<Thing>, end: (thing: Thing) => Promise<unknown>): () => Thing {
  let made: { readonly thing: Thing } | undefined;
  beforeAll(async () => {
    made = { thing: await make() };
  });
  afterAll(async () => {
    if (made !== undefined) await end(made.thing);
  });
  return () => {
    if (made === undefined) throw new Error('this is there once the tests run, not while they are described');
    return made.thing;
  };
}

/** Called once by a file: a server on a PostgreSQL of its own. */
export function useServer(options: () => TestServerOptions = () => ({})): Stage {
  const postgres = lasting(startPostgres, (one) => one.stop());
  const server = lasting(
    () => startTestServer(postgres(), options()),
    (one) => one.close(),
  );
  const place = lasting(
    () => newPlace(server()),
    async () => {},
  );
  return {
    get postgres() {
      return postgres();
    },
    get server() {
      return server();
    },
    get place() {
      return place();
    },
  };
}

/** An identity provider; `options` let a server take its tokens. */
export function useProvider(): { readonly provider: TestProvider; readonly options: () => TestServerOptions } {
  // Loaded by those who want one: it takes longer to load than many a file's tests to run.
  const module = lasting(
    () => import('./provider.ts'),
    async () => {},
  );
  const provider = lasting(
    () => module().startProvider(),
    (one) => one.stop(),
  );
  return {
    get provider() {
      return provider();
    },
    options: () => ({ oidcIssuer: [provider().issuer], oidcAudience: [module().audience] }),
  };
}

/** The command line, installed as users have it. */
export function useProgram(): { readonly program: Program } {
  const program = lasting(
    () => Program.install(),
    (one) => one.remove(),
  );
  return {
    get program() {
      return program();
    },
  };
}
