/** Proves what we ship for Prometheus and Grafana with Debian's own: rules that fire, and questions that a running server answers. */
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { freePort } from './lib/free-port.ts';
import type { Json } from './lib/http.ts';
import { mortal } from './lib/mortal.ts';
import { newPlace } from './lib/server.ts';
import { useServer } from './lib/stage.ts';

const stage = useServer();
const run = promisify(execFile);
const folder = fileURLToPath(new URL('../packaging/monitoring/', import.meta.url));

/** What Debian's package `prometheus` brings; without it the failure names it. */
async function promtool(...args: readonly string[]): Promise<string> {
  try {
    return (await run('promtool', args, { cwd: folder })).stdout;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT')
      throw new Error('promtool is missing: install it with `apt-get install prometheus`', { cause: error });
    throw error;
  }
}

const dashboard = async (): Promise<Json> => JSON.parse(await readFile(`${folder}ringfence.dashboard.json`, 'utf8'));

test('the alert rules are well formed, and each that is tested fires when it should and not before', async () => {
  expect(await promtool('check', 'rules', 'ringfence.rules.yml')).toMatch(/SUCCESS: \d+ rules found/);
  expect(await promtool('test', 'rules', 'ringfence.rules.test.yml')).toContain('SUCCESS');
});

test('the metrics count the devices of all organizations, by whether their policy is in force', async () => {
  const place = await newPlace(stage.server);
  await place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'counted' });
  const counted = async (): Promise<string> => (await stage.server.nobody.get('/metrics')).text;
  await expect
    .poll(counted, { timeout: 60_000, interval: 200 })
    .toMatch(/^ringfence_devices\{in_force="never_seen"\} 1$/m);
  expect(await counted()).toMatch(/^ringfence_devices\{in_force="failed"\} 0$/m);
});

test('every measurement that rules and dashboard ask for is one that a running server gives', async () => {
  const given = (await stage.server.nobody.get('/metrics')).text;
  const asked = `${await readFile(`${folder}ringfence.rules.yml`, 'utf8')}${JSON.stringify(await dashboard())}`;
  const names = [...new Set(asked.match(/\b(ringfence|process)_[a-z_]+/g) ?? [])].filter((name) => !name.endsWith('_'));
  expect(names.length).toBeGreaterThan(8);
  const known = new Set((given.match(/^# TYPE (\S+)/gm) ?? []).map((line) => line.slice('# TYPE '.length)));
  expect(names.filter((name) => !known.has(name.replace(/_(bucket|sum|count)$/, '')) && !known.has(name))).toEqual([]);
});

test('a Prometheus that scrapes a running server answers every question of the dashboard', async () => {
  const home = await mkdtemp(`${tmpdir()}/ringfence-prometheus-`);
  onTestFinished(() => rm(home, { recursive: true, force: true }));
  const target = stage.server.url.replace('http://', '');
  await writeFile(
    `${home}/prometheus.yml`,
    JSON.stringify({
      global: { scrape_interval: '1s', evaluation_interval: '1s' },
      rule_files: [`${folder}ringfence.rules.yml`],
      scrape_configs: [{ job_name: 'ringfence', static_configs: [{ targets: [target] }] }],
    }),
  );
  const where = `127.0.0.1:${await freePort()}`;
  const [program, args] = mortal('prometheus', [
    `--config.file=${home}/prometheus.yml`,
    `--storage.tsdb.path=${home}/data`,
    `--web.listen-address=${where}`,
  ]);
  const child = spawn(program, args, { stdio: 'ignore' });
  onTestFinished(() => void child.kill('SIGKILL'));
  const ask = async (expression: string): Promise<string> =>
    promtool('query', 'instant', `http://${where}`, expression).catch((error: unknown) => String(error));
  while (!/ringfence.* => 1 /.test(await ask('up{job="ringfence"}'))) {
    if (child.exitCode !== null) throw new Error(`prometheus ended with ${child.exitCode}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const panels: Json[] = (await dashboard()).panels;
  const wrong: string[] = [];
  for (const { expr } of panels.flatMap(({ targets }) => targets)) {
    const answer = await ask(expr.replaceAll('$instance', '.*'));
    if (/error|Error/.test(answer)) wrong.push(`${expr}: ${answer}`);
  }
  expect(wrong).toEqual([]);
  expect(await ask('sum(ringfence_workers{instance=~".*"})')).toContain('=> 1 ');
  const rules: Json = await (await fetch(`http://${where}/api/v1/rules`)).json();
  const loaded: Json[] = rules.data.groups.flatMap((group: Json) => group.rules);
  expect(loaded.length).toBeGreaterThan(5);
  expect(loaded.filter(({ health }) => health === 'err')).toEqual([]);
});
