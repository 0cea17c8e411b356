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
}

/** The key comes first, because it may be for another organization than an earlier enrollment. */
export async function knownDestination(key: TextSource | undefined, folder: IdentityFolder): Promise<Destination> {
  const carried = key === undefined ? undefined : await carriedBy(key);
  if (carried?.servers !== undefined) return carried;
  try {
    const identity = await folder.identity();
    if (identity === undefined) return carried ?? { source: 'the options' };
    const { organization, servers } = identity;
    return {
      organization,
      ...(servers !== undefined && { servers: readUrls(servers.join()) }),
      source: folder.path('identity'),
    };
  } catch (error) {
    return carried ?? { source: folder.path('identity'), fault: messageOf(error) };
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
