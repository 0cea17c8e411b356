/** Owns the identity of this device, as the enrollment created it: saved on disk, readable by its owner only. */
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseDeviceId, parseOrganizationId, type DeviceId, type OrganizationId } from '../../policy/ids.ts';
import { field, isObject } from '../../policy/json.ts';
import { removeUnfinished, writeFileAtomically } from '../../node/atomic-write.ts';

export interface Identity {
  readonly organization: OrganizationId;
  readonly device: DeviceId;
  readonly token: string;
  /** The token before this one, if it was renewed. */
  readonly previousToken?: string;
  readonly publicKey: string;
  /** URLs of the servers at the enrollment; absent where an older agent enrolled it. */
  readonly servers?: readonly string[];
  /** The machine that was enrolled; absent where it has no id, or an older agent enrolled it. */
  readonly machine?: string;
}

/** What is written down before the server is asked, so that the same device asks again after a crash. */
export interface Application {
  readonly organization: OrganizationId;
  readonly publicKey: string;
  /** Names the request: where its answer was lost, the server gives the same answer again. Absent where an older agent wrote it. */
  readonly requestKey?: string;
}

/** Thrown where a file is there and cannot be read as what it should be, or cannot be written. */
export class BadIdentity extends Error {
  readonly code = 'bad_identity';
}

const names = { identity: 'identity.json', application: 'enrolling.json' } as const;

export class IdentityFolder {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  path(name: keyof typeof names): string {
    return join(this.#folder, names[name]);
  }

  /** Who this device is; nothing where it was never enrolled. Throws `BadIdentity`. */
  identity(): Promise<Identity | undefined> {
    return this.#read('identity', (value) => ({
      organization: parseOrganizationId(field(value, 'organization')),
      device: parseDeviceId(field(value, 'device')),
      token: deviceToken(field(value, 'token')),
      ...(field(value, 'previous_token') !== undefined && {
        previousToken: deviceToken(field(value, 'previous_token')),
      }),
      publicKey: textIn(value, 'public_key'),
      ...(field(value, 'servers') !== undefined && { servers: textsIn(value, 'servers') }),
      ...(field(value, 'machine') !== undefined && { machine: textIn(value, 'machine') }),
    }));
  }

  application(): Promise<Application | undefined> {
    return this.#read('application', (value) => ({
      organization: parseOrganizationId(field(value, 'organization')),
      publicKey: textIn(value, 'public_key'),
      ...(field(value, 'request_key') !== undefined && { requestKey: textIn(value, 'request_key') }),
    }));
  }

  async apply({ organization, publicKey, requestKey }: Application): Promise<void> {
    await this.#write('application', { organization, public_key: publicKey, request_key: requestKey });
  }

  /** Saves what the server answered; the application is done with. */
  async save({ organization, device, token, previousToken, publicKey, servers, machine }: Identity): Promise<void> {
    const public_key = publicKey;
    await this.#write('identity', {
      organization,
      device,
      token,
      previous_token: previousToken,
      public_key,
      servers,
      machine,
    });
    await rm(this.path('application'), { force: true });
  }

  /** Removes files that a killed run left half written. The caller holds the lock. */
  async removeUnfinished(): Promise<void> {
    await removeUnfinished([this.path('identity'), this.path('application')]);
  }

  async #read<T>(
    name: keyof typeof names,
    read: (value: Readonly<Record<string, unknown>>) => T,
  ): Promise<T | undefined> {
    const path = this.path(name);
    try {
      const value: unknown = JSON.parse(await readFile(path, 'utf8'));
      if (!isObject(value)) throw new TypeError('it is not an object');
      return read(value);
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
      throw new BadIdentity(`${path} cannot be used: ${error instanceof Error ? error.message : String(error)}`, {
        cause: error,
      });
    }
  }

  async #write(name: keyof typeof names, value: object): Promise<void> {
    const path = this.path(name);
    try {
      await writeFileAtomically(path, `${JSON.stringify(value, undefined, 2)}\n`, { mode: 0o600, durable: true });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      throw new BadIdentity(`${path} cannot be written: ${message}`, { cause: error });
    }
  }
}

/** A token as it goes into a header: one word. Throws where it is none; the message does not show it. */
export function deviceToken(value: unknown): string {
  if (typeof value !== 'string' || !/^[\x21-\x7e]{1,4096}$/.test(value))
    throw new TypeError('it has no token: a token is one word of ASCII characters');
  return value;
}

function textIn(value: Readonly<Record<string, unknown>>, name: string): string {
  const text = field(value, name);
  if (typeof text !== 'string' || text === '') throw new TypeError(`it has no ${name}`);
  return text;
}

function textsIn(value: Readonly<Record<string, unknown>>, name: string): readonly string[] {
  const texts = field(value, name);
  if (!Array.isArray(texts) || texts.length === 0 || !texts.every((text) => typeof text === 'string')) {
    throw new TypeError(`its ${name} are not texts`);
  }
  return texts;
}
