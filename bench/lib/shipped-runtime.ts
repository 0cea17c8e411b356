/** Owns the runtime that the packages bring along, and programs on it with the agent's environment: what is measured is what runs on a device. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { runtime } from '../../scripts/packaging/runtime.mjs';
import { heapEnvironment } from '../../src/agent/host/runtime.ts';

/** Puts it into the folder; answers with its path. */
export function shippedRuntime(folder: string): string {
  const file = join(folder, 'node');
  writeFileSync(file, runtime(process.arch === 'arm64' ? 'arm64' : 'amd64').program);
  chmodSync(file, 0o755);
  // As after a boot: of a file that was just written, the kernel maps 20 MB more than of one that it read.
  execFileSync('sync', [file]);
  execFileSync('dd', [`if=${file}`, 'of=/dev/null', 'iflag=nocache', 'count=0', 'status=none']);
  return file;
}

/** Runs this very benchmark on that runtime as the agent's unit would, with other arguments: gives it the text, and reads its answer as JSON. */
export async function askOnShipped(node: string, args: readonly string[], text = ''): Promise<unknown> {
  const [, program = ''] = process.argv;
  const child = spawn(node, [program, ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...heapEnvironment, NODE_COMPILE_CACHE: join(dirname(node), 'compile-cache') },
  });
  child.stdin.end(text);
  let answer = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => (answer += part));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`);
  return JSON.parse(answer) as unknown;
}
