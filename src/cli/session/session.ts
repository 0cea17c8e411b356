/** Owns one run of a client command: its server, its user, its organization, and its output. */
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Client } from '../../client/http.ts';
import { revisionOf } from '../../client/headers.ts';
import type { Credential, FetchInit, FetchResponse } from '../../client/request.ts';
import type { Organization } from '../../api/organization.ts';
import { isUuid } from '../../policy/ids.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { unreadable } from '../terminal/input-file.ts';
import { nodeFetch } from '../../node/fetch.ts';
import { judgedWrite } from './dry-run.ts';
import { findOne } from './find-one.ts';
import {
  isForPeople,
  listOutput,
  print,
  recordOutput,
  type CommandOutput,
  type ListForm,
  type Output,
  type RecordForm,
} from '../terminal/output.ts';
import { openFileWarning } from '../../node/open-file.ts';
import { profilesFile, readProfiles, type Profile } from './profile.ts';
import { TokenRefresh } from './token-refresh.ts';
import { trialQuery, type TrialQuery, type TrialValues } from './trial-options.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { programVersion } from '../../node/version.ts';
import { withConnectionHint } from '../../node/connection-hint.ts';

/** The options that every client command takes. */
export interface GlobalValues extends TrialValues {
  readonly server?: string;
  readonly tokenFile?: string;
  readonly org?: string;
  readonly profile?: string;
  readonly output: Output;
  readonly quiet?: boolean;
  readonly color: boolean;
  readonly headers?: boolean;
  readonly yes?: boolean;
  /** Of commands that write policy: how long to wait until it is in force. */
  readonly wait?: string | true;
  /** With it: whether devices that are away count. */
  readonly waitFor?: 'online' | 'all';
  /** Of those that may break policy tests. */
  readonly skipTests?: boolean;
  /** Of those that may leave devices with the default group. */
  readonly detach?: boolean;
  /** Of those that may forbid a whole direction. */
  readonly force?: boolean;
  /** Of some of them: tell what would change, and write nothing. */
  readonly dryRun?: boolean;
}

/** Where a command changed policy. */
export interface Changed {
  readonly organizations: readonly { readonly organization_id: string; readonly revision: number }[];
  readonly hidden: number;
}

interface TestQuery {
  readonly skip_tests?: true;
}

/** A record that may be on trial. */
interface TriedRecord {
  readonly trial?: Omit<StartedTrial, 'notedAt'> | undefined;
}

export interface StartedTrial {
  readonly id: string;
  readonly started_at: string;
  readonly ends_at: string;
  /** By `performance.now()`: the server's clock may differ from the one of this machine. */
  readonly notedAt: number;
}

export interface SessionOptions {
  readonly values: GlobalValues;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
}

export class Session {
  readonly values: GlobalValues;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
  #client: Promise<Client> | undefined;
  #organization: Promise<string> | undefined;
  #settled: () => Promise<void> = () => Promise.resolve();
  #written: number | undefined;
  #changed: Changed | undefined;
  #isLeft = false;
  #trial: StartedTrial | undefined;

  constructor({ values, terminal, signal }: SessionOptions) {
    this.values = values;
    this.terminal = terminal;
    this.signal = signal;
  }

  get profilesFile(): string {
    return profilesFile(this.terminal.env);
  }

  print(answer: CommandOutput): Promise<void> {
    const { output, quiet, headers } = this.values;
    // A script needs the trial to end it.
    const shown = this.#trial === undefined ? answer : { ...answer, ids: [this.#trial.id] };
    return print(this.terminal, { output, quiet: quiet === true, headers: headers !== false }, shown);
  }

  async printList<Row>(rows: readonly Row[], form: ListForm<Row>): Promise<void> {
    if (rows.length === 0 && this.isForPeople) return this.say(form.none);
    return this.print(listOutput(rows, form));
  }

  /** With `--quiet` it prints `quiet`: the id, unless something new has a secret to show. */
  printRecord(record: { readonly id: string }, form: RecordForm, quiet?: string): Promise<void>;
  printRecord(record: object, form: RecordForm, quiet: string): Promise<void>;
  printRecord(record: { readonly id?: string }, form: RecordForm, quiet = record.id ?? ''): Promise<void> {
    return this.print(recordOutput(record, form, quiet));
  }

  /** Whether a person reads the answer: only then is it worth asking for names that only people need. */
  get isForPeople(): boolean {
    return isForPeople({ output: this.values.output, quiet: this.values.quiet === true });
  }

  /** A sentence for a person who looks on; programs that asked for data get data only. */
  say(sentence: string): void {
    if (this.isForPeople) this.terminal.note(sentence);
  }

