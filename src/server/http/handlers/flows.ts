/** Owns the operations about observed traffic (reference 4.17): what agents report, and what people read of it. */
import type { RequestProblem, RequestProblemCode } from '../../../api/codes.ts';
import type { Flow, FlowCoverage } from '../../../api/flows/flow.ts';
import type { FlowReport, FlowTuple, ReceivedFlows } from '../../../api/flows/flow-report.ts';
import { flowLimits, mostPackets } from '../../../api/limits.ts';
import { defaultAgentSettings, type AgentSettings } from '../../../api/organization.ts';
import { parseAddress, parseRange, type FamilyRange } from '../../../policy/address.ts';
import { hasPort, protocolNumber } from '../../../policy/flow/protocol.ts';
import { isUuid, parseDeviceId, parseGroupId, type DeviceId, type OrganizationId } from '../../../policy/ids.ts';
import { join, Problems } from '../../../policy/problem.ts';
import { explainFlows } from '../../explain/flows.ts';
import { policiesWith } from '../../usage/group-policies.ts';
import {
  readFlowCursor,
  type DecidingRule,
  type FlowBatch,
  type FlowFilter,
  type FlowSum,
  type ReportedRules,
  type StoredFlow,
} from '../../store/data/flows.ts';
import type { KnownClaims } from '../../usage/claimed-rules.ts';
import { textsThatFit } from '../../explain/texts-that-fit.ts';
import type { WorkBudget } from '../../scheduling/work-budget.ts';
import { record, type Call, type Handler, type OrganizationServices, type Services } from '../call.ts';
import { invalid, refuseInvalid } from '../../problems.ts';

const minute = 60_000;
const protocolsInWords = 'A protocol is tcp, udp, icmp, icmpv6 or a number up to 255.';

/** A sum with the place of its decision in the report. */
interface DecidedSum extends FlowSum {
  readonly decision: number | undefined;
}

function readTuple(tuple: FlowTuple, pointer: string, problems: Problems<RequestProblemCode>): DecidedSum | undefined {
  const { direction, verdict, packets, port, decision } = tuple;
  const far = parseAddress(tuple.far);
  const protocol = protocolNumber(tuple.protocol);
  if ('fault' in far) {
    problems.add(`${pointer}/far`, far.fault, () => `"${tuple.far}" ${far.reason}.`);
    return undefined;
  }
  if (protocol === undefined) {
    problems.add(`${pointer}/protocol`, 'unknown_protocol', () => protocolsInWords);
    return undefined;
  }
  const isPorted = hasPort(protocol);
  if (isPorted !== (port !== undefined)) {
    const detail = isPorted ? 'tcp and udp have a port.' : 'Only tcp and udp have a port.';
    problems.add(`${pointer}/port`, isPorted ? 'missing_field' : 'contradiction', () => detail);
    return undefined;
  }
  return { direction, verdict, family: far.family, far: far.value, protocol, port: port ?? 0, packets, decision };
}

/** A tuple in each step. */
function* readTuples(
  tuples: readonly FlowTuple[],
  problems: Problems<RequestProblemCode>,
): Generator<void, readonly DecidedSum[]> {
  const sums: DecidedSum[] = [];
  for (const [index, tuple] of tuples.entries()) {
    const sum = readTuple(tuple, `/tuples/${index}`, problems);
    if (sum !== undefined) sums.push(sum);
    yield;
  }
  return sums;
}

/** Problems of the report as a whole: its time, and how much it holds for that time. */
function boundProblems({ since, until }: FlowReport, sums: readonly FlowSum[]): readonly RequestProblem[] {
  const length = Date.parse(until) - Date.parse(since);
  if (length < 0 || length > flowLimits.minutesPerReport * minute) {
    const detail = `The time from since to until is at most ${flowLimits.minutesPerReport} minutes.`;
    return [{ pointer: '/until', code: 'out_of_range', detail }];
  }
  const most = flowLimits.tuplesPerMinute * Math.max(1, Math.ceil(length / minute));
  const counts = { in: { 4: 0, 6: 0 }, out: { 4: 0, 6: 0 } };
  for (const { direction, family } of sums) counts[direction][family] += 1;
  return (['in', 'out'] as const).flatMap((direction) =>
    ([4, 6] as const).flatMap((family): RequestProblem[] => {
      const count = counts[direction][family];
      const detail = `There are ${count} tuples (${direction} IPv${family}) and may be ${most}: ${flowLimits.tuplesPerMinute} per direction, family and minute.`;
      return count > most ? [{ pointer: '/tuples', code: 'too_many_items', detail }] : [];
    }),
  );
}

/** What the organization observes, and nothing else, whatever an agent sends. */
function observedOf(sums: readonly DecidedSum[], { observe }: AgentSettings): readonly DecidedSum[] {
  if (observe === 'all') return sums;
  return observe === 'refused' ? sums.filter(({ verdict }) => verdict === 'refused') : [];
}

