/** Owns the limits on open streams and waits, by credential, user and organization, counted in one place for all processes of a server. */

/** The most streams and waits that may be open at a time, in all processes of a server together. */
export interface StreamLimits {
  readonly perUserCredential: number;
  readonly perDeviceToken: number;
  readonly perOrganization: number;
  /** Answers that are held back, for a user or a device. */
  readonly waits: number;
}

const defaultStreamLimits: StreamLimits = {
  perUserCredential: 1_000,
  perDeviceToken: 16,
  perOrganization: 200_000,
  waits: 64,
};

/** Who opens a stream, or waits, as far as it is counted. */
export interface StreamClaim {
  readonly kind: 'user' | 'device' | 'wait';
  /** Identifies the credential, or the caller of a wait; no secret. */
  readonly credential: string;
  /** Absent for a wait: it counts for its caller only. */
  readonly organization?: string;
}

/** The bound that is reached. */
export type StreamBound = 'credential' | 'organization';

export interface StreamReservation {
  /** Gives the reservation back; once is enough. */
  release(): void;
}

export interface StreamQuota {
  /** A reservation for one stream, or the limit that prevents it. */
  take(claim: StreamClaim): Promise<StreamReservation | StreamBound>;
}

/** Counts open streams and keeps each count within its limit. */
export class StreamCounts {
  readonly #limits: StreamLimits;
  readonly #counts = new Map<string, number>();

  constructor(limits: StreamLimits) {
    this.#limits = limits;
  }

  /** Counts one more, or names the bound that is reached and counts nothing. */
  add({ kind, credential, organization }: StreamClaim): StreamBound | undefined {
    const { perUserCredential: user, perDeviceToken: device, perOrganization, waits: wait } = this.#limits;
    if (this.#of(credential) >= { user, device, wait }[kind]) return 'credential';
    if (organization !== undefined && this.#of(organization) >= perOrganization) return 'organization';
    this.#change(credential, 1);
    if (organization !== undefined) this.#change(organization, 1);
    return undefined;
  }

  remove({ credential, organization }: StreamClaim): void {
    this.#change(credential, -1);
    if (organization !== undefined) this.#change(organization, -1);
  }

  /** How many keys are remembered: none for those without streams. */
  get size(): number {
    return this.#counts.size;
  }

  #of(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  #change(key: string, by: number): void {
    const count = this.#of(key) + by;
    if (count > 0) this.#counts.set(key, count);
    else this.#counts.delete(key);
  }
}

/** Runs something once, however often it is asked for. */
function once(run: () => void): () => void {
  let done = false;
  return () => {
    if (done) return;
    done = true;
    run();
  };
}

/** The stream quota of a server that is one process. */
export class LocalStreamQuota implements StreamQuota {
  readonly #counts: StreamCounts;

  constructor(limits: StreamLimits = defaultStreamLimits) {
    this.#counts = new StreamCounts(limits);
  }

  take(claim: StreamClaim): Promise<StreamReservation | StreamBound> {
    const bound = this.#counts.add(claim);
    return Promise.resolve(bound ?? { release: once(() => this.#counts.remove(claim)) });
  }
}

/** Asks the process that counts for all; the answers come in the order of the claims. */
export interface StreamCounter {
  add(claims: readonly StreamClaim[]): Promise<readonly (StreamBound | undefined)[]>;
  remove(claim: StreamClaim): void;
}

/** How long the counting process may take: a stream must not wait for one that is frozen, and one that is only busy answers by then. */
export const counterTimeoutMs = 5_000;

/**
 * The stream quota of one process among several: first its own counts, then those of all. When the counting process
 * does not answer in time, only its own counts decide.
 */
export class SharedStreamQuota implements StreamQuota {
  readonly #counter: StreamCounter;
  readonly #own: StreamCounts;
  #waiting: { readonly claim: StreamClaim; readonly settle: (answer: Promise<StreamBound | undefined>) => void }[] = [];

  constructor(counter: StreamCounter, limits: StreamLimits) {
    this.#counter = counter;
    this.#own = new StreamCounts(limits);
  }

  async take(claim: StreamClaim): Promise<StreamReservation | StreamBound> {
    const bound = this.#own.add(claim);
    if (bound !== undefined) return bound;
    const asked = this.#ask(claim);
    const answer = await inTime(asked);
    if (answer !== undefined) this.#own.remove(claim);
    return (
      answer ?? {
        release: once(() => {
          this.#own.remove(claim);
          // One that was refused, though too late to matter, was not counted.
          void asked.then((refused) => refused ?? this.#counter.remove(claim));
        }),
      }
    );
  }

  /** Claims of one turn of the event loop go together. */
  #ask(claim: StreamClaim): Promise<StreamBound | undefined> {
    if (this.#waiting.length === 0) setImmediate(() => this.#send());
    return new Promise((resolve) => this.#waiting.push({ claim, settle: resolve }));
  }

  #send(): void {
    const asked = this.#waiting;
    this.#waiting = [];
    const answers = this.#counter.add(asked.map(({ claim }) => claim));
    for (const [index, { settle }] of asked.entries()) settle(answers.then((all) => all[index]));
  }
}

/** The answer, or undefined when it does not come in time. */
function inTime<T>(asked: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve) => {
    // A process that was busy itself meets its timer before the answers that have come meanwhile: it reads those first.
    const timer = setTimeout(() => setImmediate(() => resolve(undefined)), counterTimeoutMs);
    void asked.then((answer) => {
      clearTimeout(timer);
      resolve(answer);
    });
  });
}
