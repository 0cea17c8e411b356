/** Owns the implementation of the history commands for one group or one device. */
import type { SecurityGroup } from '../../api/group.ts';
import type { DevicePolicyState, GroupState } from '../../api/history/states.ts';
import { isUuid } from '../../policy/ids.ts';
import { allGroups, pickGroup } from '../lookup/group.ts';
import { writeOrAsk } from '../lookup/write-changes.ts';
import { allDevices, findDevice } from '../lookup/device.ts';
import { userNames } from '../lookup/resource.ts';
import type { Session } from '../session/session.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { type Paint, paintLine } from '../terminal/screen.ts';
import { shortTime } from '../terminal/time.ts';
import { printable } from '../../policy/names/printable.ts';
import { deviceChanges, groupChanges, type Line } from '../../client/words/changes.ts';
import { unseenGroup } from '../../client/words/sentence.ts';
import { printDryRun } from '../group/dry-run.ts';
import { peerNames } from '../group/peer-text.ts';
import { sayWarnings } from '../group/run.ts';

export interface HistoryOptions {
  readonly limit: string;
}

export function readLimit(text: string): number {
  if (!/^[1-9]\d{0,3}$/.test(text)) throw usageError(`\`${text}\` is not a number of entries from 1 to 9999`);
  return Number(text);
}

export function readRevision(text: string): number {
  if (!/^[1-9]\d{0,15}$/.test(text)) throw usageError(`\`${text}\` is not a revision: give one like 120`);
  return Number(text);
}

/** A revision that there is not yet would mean the present, and no mistake would be noticed. */
export async function refuseFuture(session: Session, ...revisions: readonly (number | undefined)[]): Promise<void> {
  if (revisions.every((one) => one === undefined)) return;
  const client = await session.client();
  const { revision: newest } = await client.organizations.get(await session.organization());
  if (revisions.some((one) => one !== undefined && one > newest))
    throw usageError(`the newest revision of the organization is ${newest}`);
}

/** The id of an existing group by its name or id. A deleted group is found by its id only. */
async function groupId(session: Session, text: string): Promise<string> {
  const groups = await allGroups(session);
  const deleted = isUuid(text) && !groups.some(({ id }) => id === text.toLowerCase());
  return deleted ? text.toLowerCase() : pickGroup(groups, text).id;
}

/** Each state with the lines that led to it from the one before, newest first, without the last where it only serves to compare. */
function withLines<State extends { readonly type: string }>(
  states: readonly State[],
  limit: number,
  lines: (before: State | undefined, after: State) => readonly Line[],
): readonly { readonly state: State; readonly lines: readonly Line[] }[] {
  return states.slice(0, limit).map((state, index) => ({ state, lines: lines(states[index + 1], state) }));
}

type AnyState = GroupState | DevicePolicyState;

function printStates<State extends AnyState>(
  session: Session,
  told: readonly { readonly state: State; readonly lines: readonly Line[] }[],
): Promise<void> {
  const block = ({ state, lines }: (typeof told)[number], paint: Paint): string => {
    const { revision, at, username, user_id, by_server, type } = state;
    const who = by_server ? 'the server' : printable(username ?? user_id ?? 'before the history starts');
    const head = `${paint('bold', `revision ${revision}`)}  ${shortTime(at)}  ${who}${type === 'delete' ? '  deleted' : ''}`;
    const none = type === 'delete' ? [] : [paint('dim', 'no rule or field changed')];
    const shown = type === 'delete' ? [] : lines.map((line) => paintLine(line, paint));
    return [head, ...(shown.length > 0 ? shown : none).map((line) => `  ${line}`)].map((line) => `${line}\n`).join('');
  };
  return session.print({
    data: told.map(({ state }) => state),
    ids: told.map(({ state }) => String(state.revision)),
    table: ({ paint }) => told.map((one) => block(one, paint)).join('\n'),
  });
}

/** The record of a state; undefined for a deletion. */
const standing = <Record>(state: { readonly type: string; readonly record: Record } | undefined): Record | undefined =>
  state === undefined || state.type === 'delete' ? undefined : state.record;

export async function groupHistory(session: Session, text: string, options: HistoryOptions): Promise<void> {
  const limit = readLimit(options.limit);
  const client = await session.client();
  const organization = await session.organization();
  // One more than is shown: the oldest is compared with it.
  const page = { limit: limit + 1 };
  const [states, devices] = await Promise.all([
    groupId(session, text).then((id) => client.history.group(organization, id, page)),
    allDevices(session),
  ]);
  const lines = (before: GroupState | undefined, after: GroupState): readonly Line[] =>
    groupChanges(standing(before), after.record, peerNames(devices));
  return printStates(session, withLines(states, limit, lines));
}

