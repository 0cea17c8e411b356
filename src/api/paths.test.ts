/** Proves the paths of the operations and their aliases. */
import { expect, test } from 'vitest';
import { operations } from './operations.ts';
import { operationIds, pathFor, paths, pathsOf } from './paths.ts';

test('every operation answers under /api and bare', () => {
  for (const id of operationIds) {
    const all = pathsOf(id);
    expect(all[0]).toBe(paths[id][1]);
    const canonical = all.filter((path) => path.startsWith('/api/'));
    expect(all.filter((path) => !path.startsWith('/api/'))).toEqual(canonical.map((path) => path.slice(4)));
  }
});

test('user and users are the same segment in every user-scoped path', () => {
  expect(pathsOf('updateUserSecurityGroup')).toEqual([
    '/api/user/{org_id}/security_groups/{sg_id}',
    '/api/users/{org_id}/security_groups/{sg_id}',
    '/user/{org_id}/security_groups/{sg_id}',
    '/users/{org_id}/security_groups/{sg_id}',
  ]);
  expect(pathsOf('whoAmI')).toEqual(['/api/users/me', '/api/user/me', '/users/me', '/user/me']);
});

test('no two operations share a method and a path', () => {
  const all = operationIds.flatMap((id) => pathsOf(id).map((path) => `${paths[id][0]} ${path}`));
  expect(new Set(all).size).toBe(all.length);
});

test('a path is filled with its variables', () => {
  expect(pathFor('readDevice', { org_id: 'a', device_id: 'b/c' })).toBe('/api/organizations/a/devices/b%2Fc');
});

test('the table names every operation with its path variables and the statuses it can fail with', () => {
  expect(Object.keys(operations)).toEqual([...operationIds]);
  expect(operations.deleteSecurityGroup.params).toEqual(['org_id', 'sg_id']);
  expect(operations.deleteSecurityGroup.failures).toEqual([400, 401, 403, 404, 406, 409, 412, 422, 429, 503]);
  expect(operations.createDevice.status).toBe(201);
});