  async confirm(question: string): Promise<boolean> {
    if (this.values.dryRun === true) return true;
    const isMeant = await this.terminal.confirm(question, { yes: this.values.yes === true, signal: this.signal });
    if (!isMeant) this.leaveAsIs();
    return isMeant;
  }

  /** Nothing is to be changed: there is nothing to wait for either. */
  leaveAsIs(): void {
    this.#isLeft = true;
  }

  /** Whether nothing was to be changed. */
  get isLeft(): boolean {
    return this.#isLeft;
  }

  /** The address that was given, else that of the profile in force. */
  async server(): Promise<string> {
    const server = this.values.server ?? (await this.profile()).profile?.server;
    if (server !== undefined) return server;
    throw usageError('no server given: run `ringfence login`, or set --server and RINGFENCE_TOKEN');
  }

  /** The profile in force, if there is one. A profile that was asked for must exist. */
  async profile(): Promise<{ readonly name: string; readonly profile: Profile | undefined }> {
    const { current, profiles } = await readProfiles(this.profilesFile);
    const name = this.values.profile ?? current;
    const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
    if (profile === undefined && this.values.profile !== undefined) {
      const known = Object.keys(profiles);
      throw new CliError(
        'notFound',
        `profile ${name} does not exist; ${known.length === 0 ? 'run `ringfence login` first' : `known profiles: ${known.join(', ')}`}`,
      );
    }
    return { name, profile };
  }

  /** The newest revision that this run of the command has made; undefined where it changed nothing. */
  get writtenRevision(): number | undefined {
    return this.#written;
  }

  /**
   * Notes a revision that was written. Where a response has no header for it, the command that reads the response calls
   * this.
   */
  readonly noteWritten = (revision: number): void => {
    this.#written = Math.max(this.#written ?? 0, revision);
  };

  /** What makes a write of this command a trial: `--confirm-within` and `--on`. Empty where it is none. */
  get trial(): TrialQuery {
    return trialQuery(this.values);
  }

  /** Whether a write may break policy tests. */
  get testQuery(): TestQuery {
    return this.values.skipTests === true ? { skip_tests: true } : {};
  }

  /** What every write of policy takes along: whether it is tried, and whether it may break policy tests. */
  get writeQuery(): TrialQuery & TestQuery {
    return { ...this.trial, ...this.testQuery };
  }

  /** What every write of groups takes along: also whether a guardrail may forbid a whole direction. */
  get groupQuery(): TrialQuery & TestQuery & { readonly force?: true } {
    return { ...this.writeQuery, ...(this.values.force === true && { force: true }) };
  }

  /** The trial that this command has started. */
  get startedTrial(): StartedTrial | undefined {
    return this.#trial;
  }

  /** Told of what was written: a record that is on trial now, or the records of a change set. */
  noteTrial(...records: readonly TriedRecord[]): void {
    if (this.values.confirmWithin === undefined) return;
    const trial = records.find((record) => record.trial !== undefined)?.trial;
    if (trial !== undefined) this.#trial ??= { ...trial, notedAt: performance.now() };
  }

  /** Where policy was changed, of a command that is about no organization of its own; undefined for all others. */
  get changed(): Changed | undefined {
    return this.#changed;
  }

  /** Notes where policy was changed, and in how many organizations that this user cannot see. */
  noteChanged(organizations: Changed['organizations'], hidden: number): void {
    this.#changed = { organizations, hidden };
  }

  client(): Promise<Client> {
    this.#client ??= this.#connect();
    return this.#client;
  }

