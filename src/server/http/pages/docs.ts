/** Owns the readable API docs: one page without script, generated from the OpenAPI description. */
import type { FastifyInstance } from 'fastify';
import { allProblemCodes, errors } from '../../../api/codes.ts';
import { openApi, type OpenApi } from '../../../api/openapi.ts';
import { operations, type Operation } from '../../../api/operations.ts';
import { operationIds } from '../../../api/paths.ts';
import { signInPathIds, signInPaths } from '../../../api/sign-in.ts';
import { escape, page, pageHeaders, style } from './html.ts';

type Schema = Readonly<Record<string, unknown>>;

const code = (text: string): string => `<code>${escape(text)}</code>`;
/** Backticks are all the markup that our descriptions have. */
const prose = (text: unknown): string =>
  typeof text === 'string' ? escape(text).replace(/`([^`]+)`/g, '<code>$1</code>') : '';

/** A schema's type in a few words, with links to the records. */
function typeOf(schema: Schema): string {
  const reference = schema['$ref'];
  if (typeof reference === 'string') {
    const name = reference.split('/').at(-1) ?? '';
    return `<a href="#schema-${escape(name)}">${escape(name)}</a>`;
  }
  if (Array.isArray(schema['anyOf'])) return (schema['anyOf'] as Schema[]).map(typeOf).join(' or ');
  if (Array.isArray(schema['enum']))
    return (schema['enum'] as unknown[]).map((value) => code(JSON.stringify(value))).join(', ');
  if ('const' in schema) return code(JSON.stringify(schema['const']));
  if (schema['type'] === 'array') return `array of ${typeOf((schema['items'] ?? {}) as Schema)}`;
  const format = typeof schema['format'] === 'string' ? ` (${schema['format']})` : '';
  return escape(`${typeof schema['type'] === 'string' ? schema['type'] : 'any'}${format}`);
}

function rows(schema: Schema): string {
  const properties = (schema['properties'] ?? {}) as Record<string, Schema>;
  const required = (schema['required'] ?? []) as readonly string[];
  return Object.entries(properties)
    .map(
      ([name, inner]) =>
        `<tr><td>${code(name)}${required.includes(name) ? '' : '<br><small>optional</small>'}</td>` +
        `<td>${typeOf(inner)}</td><td>${prose(inner['description'])}</td></tr>`,
    )
    .join('');
}

function schemaSection([name, schema]: [string, Schema]): string {
  const alternatives = Array.isArray(schema['anyOf']) ? (schema['anyOf'] as Schema[]) : [schema];
  const tables = alternatives.map((one) =>
    one['properties'] === undefined ? `<p>${typeOf(one)}</p>` : `<table><tbody>${rows(one)}</tbody></table>`,
  );
  return `<h3 id="schema-${escape(name)}">${escape(name)}</h3><p>${prose(schema['description'])}</p>${tables.join('<p>or</p>')}`;
}

function operationSection(operation: Operation, document: OpenApi): string {
  const described = document.paths[operation.path]?.[operation.method.toLowerCase()] ?? {};
  const parameters = (described['parameters'] ?? []) as readonly Schema[];
  const body = described['requestBody'] as { content: Record<string, { schema: Schema }> } | undefined;
  const { status } = operation;
  const answer = ((described['responses'] ?? {}) as Record<string, Schema>)[status] ?? {};
  const content = Object.entries((answer['content'] ?? {}) as Record<string, { schema: Schema }>)[0];
  const failures = operation.failures.map((failed) => `<a href="#status-${failed}">${failed}</a>`).join(', ');
  const table = parameters
    .map(
      (parameter) =>
        `<tr><td>${code(String(parameter['name']))}<br><small>${escape(String(parameter['in']))}</small></td>` +
        `<td>${typeOf((parameter['schema'] ?? {}) as Schema)}</td>` +
        `<td>${prose(parameter['description'] ?? ((parameter['schema'] ?? {}) as Schema)['description'])}</td></tr>`,
    )
    .join('');
  const request = Object.values(body?.content ?? {})[0];
  return (
    `<h3 id="${operation.id}"><span class="method">${operation.method}</span> ${code(operation.path)}</h3>` +
    `<p>${prose(operation.summary)}.</p>` +
    (table === '' ? '' : `<table><tbody>${table}</tbody></table>`) +
    (request === undefined
      ? ''
      : `<p>Body: ${typeOf(request.schema)}${operation.bodyOptional ? ' (optional)' : ''}</p>`) +
    `<p>Answers ${status}${content === undefined ? '' : `: ${typeOf(content[1].schema)}`}. ${prose(answer['description'])} Fails with ${failures}.</p>`
  );
}

function errorSection(): string {
  const statuses = [...new Set(Object.values(errors).map(([status]) => status))];
  const lines = statuses.map((status) => {
    const codes = Object.entries(errors).filter(([, [of]]) => of === status);
    const meanings = codes.map(
      ([name, [, title]]) => `<span id="error-${name}">${code(name)}: ${escape(title)}.</span>`,
    );
    return `<tr id="status-${status}"><td>${status}</td><td>${meanings.join('<br>')}</td></tr>`;
  });
  const problems = Object.entries(allProblemCodes).map(
    ([name, meaning]) => `<tr><td>${code(name)}</td><td>${escape(meaning)}</td></tr>`,
  );
  return (
    `<p>Every failure is <code>application/problem+json</code>: <a href="#schema-Problem">Problem</a>. A 422 lists every problem found, ` +
    `each with a JSON pointer, a code and a sentence.</p><table><tbody>${lines.join('')}</tbody></table>` +
    `<details><summary>Codes of single problems</summary><table><tbody>${problems.join('')}</tbody></table></details>`
  );
}

/** The sign-in and sign-out of browsers, which are not operations. */
function signInSection(document: OpenApi): string {
  const lines = signInPathIds.map((id) => {
    const { method, path, summary, query } = signInPaths[id];
    const responses = Object.keys((document.paths[path]?.[method.toLowerCase()]?.['responses'] ?? {}) as object);
    const parameters = Object.entries(query).map(([name, text]) => `<br>${code(name)}: ${prose(text)}`);
    return (
      `<tr id="${id}"><td><span class="method">${method}</span> ${code(path)}</td>` +
      `<td>${prose(summary)}.${parameters.join('')}</td><td>${responses.join(', ')}</td></tr>`
    );
  });
  return `<h2 id="sign-in">Signing in</h2><table><tbody>${lines.join('')}</tbody></table>`;
}

function renderDocs(document: OpenApi): string {
  const tags = [...new Set(operationIds.map((id) => operations[id].tag))];
  const contents = tags.map((tag) => {
    const links = operationIds
      .filter((id) => operations[id].tag === tag)
      .map((id) => `<li><a href="#${id}">${prose(operations[id].summary)}</a></li>`);
    return `<h3>${escape(tag)}</h3><ul>${links.join('')}</ul>`;
  });
  const sections = tags.map(
    (tag) =>
      `<h2>${escape(tag.charAt(0).toUpperCase() + tag.slice(1))}</h2>` +
      operationIds
        .filter((id) => operations[id].tag === tag)
        .map((id) => operationSection(operations[id], document))
        .join(''),
  );
  const schemas = Object.entries(document.components.schemas as Record<string, Schema>).map(schemaSection);
  return page(
    'Ringfence API',
    `<h1>Ringfence API ${prose(document.info['version'])}</h1>
