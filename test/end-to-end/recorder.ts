/**
 * Owns the kernel's own record of packets: which reached a device's filter and which passed it, so that silence can be
 * distinguished from a drop.
 */
import type { LabDevice } from '../../dev/lab/device.ts';
import { runQuickly } from '../lib/batch-runner.ts';
import { driverName } from '../../dev/lab/topology.ts';

/** Before everything, connection tracking included; and after every filter. */
const [first, last] = [-450, 100];
const stages = ['came-out', 'passed-out', 'came-in', 'passed-in'] as const;
export type Stage = (typeof stages)[number];

/** Listed in this order: what came is read before what passed, so a packet in between is not taken for dropped. */
const sets = (stage: Stage): string => `
  set ${stage}-ports { typeof meta l4proto . th sport . th dport; flags dynamic; size 65535; }
  set ${stage}-echo4 { typeof icmp id; flags dynamic; size 65535; }
  set ${stage}-echo6 { typeof icmpv6 id; flags dynamic; size 65535; }`;
const note = (stage: Stage): string => `
  chain note-${stage} {
    meta l4proto { tcp, udp } add @${stage}-ports { meta l4proto . th sport . th dport }
    icmp type echo-request add @${stage}-echo4 { icmp id }
    icmpv6 type echo-request add @${stage}-echo6 { icmpv6 id }
  }`;
const hooks = `
  chain a { type filter hook output priority ${first}; oifname "${driverName}" jump note-came-out; }
  chain b { type filter hook output priority ${last}; oifname "${driverName}" jump note-passed-out; }
  chain c { type filter hook prerouting priority ${first}; iifname "${driverName}" jump note-came-in; }
  chain d { type filter hook input priority ${last}; iifname "${driverName}" jump note-passed-in; }`;
const table = `table inet recorder {${['came-out', 'came-in', 'passed-out', 'passed-in'].map((each) => sets(each as Stage)).join('')}
${stages.map(note).join('')}
${hooks}
}
`;

export const startRecorder = async ({ namespace }: LabDevice): Promise<void> => {
  await namespace.run(['nft', '-f', '-'], table);
};

/** What identifies one probe in the notes. */
export const portsKey = (protocol: 'tcp' | 'udp', from: number, to: number): string => `${protocol} ${from} ${to}`;
export const echoKey = (family: 4 | 6, id: number): string => `echo${family} ${id}`;

export type Notes = ReadonlyMap<Stage, ReadonlySet<string>>;

interface Listing {
  readonly nftables: readonly {
    readonly set?: {
      readonly name: string;
      readonly elem?: readonly (number | { readonly concat: readonly unknown[] })[];
    };
  }[];
}

export async function readNotes({ namespace }: LabDevice): Promise<Notes> {
  const { stdout } = await runQuickly(namespace, ['nft', '-j', 'list', 'table', 'inet', 'recorder']);
  const notes = new Map<Stage, Set<string>>(stages.map((stage) => [stage, new Set()]));
  for (const { set } of (JSON.parse(stdout) as Listing).nftables) {
    const stage = stages.find((each) => set?.name.startsWith(`${each}-`));
    if (set === undefined || stage === undefined) continue;
    const kind = set.name.slice(stage.length + 1);
    for (const element of set.elem ?? []) {
      const key = typeof element === 'number' ? `${kind} ${element}` : element.concat.join(' ');
      notes.get(stage)?.add(key);
    }
  }
  return notes;
}
