/** Proves that the writes which a dry run sends are exactly those that the server can judge without writing. */
import { expect, test } from 'vitest';
import { operations } from '../../api/operations.ts';
import { paths } from '../../api/paths.ts';
import { judgedOperations, judgedWrite } from './dry-run.ts';

const org = 'http://a.example/api/organizations/01a1ddc0-9c97-738b-af8b-619f0abce38f';

test('a dry run sends the writes that take `dry_run`, and no others', () => {
  const taken = Object.entries(operations).filter(([, row]) => 'query' in row && 'dry_run' in row.query.properties);
  expect([...judgedOperations].toSorted()).toEqual(taken.map(([id]) => id).toSorted());
  for (const [id, [method, path]] of Object.entries(paths)) {
    const url = `http://a.example${path.replaceAll(/\{\w+\}/g, 'x')}`;
    const isPreview = path.endsWith('/simulate');
    if (method === 'GET' || isPreview) expect(judgedWrite(url, { method })).toBeUndefined();
    else if (judgedOperations.has(id)) expect(judgedWrite(url, { method })?.url).toBe(`${url}?dry_run=true`);
    else expect(() => judgedWrite(url, { method })).toThrow('nothing was written');
  }
});

test('what is asked already as a preview is asked as it is', () => {
  expect(judgedWrite(`${org}/members/x?dry_run=true`, { method: 'DELETE' })).toBeUndefined();
});
