/**
 * An agent in a process of its own that ends itself, as kill -9 would, at a given step. Policies come as lines of JSON.
 * Arguments: folder, interface, and where to end (`step` or `step:count`), or `never`.
 */
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { systemClock } from '../../client/clock.ts';
import { parseGroupId } from '../../policy/ids.ts';
import { soundRules } from '../state/last-good-policy.ts';
import { Agent } from './agent.ts';
import { parseSelector } from '../host/driver-interface.ts';
import { FilterMonitor } from '../kernel/filter-monitor.ts';
import { LinkMonitor } from '../host/link-monitor.ts';
import { NetlinkChannel } from '../netlink/channel.ts';
import { netlinkFlowTable } from '../netlink/flow-table.ts';
import { netlinkRouteTable } from '../netlink/route-table.ts';
import { RealNft } from '../kernel/real-nft.ts';
import { commandFlowTable } from '../host/command-flow-table.ts';
import { commandRouteTable } from '../host/command-route-table.ts';
import { revokeFlows } from '../host/revoke-flows.ts';
import { commandRunner } from '../host/run-command.ts';
import type { Knowledge, PolicySource } from '../source/policy-source.ts';
import { StateFolder } from '../state/state-folder.ts';

const [folder = '', name = '', where = 'never'] = process.argv.slice(2);
const [step = '', count = '1'] = where.split(':');
let left = Number(count);
const failpoint = (at: string): void => {
  if (at === step && --left === 0) process.kill(process.pid, 'SIGKILL');
};

class LineSource implements PolicySource {
  readonly connection = { phase: 'live', since: 0, failures: 0 };
  #knowledge: Knowledge = { kind: 'unknown', why: 'nothing was said yet' };
  #handler: () => void = () => {};
  read(): Knowledge {
    return this.#knowledge;
  }
  onChange(handler: () => void): () => void {
    this.#handler = handler;
    return () => {};
  }
  async run({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  }
  say(line: string): void {
    const { revision, inbound, outbound } = JSON.parse(line) as {
      revision: number;
      inbound: unknown;
      outbound: unknown;
    };
    const id = parseGroupId('00000000-0000-4000-8000-000000000001');
    const group = { id, name: 'test', inbound: soundRules(inbound), outbound: soundRules(outbound) };
    this.#knowledge = { kind: 'known', revision, policy: { source: 'list', groups: [group] } };
    this.#handler();
  }
}

const clock = systemClock;
const source = new LineSource();
const nft = new RealNft({ clock, scratch: folder });
const netlink = new NetlinkChannel({ clock });
const run = commandRunner([]);
const table = netlinkFlowTable(netlink, commandFlowTable(run));
const routes = netlinkRouteTable(netlink, commandRouteTable(run));
const end = new AbortController();
const agent = new Agent({
  nft,
  clock,
  source,
  selector: parseSelector(name),
  untilFirstPolicy: 'closed',
  monotonic: () => performance.now(),
  random: Math.random,
  log: (level, message) => process.stderr.write(`${level} ${message}\n`),
  state: new StateFolder({ folder: join(folder, 'state'), failpoint }),
  revoke: async (revocation, block) => {
    failpoint('before-revoke');
    const revoked = await revokeFlows({ routes, table, block }, revocation);
    failpoint('revoked');
    return revoked;
  },
  monitor: (onEvent) => new FilterMonitor({ clock, onEvent }),
  links: (onChange, onMoved) => new LinkMonitor({ clock, onChange, onMoved, onLost: () => {} }),
  failpoint,
  onStatus: ({ inForce, pending, troubles, verifiedAt }) => {
    const settled = !pending && verifiedAt !== undefined && troubles.length === 0;
    process.stdout.write(`${settled ? 'settled' : 'busy'} ${inForce?.revision ?? 0}\n`);
  },
});
createInterface({ input: process.stdin })
  .on('line', (line) => source.say(line))
  .on('close', () => end.abort());
await agent.run({ signal: end.signal });
await Promise.all([nft.close(), netlink.close()]);
