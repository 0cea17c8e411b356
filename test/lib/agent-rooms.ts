/** The rooms of the agent, and what they know of the ruleset: a part of the map in `test/layers.test.ts`. */
import type { Rooms } from './layers.ts';

/** All of the ruleset: its data, how it is made, read back and changed. */
export const ruleset = ['nft/plan', 'nft/read', 'nft/compile', 'nft'];

export const agentRooms: Rooms = {
  'agent/host': {
    may: ['node', 'client', 'nft/compile', 'nft', 'policy'],
    npm: [],
    node: true,
    processes: true,
    why: 'the machine around the packet filter: helper programs, locks, interfaces, tracked connections',
  },
  'agent/netlink': {
    may: ['agent/host', 'node', 'client', 'nft/compile', 'nft', 'policy'],
    npm: [],
    node: true,
    processes: true,
    why: 'messages to the kernel itself, where a program would take too long; whatever it does, a program can do too',
  },
  'agent/kernel': {
    may: ['agent/netlink', 'agent/host', 'node', 'client', ...ruleset, 'policy'],
    npm: [],
    node: true,
    processes: true,
    why: 'the only room that talks to nft; it knows neither server nor disk',
  },
  'agent/state': {
    may: ['agent/kernel', 'node', 'nft', 'policy'],
    npm: [],
    node: true,
    why: 'what outlives a restart; it must be readable without the server',
  },
  'agent/source': {
    may: ['agent/state', 'agent/host', 'node', 'client', 'policy', 'api'],
    npm: [],
    node: true,
    why: 'who this device is and what the server says; it knows nothing of the kernel',
  },
  'agent/loop': {
    may: ['agent/kernel', 'agent/host', 'agent/state', 'agent/source', 'client', ...ruleset, 'policy'],
    npm: [],
    node: true,
    why: 'decides and takes one step at a time through the rooms below; it starts no process and opens no file itself',
  },
  'agent/report': {
    may: [
      'agent/loop',
      'agent/kernel',
      'agent/host',
      'agent/state',
      'agent/source',
      'node/lock.ts',
      'node',
      'client',
      'nft',
      'policy',
      'api',
    ],
    npm: [],
    node: true,
    why: 'shows what the loop did to operators, metrics and the server; the loop works without it',
  },
  agent: {
    may: [
      'agent/report',
      'agent/loop',
      'agent/kernel',
      'agent/netlink',
      'agent/host',
      'agent/state',
      'agent/source',
      'node/lock.ts',
      'node',
      'client',
      'nft',
      'policy',
      'api',
    ],
    npm: [],
    node: true,
    why: 'puts the agent together; it ships small, drives the kernel, and must work without the server',
  },
};