const packetsOf = (sums: readonly FlowSum[]): number => sums.reduce((all, { packets }) => all + packets, 0);

/**
 * A device whose clock is ahead reports about now. What ended too long ago is only counted, as of now: no agent keeps it for so long, its hour may be added up
 * already, and nobody shall write another past. A clock that is far behind looks the same, because a report does not tell the time at which it is sent.
 */
function batchOf(
  { since, until, not_recorded }: FlowReport,
  sums: readonly DecidedSum[],
  { now, takenMs }: { readonly now: number; readonly takenMs: number },
): Omit<FlowBatch, 'observed' | 'sums'> & { readonly sums: readonly DecidedSum[] } {
  const text = (time: number): string => new Date(time).toISOString();
  const [from, to] = [Date.parse(since), Date.parse(until)];
  const reported = text(to);
  if (to < now - takenMs)
    return {
      reported,
      since: text(now),
      until: text(now),
      sums: [],
      not_recorded: Math.min(not_recorded + packetsOf(sums), mostPackets),
    };
  const ahead = Math.max(0, to - now);
  return { reported, since: text(from - ahead), until: text(to - ahead), sums, not_recorded };
}

/** Adds up what the device says of the rules of these sums: a sum, or a decision, in each step. */
function* rulesOf(
  sums: readonly DecidedSum[],
  { decisions = [] }: Pick<FlowReport, 'decisions'>,
  { groups, rules }: KnownClaims,
): Generator<void, ReportedRules> {
  const counts = new Map<DecidingRule, number>();
  const byDecision = new Map<number | undefined, number>();
  for (const { decision, packets } of sums) {
    byDecision.set(decision, (byDecision.get(decision) ?? 0) + packets);
    yield;
  }
  for (const [decision, packets] of byDecision) {
    yield;
    if (decision === undefined) continue;
    for (const place of new Set(decisions[decision])) {
      const rule = rules[place];
      if (rule !== undefined) counts.set(rule, Math.min((counts.get(rule) ?? 0) + packets, Number.MAX_SAFE_INTEGER));
    }
  }
  const unknown = byDecision.get(undefined) ?? 0;
  return { groups, rules: [...counts].map(([rule, packets]) => ({ ...rule, packets })), unknown };
}

/** Sums that are read before anybody else gets a turn: nearly every report has fewer. */
const atOnce = 256;

const report: Handler<'reportFlows'> = async (call, { store, clock, slices, claimedRules, onRefused }) => {
  const { org_id, device_id } = call.params;
  const problems = new Problems<RequestProblemCode>();
  const sums = await slices.run(readTuples(call.body.tuples, problems), { atOnce });
  refuseInvalid(join(problems, boundProblems(call.body, sums)));
  const settings = (await store.organizations.settings(org_id)) ?? defaultAgentSettings;
  const observed = observedOf(sums, settings);
  let received = 0;
  if (settings.observe === 'refused' || settings.observe === 'all') {
    const isAll = settings.observe === 'all' && call.body.observed === 'all';
    const times = { now: clock(), takenMs: store.flows.takenMs };
    const known = await claimedRules.read(org_id, device_id, call.body);
    const taken = batchOf(call.body, observed, times);
    const rules = known && (await slices.run(rulesOf(taken.sums, call.body, known), { atOnce }));
    const batch: FlowBatch = { ...taken, observed: isAll ? 'all' : 'refused', rules };
    const kept = await store.flows.report(org_id, device_id, batch, call.by);
    onRefused(org_id, kept.refused);
    received = kept.received;
  } else await store.flows.mayReport(org_id, device_id, call.by);
  const answer: ReceivedFlows = { device_id, received, settings };
  return record(answer);
};

/** Sums of a page unless the reader asks for another number. */
const defaultLimit = 100;

const asStored = { in: 'in', out: 'out', inbound: 'in', outbound: 'out' } as const;

/** Of the query, each with its place where it is wrong. */
async function filterOf(call: Call<'listFlows'>, { preview }: OrganizationServices): Promise<FlowFilter> {
  const { query, params } = call;
  const { direction, verdict, port } = query;
  const problems: RequestProblem[] = [];
  const protocol = query.protocol === undefined ? undefined : protocolNumber(query.protocol);
  if (query.protocol !== undefined && protocol === undefined) {
    problems.push({ pointer: '/protocol', code: 'unknown_protocol', detail: protocolsInWords });
  }
  if (query.after !== undefined && readFlowCursor(query.after) === undefined) {
    const detail = 'This is not the end of a page. Take `after` from the Link header of the page before.';
    problems.push({ pointer: '/after', code: 'out_of_range', detail });
  }
  let far: readonly FamilyRange[] | undefined;
  const isDevice: boolean = isUuid(query.far);
  if (query.far !== undefined && isDevice) {
    const device = (await preview.read(params.org_id, call.work)).devices.get(parseDeviceId(query.far));
    far = (device?.identity.addresses ?? []).map(({ family, value }) => ({ family, first: value, last: value }));
  } else if (query.far !== undefined) {
    const range = parseRange(query.far);
    if ('fault' in range) {
      problems.push({ pointer: '/far', code: range.fault, detail: `"${query.far}" ${range.reason}.` });
    } else far = [range];
  }
  if (problems.length > 0) throw invalid(problems);
  return { direction: direction && asStored[direction], verdict, protocol, port, far };
}

