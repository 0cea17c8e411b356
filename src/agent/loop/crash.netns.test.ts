/** Proves that a crash at any step leaves the old rules or the new ones in force, never none, and a restart goes on. */
import { build } from 'esbuild';
import type { ChildProcess } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FloodLab, floodInterface, peer4, peer6, permittedPort } from '../../../test/lib/flood.ts';
import { decompile } from '../../nft/read/decompile.ts';
import { parseListing } from '../../nft/read/parse-listing.fixture.ts';
import { written } from '../../nft/policies.fixture.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import type { StoredRule } from '../../policy/rule.ts';
import { groupOf } from './agent.fixture.ts';

/** Always admits the flood's permitted packets and never the forbidden ones; each revision has chains of its own. */
const rulesOf = (revision: number): StoredRule[] => [
  written('udp', permittedPort, permittedPort, peer4, peer6, `10.0.${revision % 250}.0/24`, '172.16.0.1'),
  written('tcp', 1_000 + revision, 2_000 + revision, '10.0.0.0/8', `192.0.2.${revision % 250}`),
];
const meaning = (revision: number) =>
  canonicalize({ source: 'list', groups: [groupOf(1, rulesOf(revision), rulesOf(revision))] });

/** A running agent process. */
class AgentProcess {
  readonly lines: string[] = [];
  readonly ended: Promise<void>;
  readonly #child: ChildProcess;
  #wake: () => void = () => {};

  constructor(lab: FloodLab, argv: readonly string[]) {
    this.#child = lab.device.spawn([process.execPath, ...argv], { stdio: ['pipe', 'pipe', 'ignore'] });
    this.ended = new Promise((resolve) => {
      this.#child.once('close', () => {
        this.#wake();
        resolve();
      });
    });
    this.#child.stdin?.on('error', () => {});
    if (this.#child.stdout === null) throw new Error('the agent has no output');
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      this.lines.push(line);
      this.#wake();
    });
  }

  say(revision: number): void {
    const rules = rulesOf(revision);
    this.#child.stdin?.write(`${JSON.stringify({ revision, inbound: rules, outbound: rules })}\n`);
  }

  /** Waits until this revision is in force and verified. */
  async settled(revision: number): Promise<void> {
    while (this.lines.at(-1) !== `settled ${revision}`) {
      if (this.#child.exitCode !== null || this.#child.signalCode !== null) throw new Error('the agent has ended');
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async stop(): Promise<void> {
    this.#child.stdin?.end();
    await this.ended;
  }
}

/** Every step, and whether the new rules are in force when it ends. */
const everywhere: readonly (readonly [string, 'old' | 'new'])[] = [
  ['before-stage', 'old'],
  ['staged', 'old'],
  ['flipped', 'new'],
  ['before-revoke', 'new'],
  ['revoked', 'new'],
  ['state-written', 'new'],
  ['state-renamed', 'new'],
  ['before-collect', 'new'],
  ['collected', 'new'],
];

describe('a crash', () => {
  let lab: FloodLab;
  let folder: string;
  let program: string;
  let revision = 1;
  beforeAll(async () => {
    lab = await FloodLab.open();
    folder = await mkdtemp(join(tmpdir(), 'ringfence-crash-'));
    program = join(folder, 'agent.mjs');
    await build({
      entryPoints: [fileURLToPath(new URL('crash-agent.fixture.ts', import.meta.url))],
      outfile: program,
      bundle: true,
      platform: 'node',
      format: 'esm',
      logLevel: 'warning',
    });
    const first = start('never');
    first.say(revision);
    await first.settled(revision);
    await first.stop();
    await lab.start();
  });
  afterAll(async () => {
    await lab?.close();
    await rm(folder, { recursive: true, force: true });
  });
  const start = (where: string): AgentProcess => new AgentProcess(lab, [program, folder, floodInterface, where]);
  const kernel = async () => {
    const { stdout } = await lab.device.run(['nft', '-j', 'list', 'table', 'inet', 'service']);
    const installed = parseListing(JSON.parse(stdout));
    return installed && decompile(installed).enforced?.policy;
  };

  /** Sends the next revision to an agent that ends at the given step. */
  const crashAt = async (where: string): Promise<void> => {
    revision += 1;
    const crashing = start(where);
    crashing.say(revision);
    await crashing.ended;
  };
  /** What a start without a message from the server keeps in force; afterwards it goes on to the newest revision. */
  const restart = async (survivor: number): Promise<unknown> => {
    const next = start('never');
    await next.settled(survivor);
    const policy = await kernel();
    next.say(revision);
    await next.settled(revision);
    await next.stop();
    return policy;
  };

  test.each(everywhere)('at the step %s leaves the %s rules, and a restart goes on from them', async (where, left) => {
    const survivor = left === 'old' ? revision : revision + 1;
    await crashAt(where);
    expect(await kernel()).toEqual(meaning(survivor));
    expect(await restart(survivor)).toEqual(meaning(survivor));
    expect(await kernel()).toEqual(meaning(revision));
  });

  test.each([
    ['staged', 'old'],
    ['flipped', 'new'],
  ])('at the step %s, and then a half written policy file, leave the %s rules', async (where, left) => {
    const survivor = left === 'old' ? revision : revision + 1;
    await crashAt(where);
    await writeFile(join(folder, 'state', 'policy.json'), 'sha256 0000\n{"format":1,');
    expect(await restart(survivor)).toEqual(meaning(survivor));
    expect(await kernel()).toEqual(meaning(revision));
  });

  test('has never lost a permitted packet or let a forbidden one pass', async () => {
    const { permitted, forbidden, lost, leaked } = await lab.stop();
    expect(Math.min(permitted.in, permitted.out, forbidden.in, forbidden.out)).toBeGreaterThan(1_000);
    expect({ lost, leaked }).toEqual({ lost: 0, leaked: 0 });
  });
});