export async function deviceHistory(session: Session, text: string, options: HistoryOptions): Promise<void> {
  const limit = readLimit(options.limit);
  const client = await session.client();
  const organization = await session.organization();
  const [groups, userName, id] = await Promise.all([
    allGroups(session),
    userNames(session),
    isUuid(text) ? text.toLowerCase() : findDevice(session, text).then((device) => device.id),
  ]);
  const nameOf = groupNames(groups);
  const states = await client.history.device(organization, id, { limit: limit + 1 });
  const withUser = (policy: DevicePolicyState['record'] | undefined): object | undefined =>
    policy && { ...policy, ...(policy.user_id !== undefined && { user_id: userName(policy.user_id) }) };
  const lines = (before: DevicePolicyState | undefined, after: DevicePolicyState): readonly Line[] =>
    // A change of the name alone makes no state. Without this it would be attributed to the author of the next state.
    deviceChanges(withUser(standing(before)), withUser(after.record), nameOf, ['hostname']);
  return printStates(session, withLines(states, limit, lines));
}

/** Names groups by what they are called now. */
export const groupNames = (groups: readonly SecurityGroup[]): ((id: string) => string) => {
  const names = new Map<string, string>(groups.map(({ id, group_name }) => [id, group_name]));
  return (id) => names.get(id) ?? unseenGroup;
};

export async function groupDiff(session: Session, text: string, from?: string, to?: string): Promise<void> {
  const [older, newer] = [from, to].map((revision) => (revision === undefined ? undefined : readRevision(revision)));
  const client = await session.client();
  const organization = await session.organization();
  if (older !== undefined && newer !== undefined && older > newer) throw usageError('give the older revision first');
  await refuseFuture(session, older, newer);
  const id = await groupId(session, text);
  // A page begins below a revision: the state at N is the first of the page below N + 1.
  const stateAt = async (revision: number | undefined): Promise<GroupState | undefined> => {
    const after = revision === undefined ? {} : { after: String(revision + 1) };
    return (await client.history.group(organization, id, { limit: 1, ...after }))[0];
  };
  const last = await stateAt(newer);
  const first = older !== undefined ? await stateAt(older) : last && (await stateAt(last.revision - 1));
  const lines = groupChanges(standing(first), standing(last), peerNames(await allDevices(session)));
  const name = (last ?? first)?.record.group_name ?? text;
  return session.print({
    data: {
      group_id: id,
      from: first?.revision ?? null,
      to: last?.revision ?? null,
      changes: lines.map(([sign, line]) => ({ sign, text: line })),
    },
    ids: [id],
    table: ({ paint }) =>
      lines.length === 0
        ? `No differences in group ${printable(name)}.\n`
        : [
            paint(
              'bold',
              `group ${printable(name)}, revision ${first?.revision ?? 'none'} → ${last?.revision ?? 'none'}`,
            ),
            ...lines.map((line) => `  ${paintLine(line, paint)}`),
          ]
            .map((line) => `${line}\n`)
            .join(''),
  });
}

export async function restore(session: Session, text: string, revisionText: string): Promise<void> {
  const revision = readRevision(revisionText);
  const client = await session.client();
  const organization = await session.organization();
  const id = await groupId(session, text);
  const [now] = await client.history.group(organization, id, { limit: 1 });
  const [then] = await client.history.group(organization, id, { limit: 1, after: String(revision + 1) });
  const name = now?.record.group_name ?? text;
  if (then === undefined || then.type === 'delete')
    throw new CliError(
      'notFound',
      `group ${printable(name)} did not exist at revision ${revision}, or its history is not kept that long`,
    );
  const lines = groupChanges(standing(now), then.record, peerNames(await allDevices(session)));
  if (session.values.dryRun === true) return printDryRun(session, { before: standing(now), after: then.record });
  for (const [sign, line] of lines) session.say(`  ${sign} ${line}`);
  const question = `Restore group ${printable(name)} to revision ${revision}?`;
  if (!(await session.confirm(question))) return session.say('Nothing was changed.');
  const given = {
    ...(now !== undefined && { ifMatch: now.revision }),
    ...session.groupQuery,
  };
  const group = await writeOrAsk(session, (asked) =>
    client.history.restore(organization, id, { revision }, { ...given, ...asked }),
  );
  session.noteTrial(group);
  await session.printRecord(
    group,
    `Restored group ${group.group_name} (${group.id}) to revision ${revision}. The new revision is ${group.revision}.`,
  );
  sayWarnings(session, group);
}
