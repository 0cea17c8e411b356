/** The rooms of the server that know whether the policy is in force, and tell of it: a part of the map in `test/layers.test.ts`. */
import type { Rooms } from './layers.ts';

export const enforcementRooms: Rooms = {
  'server/presence': {
    may: ['server/store/contract', 'server/watch', 'policy'],
    npm: [],
    node: true,
    why: 'which devices hold a stream of this process; the streams report to it',
  },
  'server/convergence': {
    may: ['server/scheduling', 'server/store/contract', 'api', 'policy'],
    npm: [],
    node: true,
    why: 'whether the policy is in force: receipts held against the log; it knows no route and no stream',
  },
  'server/explain': {
    may: ['server/scheduling', 'server/store/contract', 'server/convergence', 'api', 'organization', 'policy'],
    npm: [],
    node: true,
    why: 'whether a connection is allowed, and why; it reads the policy and the receipts, and knows no route',
  },
  'server/preview': {
    may: ['server/scheduling', 'server/store/contract', 'server/convergence', 'api', 'organization', 'policy'],
    npm: [],
    node: true,
    why: 'what a change would mean before it is written; it knows no route',
  },
  'server/usage': {
    may: [
      'server/scheduling',
      'server/store/contract',
      'server/convergence',
      'server/explain',
      'api',
      'organization',
      'policy',
    ],
    npm: [],
    node: true,
    why: 'what observed traffic says of groups, in the words of an explanation; it knows no route',
  },
  'server/evidence': {
    may: [
      'server/scheduling',
      'server/store/contract',
      'server/convergence',
      'server/explain',
      'node',
      'client',
      'api',
      'organization',
      'policy',
    ],
    npm: [],
    node: true,
    why: 'what is known of a device at a past time; its page has the words of the command line; it knows no route',
  },
  'server/trials': {
    may: ['server/store/contract'],
    npm: [],
    node: true,
    why: 'ends in time what nobody has confirmed; it knows no route',
  },
  'server/audit-log': {
    may: ['server/lifecycle', 'server/options', 'server/store/contract', 'node', 'policy'],
    npm: [],
    node: true,
    processes: true,
    why: 'writes what was committed for other programs to read; it starts the program that hands lines to journald or syslog',
  },
  'server/webhooks': {
    may: ['server/limits', 'server/scheduling', 'node', 'server/store/contract', 'server/convergence', 'api', 'policy'],
    npm: ['prom-client'],
    node: true,
    why: 'looks for what is to be told and sends it; knows nothing of routes',
  },
};
