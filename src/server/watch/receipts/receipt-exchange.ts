/**
 * Owns the exchange about receipts: one process asks devices on the streams of all processes, and each process
 * announces the reports that it receives meanwhile.
 */
import { parseDeviceId, parseOrganizationId, type DeviceId, type OrganizationId } from '../../../policy/ids.ts';
import type { Store } from '../../store/open.ts';

export interface ReceiptExchangeOptions {
  readonly broadcast: Store['broadcast'];
  readonly now: () => number;
  /** Runs something after other work that is due. */
  readonly defer: (run: () => void) => void;
  /** Asks on the streams of this process. */
  readonly askOrganization: (org: OrganizationId, revision: number) => void;
  readonly askDevice: (device: DeviceId, revision: number) => void;
}

/** So many organizations are awaited at once. Anybody who may connect to the database can name any. */
const mostAwaited = 10_000;
/** Processes announce the reports of an organization for this long after a request. */
const awaitedMs = 15_000;

function parseRevision(text: string): number {
  const revision = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(revision)) throw new RangeError('no revision');
  return revision;
}

/**
 * Messages are a letter and ids: `w` an organization whose reports somebody awaits, `a` an organization and `p` a device to ask about a
 * revision, `r` an organization whose devices have reported.
 */
export class ReceiptExchange {
  readonly #o: ReceiptExchangeOptions;
  readonly #awaitedUntil = new Map<OrganizationId, number>();
  readonly #listeners = new Set<(org: OrganizationId) => void>();
  /** Organizations to announce. */
  readonly #reported = new Set<OrganizationId>();
  readonly close: () => void;

  constructor(options: ReceiptExchangeOptions) {
    this.#o = options;
    this.close = options.broadcast.listen((message) => this.#receive(message));
  }

  /** Asks these devices, or all of the organization, to report once what they enforce reflects the revision. */
  ask(org: OrganizationId, revision: number, devices?: readonly DeviceId[]): void {
    const asked = devices?.map((device) => `p${device}/${revision}`) ?? [`a${org}/${revision}`];
    this.#o.broadcast.send([`w${org}`, ...asked]);
  }

  /** A process has stored a device's report. */
  reported(org: OrganizationId): void {
    if ((this.#awaitedUntil.get(org) ?? Number.NEGATIVE_INFINITY) < this.#o.now()) this.#awaitedUntil.delete(org);
    else if (this.#reported.add(org).size === 1) this.#o.defer(() => this.#announce());
  }

  /** Calls the listener when devices of an organization have reported after a request. Announcements may be lost. Returns what ends it. */
  onReported(listener: (org: OrganizationId) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #announce(): void {
    const messages = [...this.#reported].map((org) => `r${org}`);
    this.#reported.clear();
    this.#o.broadcast.send(messages);
  }

  #await(org: OrganizationId, until: number): void {
    this.#awaitedUntil.delete(org);
    this.#awaitedUntil.set(org, until);
    for (const oldest of this.#awaitedUntil.keys()) {
      if (this.#awaitedUntil.size <= mostAwaited) break;
      this.#awaitedUntil.delete(oldest);
    }
  }

  /** Passes over what it does not know: a later version may send it. */
  #receive(message: string): void {
    const [id = '', revision = ''] = message.slice(1).split('/');
    const { now, askOrganization, askDevice } = this.#o;
    try {
      if (message.startsWith('w')) this.#await(parseOrganizationId(id), now() + awaitedMs);
      else if (message.startsWith('a')) askOrganization(parseOrganizationId(id), parseRevision(revision));
      else if (message.startsWith('p')) askDevice(parseDeviceId(id), parseRevision(revision));
      else if (message.startsWith('r')) for (const listener of this.#listeners) listener(parseOrganizationId(id));
    } catch {
      return;
    }
  }
}
