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
    may: ['server/store/contract', 'server', 'api', 'policy'],
    npm: [],
    node: true,
    why: 'whether the policy is in force: receipts held against the log; it knows no route and no stream',
  },
  'server/webhooks': {
    may: ['node', 'server/store/contract', 'server/convergence', 'server', 'api', 'policy'],
    npm: ['prom-client'],
    node: true,
    why: 'looks for what is to be told and sends it; knows nothing of routes',
  },
};
