/** Proves that what is built for Node opens connections as pg does, and loads no HTTP client for it. */
import { execFileSync } from 'node:child_process';
import { build, type Plugin } from 'esbuild';
import { expect, test } from 'vitest';
import { pgOnNode } from './pg-on-node.mjs';

/** What pg's way to sockets gives in a process of its own, and whether that loaded Node's HTTP client. */
async function seen(plugins: Plugin[]): Promise<unknown> {
  const contents = `
    const { getStream, getSecureStream } = require('pg/lib/stream.js');
    const isClient = (name) => /undici/.test(name);
    const stream = getStream();
    console.log(JSON.stringify({
      isSocket: stream instanceof require('node:net').Socket,
      getSecureStream: typeof getSecureStream,
      client: process.moduleLoadList.some((name) => isClient(name)),
    }));`;
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: import.meta.dirname },
    bundle: true,
    platform: 'node',
    format: 'cjs',
    write: false,
    plugins,
  });
  return JSON.parse(execFileSync(process.execPath, ['-'], { input: outputFiles[0]?.text ?? '', encoding: 'utf8' }));
}

test('pg opens sockets without the HTTP client that it would load to find out where it runs', async () => {
  expect(await seen([pgOnNode])).toEqual({ isSocket: true, getSecureStream: 'function', client: false });
});
