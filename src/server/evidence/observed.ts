/** Owns what the server observed about a device in a span: receipts, samples of the fleet, refused traffic and policy tests. */
import type { EvidenceInForce, EvidenceReceipt, EvidenceTests, EvidenceTraffic } from '../../api/evidence/document.ts';
import type { Flow } from '../../api/flows/flow.ts';
import { sampleSeconds } from '../../api/enforcement/overview.ts';
import type { DeviceId, OrganizationId } from '../../policy/ids.ts';
import { isEnd } from '../../organization/policy-test/touched-ends.ts';
import { testResults } from '../../organization/policy-test/evaluate.ts';
import { testLimits, type PolicyTest } from '../../policy/policy-test/policy-test.ts';
import type { Organization } from '../../organization/organization.ts';
import { explainFlows } from '../explain/flows.ts';
import { newestFlows } from '../explain/newest-flows.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';
import type { StoredFlow } from '../store/data/flows.ts';
import type { Store } from '../store/open.ts';
import type { Reports } from './receipts.ts';

export interface ObservedSpan {
  readonly org: OrganizationId;
  readonly device: DeviceId;
  /** Milliseconds since 1970; equal for a moment. */
  readonly at: number;
  readonly to: number;
}

/** Snapshots with the moments from which on they hold, in the order of time. */
export type PastSnapshots = readonly { readonly from: number; readonly snapshot: Organization }[];

const text = (ms: number): string => new Date(ms).toISOString();

/** Up to this span the samples are those that are kept; of a longer one, an hour is one sample with its worst state. */
const fineSpanMs = 2 * 86_400_000;
const hourSeconds = 3_600;

/** Seconds of one sample. */
export const samplesOf = ({ at, to }: Pick<ObservedSpan, 'at' | 'to'>): number =>
  to - at > fineSpanMs ? hourSeconds : sampleSeconds;

export async function inForceOf(
  span: ObservedSpan,
  now: EvidenceReceipt | undefined,
  { samples }: Pick<Store, 'samples'>,
): Promise<EvidenceInForce> {
  const seconds = samplesOf(span);
  const first = Math.floor(span.at / (seconds * 1_000)) * seconds * 1_000;
  const read = await samples.read(span.org, { since: first, seconds });
  return {
    ...(now && { now }),
    samples: read.flatMap(({ at, devices, in_force }) =>
      devices === undefined || in_force === undefined || Date.parse(at) > span.to
        ? []
        : [{ at: text(Date.parse(at)), devices, in_force }],
    ),
  };
}

const hourMs = 3_600_000;
const mostFlows = 1_000;

export async function trafficOf(
  span: ObservedSpan,
  past: PastSnapshots,
  { statuses }: Pick<Reports, 'statuses'>,
  { store, slices }: { readonly store: Pick<Store, 'flows'>; readonly slices: SlicedWork },
): Promise<EvidenceTraffic> {
  const around = span.at === span.to ? hourMs : 0;
  const times = { since: text(span.at - around), until: text(span.to + around) };
  const query = { ...times, devices: [span.device], verdict: 'refused' as const, limit: mostFlows };
  const { flows: found, more } = await newestFlows(store, span.org, query);
  const own = statuses.get(span.device);
  const surroundings = own === undefined ? [] : [own];
  const refused: Flow[] = [];
  for (const [index, { snapshot, from }] of [...past.entries()].toReversed()) {
    const isHere = ({ until }: StoredFlow): boolean => {
      const time = Date.parse(until);
      return (time >= from || index === 0) && time < (past[index + 1]?.from ?? Number.POSITIVE_INFINITY);
    };
    refused.push(...(await slices.run(explainFlows(found.filter(isHere), { snapshot, statuses: surroundings }))));
  }
  const coverage = await store.flows.coverage(span.org, times.since, [span.device]);
  return {
    ...times,
    recorded: coverage
      .filter(({ day }) => day <= times.until.slice(0, 10))
      .map(({ day, refused_seconds, all_seconds, not_recorded }) => ({
        day,
        refused_seconds,
        all_seconds,
        not_recorded,
      })),
    refused,
    more,
  };
}

export async function testsOf(
  { org, device, to }: ObservedSpan,
  snapshot: Organization,
  { store: { evidence }, slices }: { readonly store: Pick<Store, 'evidence'>; readonly slices: SlicedWork },
): Promise<EvidenceTests> {
  const all = await evidence.testsAt(org, text(to));
  if (all === undefined) return { known: false, tests: [] };
  const own = snapshot.devices.get(device);
  const about =
    own === undefined
      ? []
      : all.filter(({ from, to: target }: PolicyTest) => isEnd(from, own.identity) || isEnd(target, own.identity));
  const results = await slices.run(testResults(snapshot, about, { most: testLimits.steps }));
  return {
    known: true,
    tests: about.map((test, index) => ({ ...test, ...(results[index] ?? { state: 'vacuous' as const }) })),
  };
}