<p>${prose(document.info['description'])} The same as a file: <a href="/api/openapi.json">openapi.json</a>.</p>
<pre>curl -H "Authorization: Bearer $RINGFENCE_TOKEN" ${escape('http://127.0.0.1:8080/api/users/me')}</pre>
<nav><h2>Contents</h2>${contents.join('')}<ul><li><a href="#sign-in">Signing in</a></li><li><a href="#errors">Errors</a></li><li><a href="#schemas">Records</a></li></ul></nav>
${sections.join('')}
${signInSection(document)}
<h2 id="errors">Errors</h2>${errorSection()}
<h2 id="schemas">Records</h2>${schemas.join('')}`,
  );
}

export function registerDocs(app: FastifyInstance): void {
  // Written when somebody first reads it: most processes start, serve and end without.
  let document: OpenApi | undefined;
  let json: string | undefined;
  let html: string | undefined;
  const described = (): OpenApi => (document ??= openApi());
  app.get('/api/openapi.json', (_request, reply) =>
    reply.type('application/json; charset=utf-8').send((json ??= JSON.stringify(described()))),
  );
  app.get('/api/docs', (_request, reply) => reply.headers(pageHeaders).send((html ??= renderDocs(described()))));
  app.get('/api/docs/style.css', (_request, reply) => reply.type('text/css; charset=utf-8').send(style));
}
