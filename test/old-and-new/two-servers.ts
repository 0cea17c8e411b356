/** Owns two running servers of two versions, each on a database of its own, that are asked the same. */
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Api, type Answered, type Json } from '../lib/http.ts';
import { olderProgram } from '../lib/older-program.ts';
import { startOwnPostgres, temporaryDirectory } from '../lib/postgres.ts';
import { builtProgram } from '../lib/built.ts';
import { Run } from '../lib/run.ts';
import { EventStream } from '../lib/stream.ts';
import { IdPairs } from './comparison.ts';
import type { Answers, Caller, Command } from './commands.ts';

interface Version {
  readonly url: string;
  readonly nobody: Api;
  stop(): Promise<void>;
}

const adminToken = `rf_user_${'a'.repeat(43)}`;

async function startVersion(program: string, options: readonly string[]): Promise<Version> {
  const [postgres, data] = await Promise.all([startOwnPostgres(), temporaryDirectory()]);
  const listen = ['--listen', '127.0.0.1:0', '--data', data, '--workers', '1', '--rate-limit', '0'];
  const run = new Run(program, ['server', ...listen, '--log-level', 'warn', ...options], {
    RINGFENCE_ADMIN_TOKEN: adminToken,
    RINGFENCE_DATABASE_URL: await postgres.emptyUrl(),
  });
  const url = await run.url();
  const nobody = new Api(url);
  return {
    url,
    nobody,
    async stop() {
      nobody.close();
      await run.stop();
      await postgres.stop();
      await rm(data, { recursive: true, force: true });
    },
  };
}

/** The program of the commit, or of the folder of a checkout that is built. */
async function programOf(commitOrFolder: string): Promise<string> {
  const folder = existsSync(commitOrFolder) ? commitOrFolder : await olderProgram(commitOrFolder);
  return join(folder, 'dist/ringfence.mjs');
}

export class TwoServers {
  readonly ids = new IdPairs();
  readonly #old: Version;
  readonly #new: Version;
  readonly #credentials = new Map<Caller, { readonly old: string; readonly new: string }>();

  private constructor(old: Version, other: Version) {
    this.#old = old;
    this.#new = other;
    this.#credentials.set('admin', { old: adminToken, new: adminToken });
  }

  /** `options` of the server command, the same for both. */
  static async start(old: string, options: readonly string[] = []): Promise<TwoServers> {
    const [oldProgram, newFolder] = await Promise.all([programOf(old), builtProgram()]);
    const [first, second] = await Promise.all([
      startVersion(oldProgram, options),
      startVersion(join(newFolder, 'ringfence.mjs'), options),
    ]);
    return new TwoServers(first, second);
  }

  async stop(): Promise<void> {
    await Promise.all([this.#old.stop(), this.#new.stop()]);
  }

  /** From now on the caller asks with the secrets that these answers show. */
  signIn(caller: Caller, { old, new: other }: Answers): void {
    const secretOf = ({ json }: Answered): string => json?.token ?? json?.device_token ?? json?.key;
    this.#credentials.set(caller, { old: secretOf(old), new: secretOf(other) });
  }

  async ask({ as, method, path, body, headers = {} }: Command): Promise<Answers> {
    const credentials = this.#credentials.get(as);
    const text = body === undefined ? undefined : JSON.stringify(body);
    const send = (
      version: Version,
      token: string | undefined,
      translate: (text: string) => string,
    ): Promise<Answered> =>
      version.nobody.as(token).ask(method, translate(path), {
        headers,
        ...(text === undefined ? {} : { raw: translate(text) }),
      });
    const [old, other] = await Promise.all([
      send(this.#old, credentials?.old, (given) => given),
      send(this.#new, credentials?.new, (given) => this.ids.translate(given)),
    ]);
    return { old, new: other };
  }

  /** Both must answer with this status, and alike. */
  async expect(status: number, command: Command): Promise<Answers> {
    const answers = await this.ask(command);
    const found = this.ids.differences(answers.old.json, answers.new.json);
    if (answers.old.status !== status || answers.new.status !== status || found.length > 0)
      throw new Error(`${command.method} ${command.path}: ${answers.old.text} ${answers.new.text}`);
    return answers;
  }

  streams(caller: Caller, org: string, body: Json): { readonly old: EventStream; readonly new: EventStream } {
    const credentials = this.#credentials.get(caller);
    return {
      old: new EventStream(this.#old.url, credentials?.old, org, body),
      new: new EventStream(this.#new.url, credentials?.new, this.ids.translate(org), body),
    };
  }
}
