/** Owns the commands that copy a group and rename one. */
import { findGroup } from '../lookup/group.ts';
import { askAboutLabels } from '../lookup/unknown-labels.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { printDryRun } from './dry-run.ts';
import { printChange, readSelectors, sayWarnings, updateGroup } from './run.ts';
import { askAboutName } from './same-name.ts';

export interface CopyOptions {
  readonly mine?: boolean;
  readonly appliesTo?: readonly string[];
}

/** The copy has the rules and the description. It applies to no device by label unless the person says so: a copy is mostly meant for other devices. */
export async function copy(session: Session, text: string, name: string, options: CopyOptions): Promise<void> {
  const client = await session.client();
  const {
    group_description,
    inbound_rules = [],
    outbound_rules = [],
    guardrail,
    mode,
  } = await findGroup(session, text);
  const applies_to = options.appliesTo === undefined ? [] : [...readSelectors(options.appliesTo)];
  if (guardrail !== undefined && applies_to.length === 0)
    throw usageError('a guardrail applies to devices by label: say to which the copy applies, with --applies-to');
  await askAboutLabels(session, { applies_to });
  const owner = options.mine === true ? { user_id: (await client.whoAmI()).id } : {};
  const body = {
    group_name: name,
    group_description,
    inbound_rules,
    outbound_rules,
    ...(applies_to.length > 0 && { applies_to }),
    ...(guardrail !== undefined && { guardrail }),
    ...(mode !== undefined && { mode }),
  };
  if (session.values.dryRun === true) return printDryRun(session, { after: { ...body, ...owner } });
  await askAboutName(session, name, owner);
  const api = options.mine === true ? client.userGroups : client.groups;
  return printChange(session, 'Created', await api.create(await session.organization(), body, session.groupQuery));
}

export async function rename(session: Session, text: string, name: string): Promise<void> {
  const group = await findGroup(session, text);
  if (group.group_name === name) throw usageError(`the group is already called ${name}`);
  const body = { group_name: name };
  if (session.values.dryRun === true) return printDryRun(session, { before: group, after: { ...group, ...body } });
  const { user_id } = group;
  await askAboutName(session, name, user_id === undefined ? {} : { user_id });
  const renamed = await updateGroup(await session.client(), group, body, {
    ifMatch: group.revision,
    ...session.groupQuery,
  });
  session.noteTrial(renamed);
  await session.printRecord(renamed, `Renamed group ${group.group_name} to ${renamed.group_name} (${renamed.id}).`);
  return sayWarnings(session, renamed);
}
