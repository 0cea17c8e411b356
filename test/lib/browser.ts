/** Owns the browser of the tests: Debian's Chromium, signed in where asked, with every complaint of a page kept as evidence. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import {
  chromium,
  type Browser,
  type BrowserContext,
  type ConsoleMessage,
  type Locator,
  type Page,
} from 'playwright-core';

/** Chromium without the windows, menus and services around its pages: half the processor time, and the same pages. */
export const program = '/usr/bin/chromium-headless-shell';
export const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

const built = fileURLToPath(new URL('../../dist/ui/index.html', import.meta.url));

export async function startBrowser(): Promise<Browser> {
  if (!existsSync(built)) throw new Error('the web UI is not built: npm run build');
  return launchBrowser();
}

/** The browser alone, for tests that build the pages elsewhere. */
export const launchBrowser = (...more: readonly string[]): Promise<Browser> =>
  chromium.launch({ executablePath: program, args: [...flags, ...more] });

export interface VisitOptions {
  readonly token?: string;
  readonly path?: string;
  readonly scheme?: 'light' | 'dark';
  readonly width?: number;
  readonly height?: number;
  /** Loads the files of every page in idle moments, as the pages do. That is a quarter of a visit's cost, so a test asks for it. */
  readonly loadsAhead?: boolean;
}

export interface Visit {
  readonly page: Page;
  readonly context: BrowserContext;
  /** What the page complained about: faults, refused scripts and styles, failed loads. Expected refusals are left out. */
  readonly complaints: readonly string[];
  readonly close: () => Promise<void>;
}

/** Statuses that a test provokes on purpose; the browser reports each as a failed load. */
const expected = /status of (401|403|404|409|412|422)|net::ERR_/;

/** A bound for what a busy machine may take, not a measure. */
const longest = 120_000;

async function newProfile(browser: Browser): Promise<BrowserContext> {
  const context = await browser.newContext({ reducedMotion: 'reduce' });
  context.setDefaultTimeout(longest);
  return context;
}

/** A visitor of its own: no cookie, storage or cache is shared with another. */
export async function visit(browser: Browser, url: string, options: VisitOptions = {}): Promise<Visit> {
  const context = await newProfile(browser);
  const { page, complaints } = await visitIn(await context.newPage(), url, options);
  return { page, context, complaints, close: () => context.close() };
}

/**
 * Visitors one after the other in the same tabs, so that the files of the pages need not be read and compiled again, and no process
 * started: that is more than half the cost of a visit. Concurrent visitors have profiles of their own; no cookie and no storage outlives a visit.
 */
export class Visitors {
  readonly #browser: Browser;
  readonly #idle: Page[] = [];

  constructor(browser: Browser) {
    this.#browser = browser;
  }

  async visit(url: string, options: VisitOptions = {}): Promise<Visit> {
    const tab = this.#idle.pop() ?? (await (await newProfile(this.#browser)).newPage());
    const context = tab.context();
    const { page, complaints, leave } = await visitIn(tab, url, options);
    return {
      page,
      context,
      complaints,
      close: async () => {
        try {
          await leave();
          for (const other of context.pages()) if (other !== page) await other.close();
          await context.clearCookies();
          await context.clearPermissions();
          this.#idle.push(page);
        } catch {
          // A page that cannot be asked, because the test has closed it, takes its profile with it.
          await context.close();
        }
      },
    };
  }
}

let visits = 0;

interface Visited extends Pick<Visit, 'page' | 'complaints'> {
  /** Leaves the tab as it was found. */
  readonly leave: () => Promise<void>;
}

async function visitIn(page: Page, url: string, options: VisitOptions): Promise<Visited> {
  const { token, path = '/', scheme = 'light', width = 1280, height = 800, loadsAhead = false } = options;
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
  const complaints: string[] = [];
  const onMessage = (message: ConsoleMessage): void => {
    if (message.type() === 'error' && !expected.test(message.text())) complaints.push(message.text());
  };
  const onError = (error: Error): void => void complaints.push(String(error));
  page.on('console', onMessage).on('pageerror', onError);
  // As text, because it runs in the page. Only the first page of a visit is given the token: a test that signs out stays out.
  const begin = await page.addInitScript({
    content: `${loadsAhead ? '' : 'globalThis.requestIdleCallback = () => 0;'}
    if (sessionStorage.getItem('visit') !== '${(visits += 1)}') {
      localStorage.clear();
      sessionStorage.clear();
      sessionStorage.setItem('visit', '${visits}');
      ${token === undefined ? '' : `sessionStorage.setItem('ringfence-token', ${JSON.stringify(token)});`}
    }`,
  });
  await page.goto(`${url}/ui${path}`);
  const leave = async (): Promise<void> => {
    await page.goto('about:blank');
    await begin.dispose();
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    page.off('console', onMessage).off('pageerror', onError);
  };
  return { page, complaints, leave };
}

/** Waits until it is there to be seen; what never comes fails the test with what was looked for. */
export const expectShown = (what: Locator): Promise<void> => what.first().waitFor({ state: 'visible' });

/** As text, for the page: whether it loaded a file because it needed it, and not ahead of need in an idle moment. */
export const isNeeded =
  "({ startTime }) => startTime < (performance.getEntriesByName('load-ahead')[0]?.startTime ?? Infinity)";
