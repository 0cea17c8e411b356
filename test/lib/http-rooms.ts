/** The rooms of HTTP, from the port to the application: a part of the map in `test/layers.test.ts`. */
import type { Rooms } from './layers.ts';

/** The packages that serve HTTP. */
export const service = ['fastify', 'fastify-plugin', '@fastify/', 'typebox', 'pino', 'prom-client'];

/** What all rooms of HTTP may know of each other. */
const httpBasics = ['server/http/observe', 'server/http/request', 'server/http'];

export const httpRooms: Rooms = {
  'server/http/listener': {
    may: ['server/limits'],
    npm: [],
    node: true,
    why: 'the port; it knows nothing of what is served',
  },
  'server/http': {
    may: [
      'server/limits',
      'server/scheduling',
      'node',
      'server/store/contract',
      'server/convergence',
      'server/preview',
      'server/usage',
      'server/identity',
      'api',
      'organization',
      'policy',
    ],
    npm: service,
    node: true,
    why: 'what a request is to a handler, and how failures are answered: all rooms of HTTP share it',
  },
  'server/http/request': {
    may: ['server/limits', 'server/options', 'server/http', 'api', 'policy'],
    npm: service,
    node: true,
    why: 'reads one part of a request each, and decides nothing',
  },
  'server/http/observe': {
    may: [
      'server/options',
      'server/http/request',
      'server/http',
      'server/identity',
      'server/store/contract',
      'node',
      'policy',
      'api',
    ],
    npm: service,
    node: true,
    why: 'what is recorded of requests: log, metrics, audit entries',
  },
  'server/http/guard': {
    may: [
      'server/limits',
      'server/options',
      'server/scheduling',
      ...httpBasics,
      'server/identity',
      'server/store/contract',
      'api',
      'policy',
    ],
    npm: service,
    node: true,
    why: 'who may do what; it decides before any handler runs',
  },
  'server/http/pages': {
    may: [...httpBasics, 'api'],
    npm: service,
    node: true,
    why: 'what is read without an operation: UI, docs, health',
  },
  'server/http/handlers': {
    may: [
      'server/explain',
      'server/preview',
      'server/usage',
      'server/evidence',
      'node',
      'server/limits',
      'server/scheduling',
      'server/http/guard',
      'server/http/observe',
      'server/http/pages',
      'server/http/request',
      'server/http',
      'server/identity',
      'server/store/contract',
      'server/convergence',
      'server/watch',
      'api',
      'organization',
      'policy',
    ],
    npm: service,
    node: true,
    why: 'one function an operation; each runs after the guard',
  },
  'server/http/routes.ts': {
    may: ['server/http/guard', 'server/http/handlers', ...httpBasics, 'server/scheduling', 'server/identity', 'api'],
    npm: service,
    node: true,
    why: 'leads every path through guard, body and handler',
  },
  'server/http/app.ts': {
    may: [
      'server/limits',
      'server/scheduling',
      'server/http/routes.ts',
      'server/http/guard',
      'server/http/handlers',
      'server/http/listener',
      'server/http/observe',
      'server/http/pages',
      'server/http/request',
      'server/http',
      'server/identity',
      'api',
    ],
    npm: service,
    node: true,
    why: 'the application: hooks, the one error edge, every route',
  },
};
