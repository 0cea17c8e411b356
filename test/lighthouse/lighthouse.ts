/**
 * Asks Lighthouse about four pages, on a desktop and on a phone; run by `npm run lighthouse`. Lighthouse is no dependency: the first
 * run downloads it.
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { flags, program } from '../lib/browser.ts';
import { lasting, useServer } from '../lib/stage.ts';
import { newFleet } from '../web/fleet.fixture.ts';

const version = '12.8.2';
/** What every category must reach. */
const goal = 0.95;
/** The change stream is open for as long as the page is, so Lighthouse never finds the network quiet and waits for this long. */
const longestLoad = 15_000;

interface Audit {
  readonly score: number | null;
  readonly title: string;
  readonly displayValue?: string;
}
interface Report {
  readonly lhr: {
    readonly categories: Readonly<
      Record<
        string,
        { readonly score: number; readonly auditRefs: readonly { readonly id: string; readonly weight: number }[] }
      >
    >;
    readonly audits: Readonly<Record<string, Audit>>;
  };
}
interface Puppet {
  readonly evaluateOnNewDocument: (script: string) => Promise<unknown>;
  readonly close: () => Promise<void>;
}
interface PuppetBrowser {
  readonly newPage: () => Promise<Puppet>;
  readonly close: () => Promise<void>;
}
interface Tools {
  readonly lighthouse: (url: string, options: object, config: object | undefined, page: Puppet) => Promise<Report>;
  readonly desktop: object;
  readonly launch: (options: object) => Promise<PuppetBrowser>;
}

async function download(): Promise<Tools> {
  const folder = fileURLToPath(new URL(`../../node_modules/.cache/lighthouse-${version}`, import.meta.url));
  const modules = join(folder, 'node_modules');
  if (!existsSync(modules))
    execFileSync('npm', [
      'install',
      '--silent',
      '--ignore-scripts',
      '--no-audit',
      '--prefix',
      folder,
      `lighthouse@${version}`,
    ]);
  const { default: lighthouse } = await import(join(modules, 'lighthouse/core/index.js'));
  const { default: desktop } = await import(join(modules, 'lighthouse/core/config/desktop-config.js'));
  const { default: puppeteer } = await import(join(modules, 'puppeteer-core/lib/esm/puppeteer/puppeteer-core.js'));
  return { lighthouse, desktop, launch: (options) => puppeteer.launch(options) };
}

const stage = useServer();
const fleet = lasting(
  () => newFleet(stage.server),
  async () => {},
);
const tools = lasting(download, async () => {});
const browser = lasting(
  () => tools().launch({ executablePath: program, args: [...flags] }),
  (one) => one.close(),
);

const pages = {
  overview: () => '/overview',
  devices: () => '/devices',
  group: () => `/groups/${fleet().groups.web}`,
  device: () => `/devices/${fleet().devices[3]}`,
} as const;

const looks = Object.keys(pages).flatMap((name) =>
  (['desktop', 'phone'] as const).map((form) => ({ name: name as keyof typeof pages, form })),
);

test.each(looks)('$name on a $form reaches 95 in all four categories', async ({ name, form }) => {
  const page = await browser().newPage();
  await page.evaluateOnNewDocument(`sessionStorage.setItem('ringfence-token', '${fleet().owner.token}')`);
  const url = `${stage.server.url}/ui/o/${fleet().org}${pages[name]()}`;
  const config = form === 'desktop' ? tools().desktop : undefined;
  const options = { disableStorageReset: true, logLevel: 'error', maxWaitForLoad: longestLoad };
  const { lhr } = await tools().lighthouse(url, options, config, page);
  await page.close();
  const scores = Object.entries(lhr.categories).map(([category, { score }]) => [category, score] as const);
  const lost = Object.values(lhr.categories).flatMap(({ auditRefs }) =>
    auditRefs.flatMap(({ id, weight }) => {
      const audit = lhr.audits[id];
      return weight > 0 && audit !== undefined && audit.score !== null && audit.score < goal
        ? [`${audit.title}${audit.displayValue === undefined ? '' : `: ${audit.displayValue}`}`]
        : [];
    }),
  );
  console.log(name, form, Object.fromEntries(scores), lost);
  expect(scores).toHaveLength(4);
  expect({ low: scores.filter(([, score]) => score < goal), lost }).toMatchObject({ low: [] });
});
