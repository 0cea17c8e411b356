/** Owns the door to the web UI: until it is built, an honest page that says what there is instead. */
import type { FastifyInstance } from 'fastify';
import { page, pageHeaders } from './html.ts';

const placeholder = page(
  'Ringfence',
  `<h1>Ringfence</h1>
<p>The server is running. This build has no web interface yet.</p>
<ul>
<li><a href="/api/docs">The API, readable</a></li>
<li><a href="/api/openapi.json">The API as OpenAPI 3.1</a></li>
<li><a href="/readyz">Is it ready?</a></li>
</ul>`,
);

export function registerUi(app: FastifyInstance): void {
  app.get('/', (_request, reply) => reply.redirect('/ui/', 302));
  app.get('/ui', (_request, reply) => reply.redirect('/ui/', 302));
  app.get('/ui/', (_request, reply) => reply.headers(pageHeaders).send(placeholder));
}
