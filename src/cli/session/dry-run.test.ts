/** Proves that a dry run sends exactly the writes that the server can judge without writing. */
import { expect, test } from 'vitest';
import { operationIds, paths } from '../../api/paths.ts';
import { operations } from '../../api/operations.ts';
import { judgedWrite } from './dry-run.ts';

const org = 'http://a.example/api/organizations/01a1ddc0-9c97-738b-af8b-619f0abce38f';

test('a dry run sends the writes that take `dry_run`, and no others', async () => {
  for (const id of operationIds) {
    const [method, path] = paths[id];
    const url = `http://a.example${path.replaceAll(/\{\w+\}/g, 'x')}`;
    const takesDryRun = operations[id].query?.properties['dry_run'] !== undefined;
    const judged = judgedWrite(url, { method });
    if (method === 'GET' || path.endsWith('/simulate')) expect(await judged).toBeUndefined();
    else if (takesDryRun) expect(await judged).toMatchObject({ url: `${url}?dry_run=true` });
    else await expect(judged).rejects.toThrow('nothing was written');
  }
});

test('what is asked already as a preview is asked as it is', async () => {
  expect(await judgedWrite(`${org}/members/x?dry_run=true`, { method: 'DELETE' })).toBeUndefined();
});
