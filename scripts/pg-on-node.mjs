/**
 * Owns the answer to pg's question whether it runs at Cloudflare: no, in everything that is built for Node. pg finds out by making a web
 * Response, for which Node loads its whole HTTP client: a tenth of the server's start, and nothing else there needs it.
 */
import { readFile } from 'node:fs/promises';

const question = 'if (isCloudflareRuntime())';

/** @type {import('esbuild').Plugin} */
export const pgOnNode = {
  name: 'pg on Node',
  setup(building) {
    building.onLoad({ filter: /\/node_modules\/pg\/lib\/stream\.js$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8');
      if (!text.includes(question)) throw new Error(`${path} no longer asks where it runs: scripts/pg-on-node.mjs`);
      return { contents: text.replace(question, 'if (false)') };
    });
  },
};
