/** Owns the browser of the tests: Debian's Chromium, signed in where asked, with every complaint of a page kept as evidence. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { chromium, type Browser, type BrowserContext, type Locator, type Page } from 'playwright-core';

const program = '/usr/bin/chromium';
const flags = [
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

/** The browser alone, for whoever built the pages elsewhere. */
export const launchBrowser = (): Promise<Browser> => chromium.launch({ executablePath: program, args: flags });

export interface VisitOptions {
  readonly token?: string;
  readonly path?: string;
  readonly scheme?: 'light' | 'dark';
  readonly width?: number;
  readonly height?: number;
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

/** A visitor of its own: no cookie, storage or cache is shared with another. */
export async function visit(browser: Browser, url: string, options: VisitOptions = {}): Promise<Visit> {
  const { token, path = '/', scheme = 'light', width = 1280, height = 800 } = options;
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: scheme,
    reducedMotion: 'reduce',
  });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' && !expected.test(message.text())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  if (token !== undefined) {
    // As text, because it runs in the page. A test that signs out stays out.
    await context.addInitScript({
      content: `if (sessionStorage.getItem('visited') === null) sessionStorage.setItem('ringfence-token', ${JSON.stringify(token)});
        sessionStorage.setItem('visited', 'yes');`,
    });
  }
  await page.goto(`${url}/ui${path}`);
  return { page, context, complaints, close: () => context.close() };
}

/** Waits until it is there to be seen; what never comes fails the test with what was looked for. */
export const expectShown = (what: Locator): Promise<void> => what.first().waitFor({ state: 'visible' });