/** Whose traffic the caller may read: an owner all of it, a member that of its own devices. Undefined: of all devices. */
async function devicesOf(
  call: Call<'listFlows'> | Call<'readFlowCoverage'>,
  { store }: Pick<Services, 'store'>,
): Promise<readonly DeviceId[] | undefined> {
  const asked = call.query.device_id === undefined ? undefined : parseDeviceId(call.query.device_id);
  if (call.subjects.byOwner) return asked === undefined ? undefined : [asked];
  const own = await store.devices.ofUser(call.params.org_id, call.principal.user_id);
  return asked === undefined ? own : own.filter((id) => id === asked);
}

/** Of these devices, or of all, those that have the group. */
async function devicesWith(
  group: string,
  devices: readonly DeviceId[] | undefined,
  { call, preview }: { readonly call: Call<'listFlows'>; readonly preview: OrganizationServices['preview'] },
): Promise<readonly DeviceId[]> {
  const snapshot = await preview.read(call.params.org_id, call.work);
  const having = await policiesWith(snapshot, parseGroupId(group), call.work);
  return devices === undefined ? [...having.keys()] : devices.filter((id) => having.has(id));
}

/** Stored traffic with names and rules of now, in the same order. */
export async function shownFlows(
  org: OrganizationId,
  flows: readonly StoredFlow[],
  { preview, convergence }: Pick<OrganizationServices, 'preview' | 'convergence'>,
  work: WorkBudget,
): Promise<readonly Flow[]> {
  const observers = [...new Set(flows.map(({ device_id }) => device_id))];
  const survey = await convergence.survey(org);
  const statuses = await survey.enforcementStatuses(observers.filter((id) => survey.devices.has(id)));
  const snapshot = await preview.read(org, work);
  return work.run(explainFlows(flows, { snapshot, statuses }));
}

const list: Handler<'listFlows'> = async (call, services) => {
  const { store, preview } = services;
  const { org_id } = call.params;
  const { since, until, after, limit = defaultLimit } = call.query;
  const time = (text: string): string => new Date(Date.parse(text)).toISOString();
  const [filter, readable] = [await filterOf(call, services), await devicesOf(call, services)];
  const { group_id } = call.query;
  const devices = group_id === undefined ? readable : await devicesWith(group_id, readable, { call, preview });
  const asked = {
    ...filter,
    devices,
    ...(since !== undefined && { since: time(since) }),
    ...(until !== undefined && { until: time(until) }),
    after,
  };
  const { flows, next: nextOfAll } = await store.flows.page(org_id, { ...asked, limit });
  const shown = await call.work.run(textsThatFit(await shownFlows(org_id, flows, services, call.work)));
  const json = `[${shown.join(',')}]`;
  const isCut = shown.length < flows.length;
  const next = isCut ? (await store.flows.page(org_id, { ...asked, limit: shown.length })).next : nextOfAll;
  if (next === undefined) return { kind: 'list', json };
  const query = Object.entries({ ...call.query, limit, after: next }).map(([name, value]): [string, string] => [
    name,
    String(value),
  ]);
  return { kind: 'list', json, next: `${call.path}?${new URLSearchParams(query).toString()}` };
};

const dayMs = 86_400_000;

const coverage: Handler<'readFlowCoverage'> = async (call, services) => {
  const until = services.clock();
  const from = call.query.since === undefined ? until - dayMs : Date.parse(call.query.since);
  // Coverage is kept by the day.
  const since = new Date(Math.floor(Math.min(from, until) / dayMs) * dayMs).toISOString();
  const devices = await devicesOf(call, services);
  const rows = await services.store.flows.coverage(call.params.org_id, since, devices);
  const answer: FlowCoverage = {
    since,
    until: new Date(until).toISOString(),
    devices: new Set(rows.map(({ device_id }) => device_id)).size,
    not_recorded: rows.reduce((sum, { not_recorded }) => sum + not_recorded, 0),
  };
  return record(answer);
};

export const flowHandlers = { reportFlows: report, listFlows: list, readFlowCoverage: coverage } as const;
