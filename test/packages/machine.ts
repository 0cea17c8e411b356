/** Owns a Debian machine for tests: real systemd in a container of its own, thrown away afterwards. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { mortal } from '../lib/mortal.ts';

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  /** Both outputs, as they came. */
  readonly output: string;
}

const bootScript = fileURLToPath(new URL('boot.sh', import.meta.url));
const environment = [
  'PATH=/usr/sbin:/usr/bin:/sbin:/bin',
  'HOME=/root',
  'LC_ALL=C.UTF-8',
  'DEBIAN_FRONTEND=noninteractive',
];

const textOf = (path: string): string => {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
};
const childrenOf = (pid: number): readonly number[] =>
  textOf(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number);
const nameOf = (pid: number): string => textOf(`/proc/${pid}/comm`).trim();

export class Machine {
  readonly #child: ChildProcess;
  readonly #work: string;
  #console = '';

  /** Of its root: nothing that happens in it is written there. */
  static async boot(root: string, repository: string): Promise<Machine> {
    const machine = new Machine(root, repository);
    await machine.#booted();
    return machine;
  }

  private constructor(root: string, repository: string) {
    this.#work = mkdtempSync(join(tmpdir(), 'ringfence-machine-'));
    const apart = ['--fork', '--pid', '--kill-child=KILL', '--mount-proc', '--mount', '--propagation', 'private'];
    this.#child = spawn(...mortal('unshare', [...apart, 'sh', bootScript, root, this.#work, repository]), {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const keep = (chunk: Buffer): void => void (this.#console = (this.#console + chunk.toString()).slice(-20_000));
    this.#child.stdout?.on('data', keep);
    this.#child.stderr?.on('data', keep);
  }

  /** What a shell script says in it. */
  async run(script: string): Promise<Outcome> {
    const leader = this.#leader();
    if (leader === undefined) throw new Error(`the machine does not run: ${this.#console}`);
    const args = ['-t', String(leader), '--all', 'env', '-i', ...environment, 'sh', '-c', script];
    const child = spawn(...mortal('nsenter', args), { stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => {
      stdout += chunk.toString();
      output += chunk.toString();
    });
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const [code] = (await once(child, 'close')) as [number | null];
    return { code: code ?? 255, stdout, output };
  }

  /** Its output without the last line's end; fails where the script does. */
  async ok(script: string): Promise<string> {
    const { code, stdout, output } = await this.run(script);
    if (code !== 0) throw new Error(`ended with ${code}: ${script}\n${output}\n${await this.#logs()}`);
    return stdout.trimEnd();
  }

  /** Runs the script again until it succeeds; a machine that is slow may take its time, one that hangs may not. */
  async until(script: string, { seconds = 60 }: { readonly seconds?: number } = {}): Promise<string> {
    const end = performance.now() + seconds * 1000;
    for (;;) {
      const { code, output } = await this.run(script);
      if (code === 0) return output.trimEnd();
      if (performance.now() > end)
        throw new Error(`not within ${seconds} s: ${script}\n${output}\n${await this.#logs()}`);
      await sleep(200);
    }
  }

  async write(path: string, text: string, mode = '0644'): Promise<void> {
    const encoded = Buffer.from(text).toString('base64');
    await this.ok(`mkdir -p "$(dirname ${path})" && echo ${encoded} | base64 -d >${path} && chmod ${mode} ${path}`);
  }

  async reboot(): Promise<void> {
    const before = this.#leader();
    await this.run('systemctl reboot');
    const end = performance.now() + 120_000;
    while (this.#leader() === before || this.#leader() === undefined) {
      if (performance.now() > end || this.#child.exitCode !== null) throw new Error(`no reboot: ${this.#console}`);
      await sleep(100);
    }
    await this.#booted();
  }

  async stop(): Promise<void> {
    const ended = once(this.#child, 'close');
    // Of the namespace's first process, so that everything in it ends.
    for (const pid of childrenOf(this.#child.pid ?? 0)) process.kill(pid, 'SIGKILL');
    await ended;
    rmSync(this.#work, { recursive: true, force: true });
  }

  async #logs(): Promise<string> {
    return (await this.run('journalctl -b --no-pager -n 60; systemctl --failed --no-pager')).output;
  }

  async #booted(): Promise<void> {
    const end = performance.now() + 120_000;
    for (;;) {
      const leader = this.#leader();
      const state = leader === undefined ? '' : (await this.run('systemctl is-system-running')).output.trim();
      if (state === 'running' || state === 'degraded') return;
      if (performance.now() > end || this.#child.exitCode !== null) {
        throw new Error(`the machine did not boot (${state}): ${this.#console}`);
      }
      await sleep(100);
    }
  }

  /** systemd of the machine: the child of nspawn. */
  #leader(): number | undefined {
    const search = (pid: number): number | undefined => {
      const below = childrenOf(pid);
      if (nameOf(pid) === 'systemd-nspawn') return below.find((each) => nameOf(each) === 'systemd');
      for (const each of below) {
        const found = search(each);
        if (found !== undefined) return found;
      }
      return undefined;
    };
    return this.#child.pid === undefined ? undefined : search(this.#child.pid);
  }
}
