/** Owns the names of the subjects of audit entries, as far as they still exist. */
import { RingfenceError } from '../../client/error.ts';
import type { Names as SentenceNames } from '../../client/words/sentence.ts';
import type { Session } from '../session/session.ts';

type Names = readonly (readonly [id: string, name: string])[];

/** What one may not see has no name; that is no reason to show nothing. */
async function visibleNames(list: Promise<Names>): Promise<Names> {
  try {
    return await list;
  } catch (error) {
    if (error instanceof RingfenceError && (error.status === 403 || error.status === 404)) return [];
    throw error;
  }
}

/** Returns the name of a device, group, member, key, token or organization by its id. */
export async function sentenceNames(
  session: Session,
  { isWholeServer }: { readonly isWholeServer: boolean },
): Promise<SentenceNames> {
  const client = await session.client();
  // First, and with no wait after it: a list that fails while none waits for it would end the program.
  const inside = isWholeServer ? undefined : await namesInside(session);
  const named = (things: readonly { readonly id: string; readonly name: string }[]): Names =>
    things.map(({ id, name }) => [id, name]);
  const everywhere = [
    client.organizations.list().then(named),
    client.tokens.list().then(named),
    ...(isWholeServer
      ? [client.users.list().then((users): Names => users.map(({ id, username }) => [id, username]))]
      : []),
  ];
  const [devices, groups, others] = await Promise.all(
    [inside?.devices ?? [], inside?.groups ?? [], [...everywhere, ...(inside?.others ?? [])]].map(lookUp),
  );
  const nobody = (): undefined => undefined;
  return { deviceOf: devices ?? nobody, groupOf: groups ?? nobody, otherOf: others ?? nobody };
}

async function lookUp(lists: readonly Promise<Names>[]): Promise<(id: string) => string | undefined> {
  const names = new Map((await Promise.all(lists.map(visibleNames))).flat().filter(([, name]) => name !== ''));
  return (id) => names.get(id);
}

interface NamesInside {
  readonly devices: readonly Promise<Names>[];
  readonly groups: readonly Promise<Names>[];
  readonly others: readonly Promise<Names>[];
}

async function namesInside(session: Session): Promise<NamesInside> {
  const client = await session.client();
  const organization = await session.organization();
  return {
    devices: [client.devices.list(organization).then((all): Names => all.map(({ id, hostname }) => [id, hostname]))],
    groups: [client.groups.list(organization).then((all): Names => all.map(({ id, group_name }) => [id, group_name]))],
    others: [
      client.members.list(organization).then((all): Names => all.map(({ user_id, username }) => [user_id, username])),
      client.enrollmentKeys.list(organization).then((all): Names => all.map(({ id, name }) => [id, name])),
    ],
  };
}
