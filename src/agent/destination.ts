/** Owns what the agent knows about its server and organization besides its options: the enrollment key and the saved identity carry both. */
import { readFile } from 'node:fs/promises';
import type { OrganizationId } from '../policy/ids.ts';
import { readEnrollmentKey } from '../policy/names/enrollment-key.ts';
import { readUrls } from './options.ts';
import type { IdentityFolder } from './source/identity.ts';

/** A secret as given, or the file that holds it. */
export type TextSource = { readonly text: string } | { readonly file: string };

export interface Destination {
  readonly organization?: OrganizationId;
  /** URLs without a slash at the end. */
  readonly servers?: readonly string[];
  /** Where this comes from, for messages. */
  readonly source: string;
  /** Why a key or a saved identity says nothing, for a person; contains no secret. */
  readonly fault?: string;
  /** The servers that a key names and the agent does not use. */
  readonly unused?: readonly string[];
}

/**
 * The key comes first, because it may be for another organization than an earlier enrollment. For the same organization the saved identity
 * comes first: anyone can write a key, and the token of the device goes to another server only if an option says so.
 */
export async function knownDestination(
  key: TextSource | undefined,
  folder: IdentityFolder,
  given?: OrganizationId,
): Promise<Destination> {
  const carried = key === undefined ? undefined : await carriedBy(key);
  const saved = await savedIn(folder);
  if (carried?.servers === undefined)
    return saved?.fault === undefined ? (saved ?? carried ?? noDestination) : (carried ?? saved);
  if (saved?.organization === undefined || saved.organization !== (given ?? carried.organization)) return carried;
  if (saved.servers === undefined)
    return { ...saved, fault: `${saved.source} names no server, and the key moves no enrolled device` };
  return saved.servers.join() === carried.servers.join() ? saved : { ...saved, unused: carried.servers };
}

const noDestination: Destination = { source: 'the options' };

async function savedIn(folder: IdentityFolder): Promise<Destination | undefined> {
  const source = folder.path('identity');
  try {
    const identity = await folder.identity();
    if (identity === undefined) return undefined;
    const { organization, servers } = identity;
    return { organization, ...(servers !== undefined && { servers: readUrls(servers.join()) }), source };
  } catch (error) {
    return { source, fault: messageOf(error) };
  }
}

async function carriedBy(key: TextSource): Promise<Destination> {
  const source = 'the enrollment key';
  try {
    const { joins } = readEnrollmentKey(await readText(key));
    if (joins === undefined) return { source, fault: 'this enrollment key does not carry them' };
    return { organization: joins.organization, servers: readUrls(joins.servers), source };
  } catch (error) {
    return { source, fault: messageOf(error) };
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Reads a secret as given, or from its file. */
export async function readText(source: TextSource): Promise<string> {
  if ('text' in source) return source.text;
  const text = (await readFile(source.file, 'utf8')).trim();
  if (text === '') throw new Error(`${source.file} is empty`);
  return text;
}
