/**
 * Measures the web UI as a person meets it, in Debian's Chromium against a real server process over TLS: how much script the first page loads, how
 * soon a change made by the API is on an open page, and how an organization of 10,000 devices opens and scrolls, its list and its overview.
 * Floors in the same run: a bare script in the same browser that reads the same stream, and one that fetches and parses the same list.
 * Not measured: networks, other browsers, and painting on a graphics card.
 */
import { rm } from 'node:fs/promises';
import { globalAgent } from 'node:https';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { launchBrowser, visit } from '../test/lib/browser.ts';
import { Api, type Json } from '../test/lib/http.ts';
import { temporaryDirectory } from '../test/lib/postgres.ts';
import { Program } from '../test/lib/run.ts';
import { at, median, showGoals } from './lib/goals.ts';
import { table } from './lib/table.ts';
import { makeCertificate } from './lib/tls.ts';

const token = `rf_user_${'w'.repeat(43)}`;
const fleet = Number(process.env['RINGFENCE_BENCH_DEVICES'] ?? 10_000);
const changes = 60;
const openings = 5;

interface Place {
  readonly url: string;
  readonly api: Api;
}

interface Organization {
  readonly id: string;
  /** Sorts before every other, so that it is in sight. */
  readonly first: string;
}

async function fill({ api }: Place, name: string, count: number): Promise<Organization> {
  const { id } = await api.expect(201, 'POST', '/api/organizations', { name });
  const base = `/api/organizations/${id}`;
  const group = await api.expect(201, 'POST', `${base}/security_groups`, {
    group_name: 'servers',
    inbound_rules: [{ ip_protocol: 'tcp', from_port: 22, to_port: 22, ip_ranges: ['10.0.0.0/8'] }],
  });
  let next = 0;
  let first = '';
  await Promise.all(
    Array.from({ length: 32 }, async () => {
      for (let i = (next += 1); i <= count; i = next += 1) {
        const device = await api.expect(201, 'POST', `${base}/devices`, {
          public_key: `key ${i}`,
          hostname: i === 1 ? 'aaa 0' : `${['web', 'db', 'edge', 'build'][i % 4]}-${i}.${['eu', 'us'][i % 2]}.example`,
          tunnel_ip: `100.64.${i >> 8}.${i & 255}`,
          ...(i % 3 === 0 ? { security_groups: [group.id] } : {}),
        });
        if (i === 1) first = device.id as string;
        await api.expect(200, 'PUT', `${base}/devices/${device.id}/status`, { state: 'applied', revision: i });
      }
    }),
  );
  return { id, first };
}

/** Evaluated as text: it runs in the page. */
const ask = async <T>(page: Page, code: string): Promise<T> => (await page.evaluate(code)) as T;
/** Waits in the page until the expression has a value. */
const until = <T>(page: Page, expression: string): Promise<T> =>
  ask<T>(
    page,
    `new Promise((resolve) => {
      const look = () => (${expression} === undefined ? setTimeout(look, 4) : resolve(${expression}));
      look();
    })`,
  );
const clock = 'performance.timeOrigin + performance.now()';
const now = (): number => performance.timeOrigin + performance.now();

/** Notes in the page when each new name of a device came into sight. */
const noteNames = `window.seen = {};
  new MutationObserver(() => {
    const name = document.querySelector('main .list-row strong')?.textContent;
    if (name?.startsWith('aaa') && window.seen[name] === undefined) window.seen[name] = ${clock};
  }).observe(document.querySelector('main'), { subtree: true, childList: true, characterData: true })`;

/** The floor: the least script that reads the stream and knows the name. */
const noteStream = (org: string): string => `window.seen = {};
  void (async () => {
    const answer = await fetch('/api/organizations/${org}/events', {
      method: 'POST',
      headers: { authorization: 'Bearer ${token}', 'content-type': 'application/json' },
      body: '[{"kind":"device"}]',
    });
    const text = new TextDecoder();
    for (const reader = answer.body.getReader(); ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      const chunk = text.decode(value);
      if (chunk.includes('"tail"')) window.tail = true;
      for (const [, name] of chunk.matchAll(/"hostname":"(aaa [^"]+)"/g)) window.seen[name] ??= ${clock};
    }
  })()`;

async function latencies({ api }: Place, org: Organization, page: Page): Promise<readonly number[]> {
  const path = `/api/organizations/${org.id}/devices/${org.first}`;
  const times: number[] = [];
  for (let n = -5; n < changes; n += 1) {
    const hostname = `aaa ${Math.random()}`;
    const sent = now();
    await api.expect(200, 'PATCH', path, { hostname });
    const seen = await until<number>(page, `window.seen[${JSON.stringify(hostname)}]`);
    if (n >= 0) times.push(seen - sent);
  }
  return times;
}