  async #connect(): Promise<Client> {
    const { tokenFile } = this.values;
    const { name, profile } = await this.profile();
    const server = await this.server();
    const token = await this.#token(tokenFile, server, profile);
    const hooks = { onWrite: this.noteWritten, signal: this.signal, isDryRun: this.values.dryRun === true };
    if (profile?.sign_in === undefined || token !== profile.token) return clientOf(server, token, hooks);
    const refresh = new TokenRefresh({ file: this.profilesFile, name, profile });
    this.#settled = () => refresh.settled();
    return clientOf(server, refresh.get, { ...hooks, renew: (rejected) => refresh.renew(rejected) });
  }

  /** Resolves when nothing is left half done. */
  settled(): Promise<void> {
    return this.#settled();
  }

  /** A profile's token goes to the profile's own server only. */
  async #token(file: string | undefined, server: string, profile: Profile | undefined): Promise<string> {
    if (file !== undefined) {
      this.#warnIfOpen(file);
      return readTokenFile(file);
    }
    const fromEnv = this.terminal.env['RINGFENCE_TOKEN']?.trim() ?? '';
    if (fromEnv !== '') return checkedToken(fromEnv, 'RINGFENCE_TOKEN');
    if (profile !== undefined && sameServer(profile.server, server)) {
      this.#warnIfOpen(this.profilesFile);
      return profile.token;
    }
    throw new CliError(
      'notAllowed',
      `no token for ${server}: run \`ringfence login ${server}\`, or set RINGFENCE_TOKEN or --token-file`,
    );
  }

  #warnIfOpen(file: string): void {
    const warning = openFileWarning(file);
    if (warning !== undefined) this.terminal.note(`Warning: ${warning}`);
  }

  /** The id of the organization that the command is about. */
  organization(): Promise<string> {
    this.#organization ??= this.#chooseOrganization();
    return this.#organization;
  }

  async #chooseOrganization(): Promise<string> {
    const client = await this.client();
    const given = this.values.org;
    if (given !== undefined) return this.findOrganization(given).then(({ id }) => id);
    const { profile } = await this.profile();
    const stored = profile?.organization;
    const elsewhere = this.values.server !== undefined && !sameServer(this.values.server, profile?.server ?? '');
    if (stored !== undefined && !elsewhere) return stored;
    const all = await client.organizations.list();
    const [only, second] = all;
    if (only !== undefined && second === undefined) return only.id;
    if (only === undefined)
      throw usageError('you are not in any organization yet: create one with `ringfence org create NAME`');
    throw usageError(
      'you are in several organizations: choose one with --org NAME or RINGFENCE_ORG, or set a default with `ringfence org use NAME`',
      all.map(({ id, name }) => `${id}  ${name}`),
    );
  }

  /** By name or id. An id is taken without asking: reading what is in it will tell. */
  async findOrganization(text: string): Promise<Pick<Organization, 'id' | 'name'>> {
    const client = await this.client();
    if (isUuid(text)) return client.organizations.get(text.toLowerCase());
    const all = await client.organizations.list();
    return findOne('organization', text, all, ({ id, name }) => ({ id, names: [name] }));
  }
}

const sameServer = (a: string, b: string): boolean => a.replace(/\/+$/, '') === b.replace(/\/+$/, '');

/** Checks what a person gave as a server, so that a mistake is reported here and not by a failing connection. */
export function readServer(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw usageError(
      `\`${text}\` is not a server URL: give one like https://ringfence.example or http://127.0.0.1:8080`,
    );
  }
  if (url.username !== '' || url.password !== '')
    throw usageError('a server URL must not contain a user name or a password');
  return text.replace(/\/+$/, '');
}

export interface ClientHooks {
  /** Gives another token for one that the server refuses; the request is then sent once more, as nothing came of it. */
  readonly renew?: (rejected: string) => Promise<string>;
  /** Called with the revision of each record that was written. */
  readonly onWrite?: (revision: number) => void;
  /** Ends every request. */
  readonly signal: AbortSignal;
  /** No request may write. */
  readonly isDryRun?: boolean;
}

export const clientOf = (
  server: string,
  token: Credential,
  { renew, onWrite, signal, isDryRun }: ClientHooks,
): Client =>
  new Client({
    url: readServer(server),
    token,
    headers: { 'user-agent': `ringfence/${programVersion}` },
    signal,
    createKey: randomUUID,
    fetch: async (url, init) => {
      const judged = isDryRun === true ? await judgedWrite(url, init) : undefined;
      const answer = await fetchRenewed(judged?.url ?? url, init, renew);
      if (judged !== undefined && answer.status < 300) throw judged.end;
      const tag = init.method === 'GET' || answer.status >= 300 ? null : answer.headers.get('etag');
      const revision = tag === null ? undefined : revisionOf(tag);
      if (revision !== undefined) onWrite?.(revision);
      return answer;
    },
  });

async function fetchRenewed(url: string, init: FetchInit, renew: ClientHooks['renew']): Promise<FetchResponse> {
  const answer = await nodeFetch(url, init).catch(async (error: unknown) => {
    init.signal.throwIfAborted();
    throw await withConnectionHint(url, error);
  });
  const rejected = /^Bearer (.*)$/.exec(init.headers['authorization'] ?? '')?.[1];
  if (renew === undefined || answer.status !== 401 || rejected === undefined) return answer;
  await answer.body?.cancel();
  const headers = { ...init.headers, authorization: `Bearer ${await renew(rejected)}` };
  return nodeFetch(url, { ...init, headers });
}

export async function readTokenFile(file: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    throw unreadable(`the token file ${file}`, error);
  }
  const token = text.trim();
  if (token === '') throw usageError(`the token file ${file} is empty`);
  return checkedToken(token, `the token file ${file}`);
}

/** A token is one word. It is not shown: part of it may be a secret. */
function checkedToken(text: string, where: string): string {
  if (/^[\x21-\x7e]+$/.test(text)) return text;
  throw usageError(`${where} has no token: a token is one word of ASCII characters, without spaces and line breaks`);
}
