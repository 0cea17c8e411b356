/**
 * Owns the price of a question: how much work one request may cause, and how many such requests of one user, of one organization and of this process run
 * at a time.
 *
 * An operation whose work grows with an organization says so in its row (`cost: 'organization'`). Its handler then gets a `WorkBudget` with its call, and
 * everything that works out an answer takes one:
 *
 *     const snapshot = await preview.read(org, call.work);
 *     await call.work.each(snapshot.devices.values(), (device) => { … });
 */
import { SlicedWork, type TimeSlices } from './time-slices.ts';

/** Whose work it is. */
export interface WorkOwner {
  readonly user: string;
  readonly organization: string;
}

export interface WorkLimits {
  /** Questions that run at a time; the others wait. */
  readonly perUser: number;
  readonly perOrganization: number;
  readonly perProcess: number;
  /** Questions of one user that may wait. */
  readonly waitingPerUser: number;
  /** Milliseconds of processor time that one question may take. */
  readonly workMs: number;
  /** Milliseconds after which a question gives up, waiting included. */
  readonly answerMs: number;
}

/** So that a user's second tab does not wait for the first, and that what runs fits into the memory of a process. */
export const workLimits = (answerTimeoutMs: number): WorkLimits => ({
  perUser: 2,
  perOrganization: 4,
  perProcess: 8,
  waitingPerUser: 32,
  workMs: answerTimeoutMs / 6,
  // Before the answer of a slow database (503), which this is not.
  answerMs: answerTimeoutMs * 0.8,
});

/** Parts of lists are read in a moment, and take memory until they are sent. */
export const listLimits = (answerTimeoutMs: number): WorkLimits => ({
  ...workLimits(answerTimeoutMs),
  perUser: 1,
  perOrganization: 2,
  perProcess: 4,
  waitingPerUser: 256,
});

/** `too_costly`: the question takes more work than one may. `busy`: too many other questions run or wait, of the same user or at all. */
export class WorkRefused extends Error {
  readonly why: 'too_costly' | 'busy';
  /** After which it makes sense to ask again. */
  readonly seconds = 5;

  constructor(why: WorkRefused['why']) {
    super(why);
    this.name = 'WorkRefused';
    this.why = why;
  }
}

type State = 'new' | 'waiting' | 'running' | 'ended';

/** The work of one request. It takes its place with its first piece of work, and gives it back with `end`. */
export class WorkBudget extends SlicedWork {
  protected override readonly monotonic: () => number;
  readonly #processorMs: () => number;
  readonly #shares: WorkShares;
  readonly #slices: TimeSlices;
  readonly #limits: WorkLimits;
  readonly owner: WorkOwner;
  readonly #asked: number;
  #state: State = 'new';
  #admitted: Promise<void> | undefined;
  #settle: ((refused?: WorkRefused) => void) | undefined;
  #workedMs = 0;
  #sliceBegan = { at: 0, processorMs: 0 };
  readonly #held: (() => void)[] = [];

  constructor(
    owner: WorkOwner,
    { shares, slices, monotonic, processorMs, limits }: WorkSharesOptions & { readonly shares: WorkShares },
  ) {
    super();
    this.owner = owner;
    this.monotonic = monotonic;
    this.#processorMs = processorMs;
    this.#shares = shares;
    this.#slices = slices;
    this.#limits = limits;
    this.#asked = monotonic();
  }