async function onPage(browser: Browser, place: Place, org: Organization): Promise<readonly number[]> {
  const { page, close } = await visit(browser, place.url, { token, path: `/o/${org.id}/devices` });
  await page.getByRole('link', { name: /^aaa/ }).waitFor();
  await ask(page, noteNames);
  const times = await latencies(place, org, page);
  await close();
  return times;
}

async function inScript(browser: Browser, place: Place, org: Organization): Promise<readonly number[]> {
  const { page, close } = await visit(browser, place.url, {});
  await ask(page, noteStream(org.id));
  await until(page, 'window.tail');
  const times = await latencies(place, org, page);
  await close();
  return times;
}

/** The longest task of the page: by the clock, and by the processor time that it took, which a busy machine does not stretch. */
interface Longest {
  readonly wall: number;
  readonly processor: number;
}

interface Opening {
  readonly usable: number;
  readonly opening: Longest;
  readonly scrolling: Longest;
  readonly following: Longest;
  readonly heap: number;
}

interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  readonly dur?: number;
  readonly tdur?: number;
  readonly args: { readonly name?: string };
}

async function traced(browser: Browser, page: Page, work: () => Promise<unknown>): Promise<Longest> {
  await browser.startTracing(page, { categories: ['toplevel'] });
  await work();
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: TraceEvent[] };
  const place = ({ pid, tid }: TraceEvent): string => `${pid}/${tid}`;
  const pages = new Set(
    traceEvents.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain').map(place),
  );
  const tasks = traceEvents.filter((event) => event.name.endsWith('RunTask') && pages.has(place(event)));
  const top = (of: (task: TraceEvent) => number | undefined): number =>
    tasks.reduce((most, task) => Math.max(most, of(task) ?? 0), 0) / 1_000;
  return { wall: top(({ dur }) => dur), processor: top(({ tdur }) => tdur) };
}

interface OverviewOpening {
  readonly usable: number;
  readonly opening: Longest;
  readonly following: Longest;
}

/** The overview as it opens, and as it stays open while devices change: it counts anew, and asks the server again. */
async function openOverview(browser: Browser, place: Place, org: Organization): Promise<OverviewOpening> {
  const { page, close } = await visit(browser, place.url, { token, path: '/nowhere' });
  let usable = Number.NaN;
  const opening = await traced(browser, page, async () => {
    await page.goto(`${place.url}/ui/o/${org.id}/overview`);
    await page.getByRole('region', { name: 'Needs attention' }).waitFor();
    usable = await ask<number>(page, 'performance.now()');
    await page.waitForTimeout(500);
  });
  const following = await traced(browser, page, async () => {
    for (let n = 0; n < 20; n += 1) {
      await place.api.expect(200, 'PATCH', `/api/organizations/${org.id}/devices/${org.first}`, {
        hostname: `aaa ${Math.random()}`,
      });
    }
    await page.waitForTimeout(1_000);
  });
  await close();
  return { usable, opening, following };
}

/** From the top to the end in steps of most of a window, one for each picture drawn. */
const scroll = `(async () => {
  const list = document.querySelector('.list-window');
  for (let top = 0; top < list.scrollHeight; top += list.scrollHeight / 200) {
    list.scrollTop = top;
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
})()`;

async function openOnce(browser: Browser, place: Place, org: Organization): Promise<Opening> {
  const { page, close } = await visit(browser, place.url, { token, path: '/nowhere' });
  let usable = Number.NaN;
  const opening = await traced(browser, page, async () => {
    await page.goto(`${place.url}/ui/o/${org.id}/devices`);
    await page.getByRole('link', { name: /^aaa/ }).waitFor();
    usable = await ask<number>(page, 'performance.now()');
    // What the page does after it is usable counts too: reports of agents come now.
    await page.waitForTimeout(500);
  });
  const scrolling = await traced(browser, page, () => ask(page, scroll));
  const following = await traced(browser, page, async () => {
    for (let n = 0; n < 20; n += 1) {
      await place.api.expect(200, 'PATCH', `/api/organizations/${org.id}/devices/${org.first}`, {
        hostname: `aaa ${Math.random()}`,
      });
    }
  });
  const heap = await ask<number>(page, 'performance.memory.usedJSHeapSize / 1e6');
  await close();
  return { usable, opening, scrolling, following, heap };
}

/** The floor of an opening: fetch the whole list and parse it, nothing shown. */
async function fetchOnce(browser: Browser, { url }: Place, org: Organization): Promise<number> {
  const { page, close } = await visit(browser, url, {});
  const took = await ask<number>(
    page,
    `(async () => {
      const start = performance.now();
      const answer = await fetch('/api/organizations/${org.id}/devices', { headers: { authorization: 'Bearer ${token}' } });
      await answer.json();
      return performance.now() - start;
    })()`,
  );
  await close();
  return took;
}

