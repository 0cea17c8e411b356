/** The rooms of the store, from the ground up: a part of the map in `test/layers.test.ts`. */
import type { Rooms } from './layers.ts';

export const storeRooms: Rooms = {
  'server/store/contract': {
    may: ['server', 'api', 'policy'],
    npm: [],
    node: false,
    why: 'what may be asked of the store, and what is promised; the rest of the server knows nothing else of it',
  },
  'server/store/postgres': {
    may: ['server/store/contract', 'policy'],
    npm: ['pg'],
    node: true,
    sql: true,
    why: 'connections, statements and failures; it knows no table',
  },
  'server/store/schema': {
    may: ['server/store/postgres', 'server/store/contract'],
    npm: ['pg'],
    node: true,
    sql: true,
    why: 'the tables, how they came to be, and conditions over them that others share',
  },
  'server/store/write': {
    may: ['server/store/schema', 'server/store/postgres', 'server/store/contract', 'api', 'policy'],
    npm: [],
    node: true,
    why: 'the order of writes, revisions and audit entries; it knows no kind of record',
  },
  'server/store/log': {
    may: [
      'server/store/write',
      'server/store/schema',
      'server/store/postgres',
      'server/store/contract',
      'api',
      'policy',
    ],
    npm: [],
    node: true,
    why: 'reads what writes left behind: the change log and the audit',
  },
  'server/store/devices': {
    may: ['server/store/write', 'server/store/schema', 'server/store/postgres', 'server/store/contract', 'policy'],
    npm: [],
    node: true,
    why: 'devices, the groups that they hold, and the keys that admit them',
  },
  'server/store/groups': {
    may: [
      'server/store/devices',
      'server/store/write',
      'server/store/schema',
      'server/store/postgres',
      'server/store/contract',
      'policy',
    ],
    npm: [],
    node: true,
    why: 'a deleted group is taken off its devices',
  },
  'server/store/accounts': {
    may: [
      'server/store/groups',
      'server/store/devices',
      'server/store/write',
      'server/store/schema',
      'server/store/postgres',
      'server/store/contract',
      'server',
      'policy',
    ],
    npm: [],
    node: true,
    why: 'users, organizations and credentials; whoever goes takes devices and groups along',
  },
  'server/store': {
    may: [
      'server/store/accounts',
      'server/store/groups',
      'server/store/devices',
      'server/store/log',
      'server/store/write',
      'server/store/schema',
      'server/store/postgres',
      'server/store/contract',
    ],
    npm: [],
    node: true,
    why: 'opens the store: puts its rooms together',
  },
};
