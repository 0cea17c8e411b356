/** Proves that the OpenAPI description is complete: every operation, every reference, every schema. */
import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { openApi } from './openapi.ts';
import { operationIds, paths } from './paths.ts';
import { signInPathIds, signInPaths } from './sign-in.ts';

const document = openApi();

test('every operation stands under its canonical path and method', () => {
  const found = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => `${operation['operationId'] as string} ${method} ${path}`),
  );
  const expected = operationIds.map((id) => `${id} ${paths[id][0].toLowerCase()} ${paths[id][1]}`);
  const signIn = signInPathIds.map((id) => `${id} ${signInPaths[id].method.toLowerCase()} ${signInPaths[id].path}`);
  expect(found.toSorted()).toEqual([...expected, ...signIn].toSorted());
});

test('every reference leads somewhere', () => {
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map((match) => match[1] ?? '');
  expect(references.length).toBeGreaterThan(50);
  for (const reference of references) {
    let here: unknown = document;
    for (const step of reference.split('/')) here = (here as Record<string, unknown>)[step];
    expect(here, reference).toBeTypeOf('object');
  }
});

test('every schema is a valid JSON Schema 2020-12, free of our own keywords', () => {
  const ajv = new Ajv2020({ strict: true, strictTypes: false, validateFormats: false });
  ajv.addKeyword('components');
  ajv.addSchema({ $id: 'https://ringfence.invalid/api', components: document.components as object });
  for (const name of Object.keys(document.components.schemas)) {
    const validate = ajv.getSchema(`https://ringfence.invalid/api#/components/schemas/${name}`);
    expect(validate, name).toBeTypeOf('function');
  }
});

test('every operation, parameter and tag has a description, and no tag is undeclared', () => {
  const described = (one: object): boolean =>
    'description' in one && typeof one.description === 'string' && one.description !== '';
  const declared = document['tags'] as readonly { readonly name: string }[];
  const names = declared.map(({ name }) => name);
  for (const methods of Object.values(document.paths)) {
    for (const { operationId, parameters = [], tags, ...operation } of Object.values(methods)) {
      const id = JSON.stringify(operationId);
      expect(described(operation), id).toBe(true);
      expect(
        (parameters as readonly object[]).filter((one) => !described(one)),
        id,
      ).toEqual([]);
      expect(names, id).toEqual(expect.arrayContaining(tags as string[]));
    }
  }
  expect(declared.filter((tag) => !described(tag))).toEqual([]);
  expect(document.info).toMatchObject({ license: { identifier: 'Apache-2.0' } });
});

test('an integer that may take more than 32 bits says so', () => {
  const large: string[] = [];
  const visit = (value: unknown, place: string): void => {
    if (typeof value !== 'object' || value === null) return;
    const { type, maximum = Infinity, format } = value as Readonly<Record<string, unknown>>;
    if (type === 'integer' && (maximum as number) > 2 ** 31 - 1 && format !== 'int64') large.push(place);
    for (const [name, inner] of Object.entries(value)) visit(inner, `${place}/${name}`);
  };
  visit([document.paths, document.components.schemas], '');
  expect(large).toEqual([]);
  expect(JSON.stringify(document.components.schemas['Device'])).toContain('"format":"int64"');
});

test('failures of the sign-in by browser are pages where a person sees them, and problem documents elsewhere', () => {
  const responses = document.paths['/api/auth/callback']?.['get']?.['responses'] as Record<string, object>;
  expect(responses['404']).toEqual({ $ref: '#/components/responses/404' });
  expect(responses['400']).toMatchObject({ content: { 'text/html': {} } });
});

test('every create takes an Idempotency-Key', () => {
  const creates = operationIds.filter((id) => paths[id][2] === 'created');
  expect(creates.length).toBeGreaterThan(10);
  for (const id of [...creates, 'applyChanges'] as const) {
    const [method, path] = paths[id];
    const operation = document.paths[path]?.[method.toLowerCase()];
    expect(operation?.['parameters'], id).toContainEqual(expect.objectContaining({ name: 'Idempotency-Key' }));
  }
});

test('a stream that goes both ways is described by its own status, with the headers that name the protocol', () => {
  const answers = (id: (typeof operationIds)[number]) =>
    document.paths[paths[id][1]]?.[paths[id][0].toLowerCase()]?.['responses'] as Record<string, unknown>;
  expect(operationIds.filter((id) => '101' in answers(id))).toEqual(['watchEvents']);
  const { 101: upgraded, 200: plain } = answers('watchEvents') as Record<string, { headers: object }>;
  expect(upgraded?.headers).toMatchObject({ Upgrade: { schema: { const: 'ringfence-watch' } }, Connection: {} });
  expect(upgraded?.headers).toMatchObject(plain?.headers ?? {});
  expect(upgraded).not.toHaveProperty('content');
});