async function firstLoad(browser: Browser, { url, api }: Place, org: Organization): Promise<number> {
  const { page, close } = await visit(browser, url, { token, path: `/o/${org.id}/devices` });
  await page.getByRole('heading', { name: 'Devices', level: 1 }).waitFor();
  const names = await ask<string[]>(page, `performance.getEntriesByType('resource').map((entry) => entry.name)`);
  await close();
  let sum = 0;
  for (const path of new Set(names.map((name) => new URL(name).pathname).filter((name) => name.endsWith('.js')))) {
    const { headers }: { headers: Json } = await api.get(path, { 'accept-encoding': 'gzip' });
    sum += Number(headers['content-length']);
  }
  return sum / 1024;
}

async function measure(browser: Browser, place: Place): Promise<void> {
  const small = await fill(place, 'small', 10);
  const large = await fill(place, 'large', fleet);
  const script = await firstLoad(browser, place, small);
  const floor = await inScript(browser, place, small);
  const few = await onPage(browser, place, small);
  const many = await onPage(browser, place, large);
  const lists: number[] = [];
  const opened: Opening[] = [];
  const overviews: OverviewOpening[] = [];
  for (let n = 0; n < openings; n += 1) {
    lists.push(await fetchOnce(browser, place, large));
    opened.push(await openOnce(browser, place, large));
    overviews.push(await openOverview(browser, place, large));
  }
  const count = fleet.toLocaleString('en-US');
  /** A line of the table, with a goal for its worst, or for the p99 of changes. */
  interface Line {
    readonly what: string;
    readonly unit: 'ms' | 'KB' | 'MB';
    readonly middle: number;
    readonly worst: number;
    readonly goal?: number;
  }
  const change = (what: string, values: readonly number[], goal?: { readonly goal: number }): Line => ({
    what: `a change, from request to ${what}`,
    unit: 'ms',
    middle: median(values),
    worst: at(values, 0.99),
    ...goal,
  });
  const line = (
    what: string,
    unit: Line['unit'],
    values: readonly number[],
    goal?: { readonly goal: number },
  ): Line => ({
    what,
    unit,
    middle: median(values),
    worst: Math.max(...values),
    ...goal,
  });
  const longest = (what: string, tasks: readonly Longest[]): Line[] => [
    line(
      `longest task while ${what}`,
      'ms',
      tasks.map(({ wall }) => wall),
      { goal: 200 },
    ),
    line(
      `longest task while ${what}, processor time`,
      'ms',
      tasks.map(({ processor }) => processor),
      { goal: 100 },
    ),
  ];
  const [list, overview] = [`the list of ${count} devices`, `the overview of ${count} devices`];
  const lines: readonly Line[] = [
    line('script of the first page, gzip', 'KB', [script], { goal: 350 }),
    change('a bare script (floor)', floor),
    change('the page, 10 devices', few, { goal: 200 }),
    change(`the page, ${count} devices`, many, { goal: 200 }),
    line('fetch and parse the list alone (floor)', 'ms', lists),
    line(
      `${list} is usable after`,
      'ms',
      opened.map(({ usable }) => usable),
    ),
    ...longest(
      `${list} opens`,
      opened.map(({ opening }) => opening),
    ),
    ...longest(
      `${list} scrolls from end to end`,
      opened.map(({ scrolling }) => scrolling),
    ),
    ...longest(
      `${list} follows 20 changes`,
      opened.map(({ following }) => following),
    ),
    line(
      `script memory of ${list}`,
      'MB',
      opened.map(({ heap }) => heap),
    ),
    line(
      `${overview} is usable after`,
      'ms',
      overviews.map(({ usable }) => usable),
    ),
    ...longest(
      `${overview} opens`,
      overviews.map(({ opening }) => opening),
    ),
    ...longest(
      `${overview} follows 20 changes`,
      overviews.map(({ following }) => following),
    ),
  ];
  console.log(`\n${changes} changes, ${openings} openings\n`);
  console.log(
    table(
      ['what', 'unit', 'median', 'worst (changes: p99)'],
      lines.map(({ what, unit, middle, worst }) => [what, unit, middle, worst]),
    ),
  );
  showGoals(
    lines.flatMap(({ what, unit, goal, worst }) => (goal === undefined ? [] : [{ what, unit, goal, measured: worst }])),
  );
}

const program = await Program.build({ web: true });
const data = await temporaryDirectory();
const browser = await launchBrowser('--ignore-certificate-errors');
try {
  const args = ['--listen', '127.0.0.1:0', '--data', join(data, 'server'), '--log-level', 'warn', '--rate-limit', '0'];
  const server = program.run(['server', ...args, ...makeCertificate(data).serverArguments], {
    RINGFENCE_ADMIN_TOKEN: token,
  });
  const url = await server.url();
  const api = new Api(url, token, globalAgent);
  await measure(browser, { url, api });
  api.close();
  await server.stop();
} finally {
  await browser.close();
  await program.close();
  await rm(data, { recursive: true, force: true, maxRetries: 20 });
}