  /** Throws or rejects with `WorkRefused` where the budget is spent. */
  override next(): Promise<void> | undefined {
    if (this.#state !== 'running') return this.place().then(() => this.next());
    if (this.monotonic() - this.#asked > this.#limits.answerMs) throw this.late();
    return this.#slices.next();
  }

  protected override begin(): void {
    this.#sliceBegan = { at: this.monotonic(), processorMs: this.#processorMs() };
  }

  /** Counts neither the time in which the machine did something else, nor what other threads of this process did meanwhile. */
  protected override pause(): void {
    const { at, processorMs } = this.#sliceBegan;
    this.#workedMs += Math.min(this.monotonic() - at, this.#processorMs() - processorMs);
    if (this.#workedMs > this.#limits.workMs) throw new WorkRefused('too_costly');
  }

  /** Called when the work ends: what it held until then. */
  onEnd(release: () => void): void {
    if (this.#state === 'ended') release();
    else this.#held.push(release);
  }

  /** The request is answered, or nobody waits for its answer any more: work that goes on ends at its next piece. */
  end(): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    for (const release of this.#held.splice(0)) release();
    this.#shares.leave(this);
    this.#settle?.(new WorkRefused('busy'));
  }

  /** Called by the shares: its place is free. */
  start(): void {
    this.#state = 'running';
    this.#settle?.();
  }

  /** Waits for the place. Rejects with `WorkRefused` where there is none in time. */
  place(): Promise<void> {
    if (this.#state === 'ended') return Promise.reject(new WorkRefused('busy'));
    this.#admitted ??= new Promise<void>((resolve, reject) => {
      const giveUp = setTimeout(() => this.#settle?.(new WorkRefused('busy')), this.#limits.answerMs).unref();
      this.#settle = (refused) => {
        clearTimeout(giveUp);
        if (refused === undefined) resolve();
        else {
          this.#shares.leave(this);
          reject(refused);
        }
      };
      this.#state = 'waiting';
      if (!this.#shares.enter(this)) this.#settle(new WorkRefused('busy'));
    });
    return this.#admitted;
  }

  /** Work has begun, or waits for its place. */
  get isUnderWay(): boolean {
    return this.#state === 'waiting' || this.#state === 'running';
  }

  /** Whose fault it is that the time is over: its own where it took a good part of what it may. */
  late(): WorkRefused {
    return new WorkRefused(this.#workedMs > this.#limits.workMs / 2 ? 'too_costly' : 'busy');
  }
}

export interface WorkSharesOptions {
  readonly slices: TimeSlices;
  /** Milliseconds that only ever go forward. */
  readonly monotonic: () => number;
  /** Milliseconds of processor time that this process has taken. */
  readonly processorMs: () => number;
  readonly limits: WorkLimits;
}

/**
 * Admits questions as soon as their user and their organization have a place: first those of whom the fewest run, then in the order in which they came. So who
 * asks once waits for no more than one question of those who ask again and again.
 */
export class WorkShares {
  readonly #o: WorkSharesOptions;
  readonly #running = new Set<WorkBudget>();
  readonly #waiting = new Set<WorkBudget>();

  constructor(options: WorkSharesOptions) {
    this.#o = options;
  }

  budgetFor(owner: WorkOwner): WorkBudget {
    return new WorkBudget(owner, { ...this.#o, shares: this });
  }

  /** Does something short that needs a place, and no more than it, such as reading a part of a list. */
  async inTurn<T>(owner: WorkOwner, work: () => Promise<T>): Promise<T> {
    const budget = this.budgetFor(owner);
    try {
      await budget.place();
      return await work();
    } finally {
      budget.end();
    }
  }

  /** False where too many of the user wait already. */
  enter(work: WorkBudget): boolean {
    const { user } = work.owner;
    if (this.#count(this.#waiting, ({ owner }) => owner.user === user) >= this.#o.limits.waitingPerUser) return false;
    this.#waiting.add(work);
    this.#startWaiting();
    return true;
  }

  leave(work: WorkBudget): void {
    const hadPlace = this.#running.delete(work);
    this.#waiting.delete(work);
    if (hadPlace) this.#startWaiting();
  }

  #count(all: ReadonlySet<WorkBudget>, is: (work: WorkBudget) => boolean): number {
    let count = 0;
    for (const work of all) if (is(work)) count += 1;
    return count;
  }

  #startWaiting(): void {
    for (let work = this.#next(); work !== undefined; work = this.#next()) {
      this.#waiting.delete(work);
      this.#running.add(work);
      work.start();
    }
  }

  #next(): WorkBudget | undefined {
    const { perUser, perOrganization, perProcess } = this.#o.limits;
    if (this.#running.size >= perProcess) return undefined;
    let next: WorkBudget | undefined;
    let fewest = Number.POSITIVE_INFINITY;
    for (const work of this.#waiting) {
      const { user, organization } = work.owner;
      const ofUser = this.#count(this.#running, ({ owner }) => owner.user === user);
      const ofOrganization = this.#count(this.#running, ({ owner }) => owner.organization === organization);
      if (ofUser >= perUser || ofOrganization >= perOrganization || ofUser + ofOrganization >= fewest) continue;
      [next, fewest] = [work, ofUser + ofOrganization];
    }
    return next;
  }
}
