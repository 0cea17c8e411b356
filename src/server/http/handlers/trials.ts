/** Owns the operations on trials (reference 4.15): what is being tried, the state of its devices, and how it ends. */
import { type Trial, UpdateTrial } from '../../../api/trial/trials.ts';
import { check } from '../../../api/validate.ts';
import { mayApplyByLabel } from '../../../policy/effective.ts';
import type { DeviceId, OrganizationId } from '../../../policy/ids.ts';
import type { EnforcementStatus, Survey } from '../../convergence/contract.ts';
import { isTried } from '../../../policy/trial/trial.ts';
import type { TrialRecord } from '../../store/data/trials.ts';
import type { GroupRecord } from '../../store/data/records.ts';
import { record, type Handler, type Services, type SharedServices } from '../call.ts';
import { refuseInvalid } from '../../problems.ts';
import { answerList } from '../request/paging.ts';
import { readScope } from '../request/trial.ts';

/** The most devices, and the most policy tests, that one answer names. */
const mostTrouble = 100;
const mostTests = 20;

/** The devices in scope that the change may concern: those that have a group of it, had one before, or whose list it changes. */
function devicesOf(trial: TrialRecord, survey: Survey, groups: readonly GroupRecord[]): readonly DeviceId[] {
  const [ids, lists] = [new Set<string>(trial.security_groups), new Set<string>(trial.devices)];
  return [...survey.devices.values()].flatMap(({ id, identity: { labels } }) => {
    if (!isTried(trial, labels)) return [];
    const concerned =
      lists.has(id) ||
      survey.groupsOn(id)?.some((group) => ids.has(group.id)) === true ||
      groups.some(({ trial: tried }) => mayApplyByLabel({ appliesTo: tried?.before?.applies_to }, labels));
    return concerned ? [id] : [];
  });
}

/** Failed, or away since the trial began. */
const isTrouble = ({ in_force, online, last_seen_at = '' }: EnforcementStatus, started_at: string): boolean =>
  in_force === 'failed' ||
  in_force === 'reverted' ||
  in_force === 'not_understood' ||
  (!online && last_seen_at >= started_at);

function enforcementOf(statuses: readonly EnforcementStatus[], started_at: string): NonNullable<Trial['enforcement']> {
  const count = (word: EnforcementStatus['in_force']): number =>
    statuses.filter(({ in_force }) => in_force === word).length;
  const trouble = statuses.filter((status) => isTrouble(status, started_at));
  return {
    devices: statuses.length,
    in_force: count('yes'),
    behind: count('behind'),
    failed: count('failed'),
    reverted: count('reverted'),
    offline: count('offline'),
    never_seen: count('never_seen'),
    not_understood: count('not_understood'),
    trouble: trouble.slice(0, mostTrouble).map(({ device_id, hostname, in_force, online, last_seen_at, detail }) => ({
      device_id,
      hostname,
      in_force,
      online,
      ...(last_seen_at !== undefined && { last_seen_at }),
      ...(detail !== undefined && { detail }),
    })),
    ...(trouble.length > mostTrouble && { more_trouble: trouble.length - mostTrouble }),
  };
}

/** The policy tests that fail now, and not only once a trial ends. A trial is kept in spite of them only by a person who has seen them. */
async function failingTests(
  org: OrganizationId,
  store: Services['store'],
): Promise<Pick<Trial, 'failing_tests' | 'more_failing_tests'>> {
  const failing = (await store.policyTests.failing(org)).filter(({ until }) => until === undefined);
  if (failing.length === 0) return {};
  return {
    failing_tests: failing.slice(0, mostTests).map(({ test, failure }) => ({ ...test, state: 'failing', failure })),
    ...(failing.length > mostTests && { more_failing_tests: failing.length - mostTests }),
  };
}

async function answerOf(
  org: OrganizationId,
  trial: TrialRecord,
  { store, convergence }: Pick<SharedServices, 'store' | 'convergence'>,
): Promise<Trial> {
  if (trial.state !== 'pending') return trial;
  const groups = await store.groups.find(org, trial.security_groups);
  const survey = await convergence.survey(org);
  const devices = devicesOf(
    trial,
    survey,
    groups.map((group) => group.record),
  );
  const enforcement = enforcementOf(await survey.enforcementStatuses(devices), trial.started_at);
  return { ...trial, enforcement, ...(await failingTests(org, store)) };
}

const show = { id: ({ id }: Trial) => id, json: (trial: Trial) => JSON.stringify(trial) };

const list: Handler<'listTrials'> = (call, services) =>
  answerList<Trial>(
    call,
    async (part) => {
      const { org_id } = call.params;
      const trials = await services.store.trials.list(org_id, part);
      // One after the other: each looks at all devices, and others are served in between.
      const answers: Trial[] = [];
      for (const trial of trials) answers.push(await answerOf(org_id, trial, services));
      return answers;
    },
    show,
  );

const read: Handler<'readTrial'> = async (call, services) => {
  const { org_id, trial_id } = call.params;
  return record(await answerOf(org_id, await services.store.trials.get(org_id, trial_id), services));
};

const widen: Handler<'widenTrial'> = async (call, services) => {
  const { org_id, trial_id } = call.params;
  const body: unknown = call.body;
  refuseInvalid(check(UpdateTrial, body));
  const { scope } = body as { readonly scope: unknown };
  const selectors = scope === null ? undefined : readScope(scope);
  const trial = await services.store.trials.widen(org_id, call.by, trial_id, selectors, call.query);
  return record(await answerOf(org_id, trial, services));
};

const confirm: Handler<'confirmTrial'> = async (call, { store }) =>
  record(await store.trials.confirm(call.params.org_id, call.by, call.params.trial_id, call.query));

const revert: Handler<'revertTrial'> = async (call, { store }) => {
  const { org_id, trial_id } = call.params;
  const records = call.body.records?.map((id) => id.toLowerCase());
  return record(await store.trials.revert(org_id, call.by, trial_id, { records }));
};

export const trialHandlers = {
  listTrials: list,
  readTrial: read,
  widenTrial: widen,
  confirmTrial: confirm,
  revertTrial: revert,
} as const;
