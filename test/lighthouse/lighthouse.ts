/**
 * Asks Lighthouse about four pages, on a desktop and on a phone; run by `npm run lighthouse`. Lighthouse is no dependency: the first
 * run downloads it. The phone is asked twice: as Lighthouse comes, and as slow as it is beside this machine; the second one counts
 * (docs/decisions/packages-and-start.md).
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { flags, program } from '../lib/browser.ts';
import { lasting, useServer } from '../lib/stage.ts';
import { newFleet } from '../web/fleet.fixture.ts';
import { median, slowdownFor, usualSlowdown } from './slowdown.ts';

const version = '12.8.2';
/** What every category must reach. */
const goal = 0.95;
/** The change stream is open for as long as the page is, so Lighthouse never finds the network quiet and waits for this long. */
const longestLoad = 15_000;

interface Audit {
  readonly score: number | null;
  readonly title: string;
  readonly displayValue?: string;
  readonly numericValue?: number;
}
interface Report {
  readonly lhr: {
    /** How fast this machine was before the page was opened. */
    readonly environment: { readonly benchmarkIndex: number };
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

type PageName = keyof typeof pages;
const names: readonly PageName[] = ['overview', 'devices', 'group', 'device'];

/** `slowdown`: how much slower than this machine the phone is; a desktop is this machine. */
async function ask(name: PageName, form: 'desktop' | 'phone', slowdown: number): Promise<Report['lhr']> {
  const page = await browser().newPage();
  await page.evaluateOnNewDocument(`sessionStorage.setItem('ringfence-token', '${fleet().owner.token}')`);
  const url = `${stage.server.url}/ui/o/${fleet().org}${pages[name]()}`;
  const options = {
    disableStorageReset: true,
    logLevel: 'error',
    maxWaitForLoad: longestLoad,
    ...(form === 'phone' && { throttling: { cpuSlowdownMultiplier: slowdown } }),
  };
  const { lhr } = await tools().lighthouse(url, options, form === 'desktop' ? tools().desktop : undefined, page);
  await page.close();
  return lhr;
}

const lostIn = ({ categories, audits }: Report['lhr']): readonly string[] =>
  Object.values(categories).flatMap(({ auditRefs }) =>
    auditRefs.flatMap(({ id, weight }) => {
      const audit = audits[id];
      return weight > 0 && audit !== undefined && audit.score !== null && audit.score < goal
        ? [`${audit.title}${audit.displayValue === undefined ? '' : `: ${audit.displayValue}`}`]
        : [];
    }),
  );

const scoresOf = ({ categories }: Report['lhr']): Readonly<Record<string, number>> =>
  Object.fromEntries(Object.entries(categories).map(([category, { score }]) => [category, score]));

/** The categories below the goal, and what they lost. */
function judged(lhr: Report['lhr']): object {
  const scores = Object.entries(scoresOf(lhr));
  return { categories: scores.length, low: scores.filter(([, score]) => score < goal), lost: lostIn(lhr) };
}
const good = { categories: 4, low: [] };

/** What one run found, in one line. */
const print = (lhr: Report['lhr'], ...what: readonly unknown[]): void =>
  console.log(
    ...what,
    scoresOf(lhr),
    'blocked for',
    Math.round(lhr.audits['total-blocking-time']?.numericValue ?? Number.NaN),
    'ms',
    lostIn(lhr),
  );

test.each(names)('%s on a desktop reaches 95 in all four categories', async (name) => {
  const lhr = await ask(name, 'desktop', 1);
  print(lhr, name, 'desktop');
  expect(judged(lhr)).toMatchObject(good);
});

/** Of every run as Lighthouse comes. One alone may have met a busy moment. */
const indexes: number[] = [];

test.each(names)('%s on a phone is asked as Lighthouse comes, for comparison', async (name) => {
  const lhr = await ask(name, 'phone', usualSlowdown);
  indexes.push(lhr.environment.benchmarkIndex);
  print(lhr, name, 'phone', { index: lhr.environment.benchmarkIndex, slowdown: usualSlowdown });
  expect(lhr.environment.benchmarkIndex).toBeGreaterThan(0);
});

test.each(names)('%s on a phone reaches 95 in all four categories', async (name) => {
  const index = median(indexes);
  const slowdown = slowdownFor(index);
  const lhr = await ask(name, 'phone', slowdown);
  print(lhr, name, 'phone', { index, slowdown });
  expect(judged(lhr)).toMatchObject(good);
});
