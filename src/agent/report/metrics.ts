/**
 * Owns the agent's metrics in the Prometheus text format (version 0.0.4). They are few, so the agent needs no library
 * for them.
 */
import type { StatusDocument } from './status-document.ts';

type Labels = Readonly<Record<string, string>>;
type Kind = 'gauge' | 'counter';

interface Metric {
  readonly name: string;
  readonly kind: Kind;
  readonly help: string;
  readonly samples: readonly { readonly labels?: Labels; readonly value: number }[];
}

export const metricsContentType = 'text/plain; version=0.0.4; charset=utf-8';

const escapeLabel = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');

function printMetric({ name, kind, help, samples }: Metric): string {
  const lines = samples.map(({ labels = {}, value }) => {
    const pairs = Object.entries(labels).map(([key, text]) => `${key}="${escapeLabel(text)}"`);
    return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}`;
  });
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${kind}`, ...lines, ''].join('\n');
}

const one = (name: string, kind: Kind, help: string, value: number | undefined): Metric => ({
  name: `ringfence_agent_${name}`,
  kind,
  help,
  samples: value === undefined ? [] : [{ value }],
});
const directions = ['inbound', 'outbound'] as const;
const units = ['packets', 'bytes'] as const;

/** What is counted, once as packets and once as bytes. A direction that counts nothing has no samples. */
function counters({ policy, packets }: StatusDocument): Metric[] {
  return units.flatMap((unit): Metric[] => [
    {
      name: `ringfence_agent_group_${unit}_total`,
      kind: 'counter',
      help: `${unit === 'packets' ? 'Packets' : 'Bytes of packets'} that a rule of the group admitted: the first of each connection.`,
      samples: policy.groups.flatMap(({ id, name, ...group }) =>
        directions.flatMap((direction) => {
          const count = group[`admitted_${direction}`];
          return count === undefined ? [] : [{ labels: { direction, group: id, name }, value: count[unit] }];
        }),
      ),
    },
    {
      name: `ringfence_agent_${unit}_total`,
      kind: 'counter',
      help: `${unit === 'packets' ? 'Packets' : 'Bytes of packets'} of established connections, of neighbour discovery, and refused ones.`,
      samples: directions.flatMap((direction) =>
        Object.entries(packets[direction] ?? {}).map(([reason, count]) => ({
          labels: { direction, fate: reason },
          value: count[unit],
        })),
      ),
    },
  ]);
}

const seconds = (at: string | undefined): number | undefined => (at === undefined ? undefined : Date.parse(at) / 1_000);
const flag = (is: boolean): number => (is ? 1 : 0);

/** The metrics in their text form. One that is not known yet is left out, never 0. */
export function printMetrics(status: StatusDocument, { residentBytes }: { readonly residentBytes: number }): string {
  const { policy, stream, drift } = status;
  const rules = (direction: 'inbound' | 'outbound') => ({
    labels: { direction },
    value: policy.groups.reduce((sum, group) => sum + group[`${direction}_rules`], 0),
  });
  const metrics: readonly Metric[] = [
    {
      name: 'ringfence_agent_info',
      kind: 'gauge',
      help: 'Version, organization, device and interface of the agent.',
      samples: [
        {
          labels: {
            version: status.version,
            organization: status.organization,
            device: status.device ?? '',
            interface: status.interface.name ?? '',
          },
          value: 1,
        },
      ],
    },
    one('start_time_seconds', 'gauge', 'Time when the agent started.', seconds(status.started_at)),
    one(
      'resident_memory_bytes',
      'gauge',
      'Resident memory of the agent, without the programs that it runs.',
      residentBytes,
    ),
    one('interface_present', 'gauge', 'Whether the driver interface exists.', flag(status.interface.present)),
    one('policy_revision', 'gauge', 'Newest revision that the rules in force reflect.', policy.revision),
    one('policy_in_force', 'gauge', 'Whether the policy of a server is in force.', flag(isPolicy(policy.origin))),
    one('policy_pending', 'gauge', 'Whether a newer policy waits to be applied.', flag(policy.pending)),
    one(
      'policy_held',
      'gauge',
      'Whether the agent cannot apply the policy of the server and keeps the last good one.',
      flag(status.held !== undefined),
    ),
    one('policy_groups', 'gauge', 'Groups in force.', policy.groups.length),
    {
      name: 'ringfence_agent_policy_rules',
      kind: 'gauge',
      help: 'Rules in force.',
      samples: [rules('inbound'), rules('outbound')],
    },
    one('applied_time_seconds', 'gauge', 'Time when the agent last applied rules.', seconds(policy.applied_at)),
    one(
      'verified_time_seconds',
      'gauge',
      'Time when the agent last verified the rules in the kernel.',
      seconds(policy.verified_at),
    ),
    one('applies_total', 'counter', 'Number of times the agent applied rules.', status.applies),
    one(
      'drift_repairs_total',
      'counter',
      'Number of times the agent repaired changes by other programs.',
      drift.repaired,
    ),
    one(
      'revoked_connections_total',
      'counter',
      'Connections that the agent ended because their rule was removed.',
      status.revoked_connections,
    ),
    one(
      'ended_connections',
      'gauge',
      'Ended connections whose packets are dropped until both sides are silent.',
      status.ended_connections,
    ),
    one('troubles', 'gauge', 'Steps that currently fail.', status.troubles.length),
    one('stream_live', 'gauge', 'Whether the stream from the server is live.', flag(stream.phase === 'live')),
    one('stream_failures', 'gauge', 'Failed attempts since the stream was last live.', stream.failures),
    ...counters(status),
  ];
  return metrics.map(printMetric).join('');
}

const isPolicy = (origin: StatusDocument['policy']['origin']): boolean => origin === 'server' || origin === 'kept';
