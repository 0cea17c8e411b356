/**
 * Owns what every test of the pages uses: a server, a browser, and visits whose errors fail the test that made them.
 */
import type { Browser, Page } from 'playwright-core';
import { afterEach, expect } from 'vitest';
import { startBrowser, Visitors, type Visit, type VisitOptions } from '../lib/browser.ts';
import type { TestServer, TestServerOptions } from '../lib/server.ts';
import { lasting, useServer } from '../lib/stage.ts';

export interface Stage {
  readonly server: TestServer;
  /** A page in a browser profile that no other test uses meanwhile, closed after the test. */
  readonly open: (options?: VisitOptions, url?: string) => Promise<Page>;
}

/** Called once by a file, before its own `beforeAll`: it makes the stage before the file's tests and takes it away after them. */
export function useStage(server?: () => TestServerOptions): Stage {
  const stage = useServer(server);
  const browser = lasting<Browser>(startBrowser, (one) => one.close());
  const visitors = lasting(
    async () => new Visitors(browser()),
    async () => {},
  );
  let visits: Visit[] = [];
  afterEach(async () => {
    const complaints = visits.flatMap((one) => one.complaints);
    await Promise.all(visits.map((one) => one.close()));
    visits = [];
    expect(complaints).toEqual([]);
  });
  return {
    get server() {
      return stage.server;
    },
    open: async (options = {}, url = stage.server.url) => {
      const one = await visitors().visit(url, options);
      visits.push(one);
      return one.page;
    },
  };
}
