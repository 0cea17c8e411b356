/** Owns what every test of the pages stands on: a server, a browser, and visits whose complaints fail the test that made them. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { startBrowser, visit, type Visit, type VisitOptions } from '../lib/browser.ts';
import { startPostgres, startTestServer, type TestPostgres, type TestServer } from '../lib/server.ts';

export interface Stage {
  readonly server: TestServer;
  readonly browser: Browser;
  /** A page in a browser profile of its own, closed after the test. */
  readonly open: (options?: VisitOptions, url?: string) => Promise<Page>;
}

/** Called once by a file, before its own `beforeAll`: it makes the stage before the file's tests and takes it away after them. */
export function useStage(): Stage {
  let postgres: TestPostgres;
  let server: TestServer;
  let browser: Browser;
  let visits: Visit[] = [];
  beforeAll(async () => {
    postgres = await startPostgres();
    server = await startTestServer(postgres);
    browser = await startBrowser();
  });
  afterEach(async () => {
    const complaints = visits.flatMap((one) => one.complaints);
    await Promise.all(visits.map((one) => one.close()));
    visits = [];
    expect(complaints).toEqual([]);
  });
  afterAll(async () => {
    await browser.close();
    await server.close();
    await postgres.stop();
  });
  return {
    get server() {
      return server;
    },
    get browser() {
      return browser;
    },
    open: async (options = {}, url = server.url) => {
      const one = await visit(browser, url, options);
      visits.push(one);
      return one.page;
    },
  };
}
