/**
 * Owns the overview of an organization (reference 4.12): the state of its fleet, the devices that need attention first,
 * and the state over time.
 */
import { mostUrgentFirst } from '../../../api/enforcement/in-force.ts';
import { mostUrgent, sampleSeconds, type Overview } from '../../../api/enforcement/overview.ts';
import type { PolicyTests } from '../../store/policy-tests/policy-tests.ts';
import { isTooCostly } from '../../problems.ts';
import type { OrganizationId } from '../../../policy/ids.ts';
import type { TestState } from '../../../policy/policy-test/policy-test.ts';
import type { EnforcementStatus } from '../../convergence/contract.ts';
import { record, type Handler } from '../call.ts';
import { countPending, pendingOf } from './convergence.ts';

/** A plot has room for no more; what is asked for longer comes in longer steps. */
const mostSamples = 288;

const secondsFor = (hours: number): number => sampleSeconds * Math.ceil((hours * 3_600) / sampleSeconds / mostSamples);

/** The worst first, then those that were last seen longest ago. */
function urgentOf(devices: readonly EnforcementStatus[]): readonly EnforcementStatus[] {
  const found: EnforcementStatus[] = [];
  for (const word of mostUrgentFirst) {
    if (word === 'yes' || found.length >= mostUrgent) break;
    const these = devices.filter(({ in_force }) => in_force === word);
    found.push(...these.toSorted((a, b) => ((a.last_seen_at ?? '') < (b.last_seen_at ?? '') ? -1 : 1)));
  }
  return found.slice(0, mostUrgent);
}

async function countTests(tests: PolicyTests, org: OrganizationId): Promise<Pick<Overview, 'policy_tests'>> {
  try {
    const { results } = await tests.read(org);
    const count = (word: TestState): number => results.filter(({ state }) => state === word).length;
    if (results.length === 0) return {};
    return { policy_tests: { passing: count('passing'), failing: count('failing'), vacuous: count('vacuous') } };
  } catch (cause) {
    if (!isTooCostly(cause)) throw cause;
    const not_judged = (await tests.list(org)).tests.length;
    return { policy_tests: { passing: 0, failing: 0, vacuous: 0, not_judged } };
  }
}

const read: Handler<'readOverview'> = async (call, { store, convergence, sampler, clock }) => {
  const { org_id } = call.params;
  const { hours = 24 } = call.query;
  const seconds = secondsFor(hours);
  const since = Math.floor((clock() - hours * 3_600_000) / (seconds * 1_000)) * seconds * 1_000;
  const [enforcementStatuses, tests, samples] = await Promise.all([
    convergence.read(org_id),
    call.principal.kind === 'user' ? countTests(store.policyTests, org_id) : undefined,
    store.samples.read(org_id, { since, seconds }),
  ]);
  const { revision, devices } = enforcementStatuses;
  const pending = devices.filter(({ in_force }) => in_force !== 'yes');
  sampler.see(org_id);
  return record({
    revision,
    ...countPending({ devices: devices.length, pending }),
    online: devices.filter(({ online }) => online).length,
    ...tests,
    urgent: urgentOf(pending).map(pendingOf),
    sample_seconds: seconds,
    samples,
  });
};

export const overviewHandlers = { readOverview: read } as const;
