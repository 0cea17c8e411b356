/** Owns the agent's loop: handlers mark, the loop reads the marks, takes one step at a time and survives its failure. */
import type { Clock } from '../../client/clock.ts';
import { samePolicy } from '../../policy/same.ts';
import { beginning, chargeOf, type Charge, type UntilFirstPolicy } from './desired-policy.ts';
import { countsOf, forgetOthers } from './packet-counts.ts';
import {
  chooseDriver,
  printSelector,
  type Driver,
  type Link,
  type Note,
  type Selector,
} from '../host/driver-interface.ts';
import { Enforcer, type Failpoint, type Look, type Target } from '../kernel/enforcer.ts';
import type { KeptPolicy } from '../state/last-good-policy.ts';
import type { Log } from '../host/log.ts';
import type { Author, News } from '../kernel/monitor-events.ts';
import type { Nft } from '../kernel/nft.ts';
import type { Revocation, Revoked } from '../host/revoke-flows.ts';
import type { PolicySource } from '../source/policy-source.ts';
import type { StateFolder } from '../state/state-folder.ts';
import type { AgentStatus, Drift, Trouble } from './status.ts';
import { nextStep, stepWords, type NotBefore, type StepKind } from './step.ts';
import { Tally } from '../kernel/counter-totals.ts';
import type { Touched } from '../kernel/drift.ts';

/** A watcher of the kernel that runs beside the loop. */
export interface Watcher {
  start(): void;
  stop(): Promise<void>;
}

export interface AgentOptions {
  readonly nft: Nft;
  readonly source: PolicySource;
  readonly selector: Selector;
  readonly untilFirstPolicy: UntilFirstPolicy;
  readonly clock: Clock;
  /** Milliseconds that only ever go forward, whatever happens to the time of day. */
  readonly monotonic: () => number;
  readonly random: () => number;
  readonly log: Log;
  /** Absent: nothing is kept for the next start. */
  readonly state?: StateFolder;
  /** Absent: established connections outlive the rule that admitted them. */
  readonly revoke?: (revocation: Revocation) => Promise<Revoked>;
  readonly filterNews: (onNews: (news: News) => void) => Watcher;
  readonly links: (onChange: () => void) => Watcher & { read(): Promise<readonly Link[]> };
  /** What is known about a process besides its number and name. */
  readonly describe?: (author: Author) => string;
  /** Milliseconds between two looks at the kernel without a reason. */
  readonly lookEvery?: number;
  readonly failpoint?: (at: Failpoint) => void | Promise<void>;
  /** Told after every step that changed what there is to tell. */
  readonly onStatus?: (status: AgentStatus) => void;
}

interface InForce {
  readonly charge: Charge;
  readonly driver: Driver;
  readonly target: Target;
}

const minute = 60_000;
/** The kernel's monitor needs a moment before it sees everything. */
const settleTime = 1_000;
/** A packet on its way through old chains is gone by then. */
const collectAfter = 1_000;
/** Reading the kernel takes longer with each old part; from so many on it is worth waiting until they are gone. */
const crowd = 200;
/** A look may take this part of the agent's time: at 100,000 ranges it takes a second. */
const lookShare = 200;
const firstWait = 250;
const longestWait = 30_000;

export class Agent {
  readonly #options: AgentOptions;
  readonly #enforcer: Enforcer;
  readonly #links: Watcher & { read(): Promise<readonly Link[]> };
  readonly #monitor: Watcher;
  readonly #startedAt: number;

  #charge: Charge | undefined;
  #driver: Driver | undefined;
  #target: Target | undefined;
  #inForce: InForce | undefined;
  #keptCharge: Charge | undefined;
  #keptInterface: string | undefined;
  #revokeFrom: Target['policy'] | undefined;

  #linksChanged = true;
  #unbegun = true;
  #newsFromSource = false;
  #touched: Touched | undefined;
  #unverified = false;
  #lookAt: number;
  #collectAt: number | undefined;
  #last: StepKind | undefined;
  readonly #failures = new Map<StepKind, { count: number; notBefore: number; trouble: Trouble }>();
  #wake: (() => void) | undefined;

  /** The kernel has named a process of ours as an author: so its numbers are ours, and a stranger is a stranger. */
  #authorsAreKnown = false;
  #drifts: { by: string; what: readonly string[] }[] = [];
  #driftRepairs = 0;
  #lastDrift: Drift | undefined;
  #applies = 0;
  #revoked = 0;
  #appliedAt: number | undefined;
  #verifiedAt: number | undefined;
  #held: string | undefined;
  #tally = new Tally();
  #lastError: Trouble | undefined;

  constructor(options: AgentOptions) {
    this.#options = options;
    const { nft, random, failpoint } = options;
    this.#enforcer = new Enforcer({ nft, random, ...(failpoint && { failpoint }) });
    this.#links = options.links(() => this.#mark(() => (this.#linksChanged = true)));
    this.#monitor = options.filterNews((news) => this.#hear(news));
    this.#lookAt = options.monotonic() + minute;
    this.#startedAt = options.clock.now();
  }

  /** Enforces until the signal is aborted. What is in force then stays. */
  async run({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    const { source } = this.#options;
    const end = source.onNews(() => this.#mark(() => (this.#newsFromSource = true)));
    const onAbort = (): void => this.#wake?.();
    signal.addEventListener('abort', onAbort, { once: true });
    this.#links.start();
    this.#monitor.start();
    let following: Promise<void> | undefined;
    try {
      while (!signal.aborted) {
        this.#refresh();
        const next = this.#next();
        if (next.kind === 'wait') {
          // Nobody is asked before what is known already is in force, or has failed to be.
          following ??= source.run({ signal }).catch((fault: unknown) => this.#sourceEnded(fault, signal));
          await this.#sleep(next.until);
        } else await this.#take(next.step);
      }
    } finally {
      signal.removeEventListener('abort', onAbort);
      end();
      await Promise.all([this.#links.stop(), this.#monitor.stop(), following]);
      await this.#keepTally();
    }
  }

  /** Reads the counters, for a status that is of this moment. Where they cannot be read, the totals stay. */
  async count(): Promise<void> {
    const readings = await this.#options.nft.counters().catch(() => undefined);
    if (readings !== undefined) this.#tally.see(readings);
  }

  /** Takes our table away. */
  remove(): Promise<void> {
    return this.#enforcer.remove();
  }

  get status(): AgentStatus {
    const charge = this.#inForce?.charge;
    return {
      startedAt: this.#startedAt,
      selector: printSelector(this.#options.selector),
      driver: this.#driver,
      inForce: charge && withoutRules(charge),
      appliedAt: this.#appliedAt,
      verifiedAt: this.#verifiedAt,
      pending: this.#target === undefined || this.#target !== this.#inForce?.target,
      held: this.#held,
      applies: this.#applies,
      driftRepairs: this.#driftRepairs,
      lastDrift: this.#lastDrift,
      revokedConnections: this.#revoked,
      counts: countsOf(this.#tally, charge),
      troubles: [...this.#failures.values()].map(({ trouble }) => trouble),
      lastError: this.#lastError,
      connection: this.#options.source.connection,
    };
  }

  #mark(change: () => void): void {
    change();
    this.#wake?.();
  }

  #hear(news: News): void {
    const { nft, monotonic, describe } = this.#options;
    const now = monotonic();
    if (news.kind === 'lost') {
      this.#mark(() => {
        this.#enforcer.distrust();
        this.#lookAt = Math.min(this.#lookAt, now + settleTime);
      });
      return;
    }
    const { author, touched, lines } = news.generation;
    if (author !== undefined && nft.owns(author.pid)) {
      this.#authorsAreKnown = true;
      return;
    }
    if (touched === undefined) return;
    this.#mark(() => {
      this.#enforcer.distrust();
      if (!this.#authorsAreKnown) {
        // It may have been ourselves under another number: only a look tells.
        this.#lookAt = now;
        return;
      }
      const by = author === undefined ? 'unknown' : (describe?.(author) ?? `${author.name} (${author.pid})`);
      this.#drifts.push({ by, what: lines });
      this.#touched = {
        tables: new Set([...touched.tables, ...(this.#touched?.tables ?? [])]),
        chains: new Set([...touched.chains, ...(this.#touched?.chains ?? [])]),
      };
    });
  }

  /** Takes in what the source knows, and works out what should be in force. */
  #refresh(): void {
    // What is known here comes first, or it would overwrite what the source says.
    if (this.#newsFromSource && !this.#unbegun) {
      this.#newsFromSource = false;
      this.#ask();
      this.#tell();
    }
    const [charge, driver] = [this.#charge, this.#driver];
    if (charge === undefined || driver === undefined) return;
    const { name, neighbourDiscovery } = driver;
    const old = this.#target;
    if (old?.policy === charge.canonical && old.interface === name && old.neighbourDiscovery === neighbourDiscovery) {
      return;
    }
    this.#target = { policy: charge.canonical, interface: name, neighbourDiscovery };
    this.#failures.delete('apply');
  }

  #ask(): void {
    const { source, log } = this.#options;
    const knowledge = source.read();
    if (knowledge.kind === 'unknown') {
      const { why, early } = knowledge;
      if (this.#held !== why) log(early === true ? 'debug' : 'warn', `the rules stay as they are: ${why}`);
      this.#held = early === true ? undefined : why;
      return;
    }
    this.#held = undefined;
    const { policy, revision, own } = knowledge;
    const seen = { revision, ...(own !== undefined && { own }) };
    const old = this.#charge;
    const before = old?.policy;
    const same =
      before?.source === policy.source &&
      before.groups.length === policy.groups.length &&
      before.groups.every((group, i) => group === policy.groups[i]);
    if (old !== undefined && same && old.origin === 'server') {
      this.#charge = { ...old, ...seen };
    } else {
      const charge = chargeOf('server', policy, revision);
      // Groups written otherwise that mean the same change no rule.
      const means = old !== undefined && samePolicy(old.canonical, charge.canonical) ? old.canonical : charge.canonical;
      this.#charge = { ...charge, ...seen, canonical: means };
    }
    const inForce = this.#inForce;
    if (inForce?.charge.canonical === this.#charge.canonical) this.#inForce = { ...inForce, charge: this.#charge };
  }

  #next(): ReturnType<typeof nextStep> {
    const notBefore: NotBefore = Object.fromEntries([...this.#failures].map(([step, each]) => [step, each.notBefore]));
    return nextStep({
      now: this.#options.monotonic(),
      last: this.#last,
      notBefore,
      marks: {
        linksChanged: this.#linksChanged,
        unbegun: this.#unbegun,
        touched: this.#touched !== undefined,
        unapplied: !this.#unbegun && this.#target !== undefined && this.#target !== this.#inForce?.target,
        unrevoked: this.#revokeFrom !== undefined && this.#options.revoke !== undefined,
        unkept: this.#isUnkept(),
        unverified: this.#unverified,
        lookAt: this.#lookAt,
        collectAt: this.#collectAt,
        crowded: this.#enforcer.garbage > crowd,
      },
    });
  }

  #isUnkept(): boolean {
    if (this.#options.state === undefined || this.#inForce === undefined) return false;
    const { charge, driver } = this.#inForce;
    if (charge.policy === undefined || charge.origin === 'first') return false;
    // A newer revision alone is not worth a write: in a large organization there is one all the time.
    return charge.policy !== this.#keptCharge?.policy || driver.name !== this.#keptInterface;
  }

  async #take(step: StepKind): Promise<void> {
    const { log, clock, monotonic, random } = this.#options;
    this.#last = step;
    try {
      await this.#steps[step]();
      if (this.#failures.delete(step)) log('info', `${stepWords[step]} works again`);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const before = this.#failures.get(step);
      const count = (before?.count ?? 0) + 1;
      const wait = Math.min(firstWait * 2 ** (count - 1), longestWait) * (0.75 + random() / 2);
      const trouble = { step, message, at: clock.now() };
      this.#failures.set(step, { count, notBefore: monotonic() + wait, trouble });
      this.#lastError = trouble;
      if (before?.trouble.message !== message)
        log('error', `${stepWords[step]} failed, rules stay as they are; trying again: ${message}`);
    }
    this.#tell();
  }

  readonly #steps: { readonly [K in StepKind]: () => Promise<void> } = {
    links: async () => {
      this.#linksChanged = false;
      try {
        const { driver, notes } = chooseDriver(this.#options.selector, await this.#links.read(), this.#driver);
        this.#driver = driver;
        for (const note of notes) this.#options.log(note.kind === 'renamed' ? 'warn' : 'info', sentence(note));
      } catch (error) {
        this.#linksChanged = true;
        this.#driver ??= chooseDriver(this.#options.selector, [], undefined).driver;
        throw error;
      }
    },
    begin: async () => {
      const { state, untilFirstPolicy, log, selector } = this.#options;
      const absent = { kind: 'absent' } as const;
      const [kept, intent] = [(await state?.read('policy')) ?? absent, (await state?.read('intent')) ?? absent];
      if (this.#driver === undefined && kept.kind === 'kept' && selector.kind === 'pattern') {
        // A pattern that finds nothing yet: the interface that it found last may come back under its name.
        const { interface: name, neighbourDiscovery } = kept.kept;
        this.#driver = { name, index: undefined, neighbourDiscovery };
      }
      const kernel = await this.#enforcer.read();
      // Before anything is put in force: counters that are not there now will begin anew.
      if (state !== undefined) this.#tally = await state.readTally();
      await this.count();
      const start = beginning({ kept, intent, kernel, driver: this.#driver, untilFirstPolicy });
      this.#charge = start.charge;
      this.#revokeFrom = start.unrevoked;
      if (kept.kind === 'kept' && start.unrevoked === undefined) {
        this.#keptCharge = start.charge;
        this.#keptInterface = kept.kept.interface;
      }
      this.#unbegun = false;
      for (const note of start.notes) log('warn', note);
    },
    repair: async () => {
      const touched = this.#touched;
      const drifts = this.#drifts;
      this.#touched = undefined;
      this.#drifts = [];
      if (touched === undefined) return;
      try {
        await this.#enforcer.repair(touched);
      } catch (error) {
        this.#touched = touched;
        this.#drifts = [...drifts, ...this.#drifts];
        throw error;
      }
      // What cannot be seen from the news, a look finds.
      this.#lookAt = this.#options.monotonic();
      for (const { by, what } of drifts) this.#noteDrift(by, what);
    },
    apply: async () => {
      const [target, charge, driver] = [this.#target, this.#charge, this.#driver];
      if (target === undefined || charge === undefined || driver === undefined) return;
      const { state, clock, monotonic, log } = this.#options;
      const before = this.#inForce;
      const kept = keptOf(charge, driver);
      const intend = state !== undefined && kept !== undefined ? () => state.intend(kept) : undefined;
      const changed = await this.#enforcer.apply(target, intend && (() => intend().catch(() => {})));
      this.#inForce = { charge, driver, target };
      if (before !== undefined && before.target.policy !== target.policy) this.#revokeFrom ??= before.target.policy;
      this.#applies++;
      this.#appliedAt = clock.now();
      this.#unverified = true;
      // What an agent before us left has been out of use for long enough.
      if (this.#enforcer.garbage > 0)
        this.#collectAt ??= monotonic() + (before === undefined && !changed ? 0 : collectAfter);
      log('info', changed ? 'a policy was put in force' : 'the policy is in force already', {
        origin: charge.origin,
        revision: charge.revision,
        interface: target.interface,
        groups: charge.policy?.groups.map(({ id }) => id).join(','),
      });
    },
    revoke: async () => {
      const [before, inForce, { revoke, log }] = [this.#revokeFrom, this.#inForce, this.#options];
      if (before === undefined || inForce === undefined || revoke === undefined) return;
      const { policy: after, interface: name } = inForce.target;
      const { count, trouble } = await revoke({ interface: name, before, after });
      this.#revokeFrom = undefined;
      this.#revoked += count;
      if (count > 0) log('info', 'connections were ended whose rule is gone', { count });
      if (trouble !== undefined) log('warn', trouble);
    },
    keep: async () => {
      const inForce = this.#inForce;
      const kept = inForce && keptOf(inForce.charge, inForce.driver);
      if (inForce === undefined || kept === undefined) return;
      await this.#options.state?.keep(kept);
      this.#keptCharge = inForce.charge;
      this.#keptInterface = inForce.driver.name;
    },
    verify: async () => {
      this.#found(await this.#enforcer.verify());
      this.#unverified = false;
      this.#verifiedAt = this.#options.clock.now();
    },
    look: async () => {
      const { monotonic, lookEvery = minute, clock } = this.#options;
      const from = monotonic();
      const look = await this.#enforcer.look();
      const now = monotonic();
      // A mark that came meanwhile asks for another look.
      if (this.#lookAt <= from) this.#lookAt = now + Math.max(lookEvery, (now - from) * lookShare);
      this.#found(look);
      this.#verifiedAt = clock.now();
      if (this.#enforcer.garbage > 0) this.#collectAt ??= now + collectAfter;
      await this.#keepTally();
    },
    collect: async () => {
      // Counters go too: what they have counted is read first, and kept of the groups that stay.
      await this.count();
      await this.#enforcer.collect();
      this.#collectAt = undefined;
      if (this.#inForce !== undefined) forgetOthers(this.#tally, this.#inForce.charge);
      await this.#keepTally();
    },
  };

  /** Counts, and writes the totals down. They are worth no trouble: what cannot be written is written the next time. */
  async #keepTally(): Promise<void> {
    await this.count();
    if (!this.#unbegun) await this.#options.state?.keepTally(this.#tally).catch(() => {});
  }

  #found({ findings }: Look): void {
    if (findings.length === 0) return;
    this.#noteDrift(
      'unknown',
      findings.map(({ name, detail }) => (name === '' ? detail : `${name}: ${detail}`)),
    );
  }

  #noteDrift(by: string, what: readonly string[]): void {
    this.#driftRepairs++;
    this.#lastDrift = { at: this.#options.clock.now(), by, what };
    this.#options.log('warn', 'somebody else changed our table; it was put right', { by, what: what.join('; ') });
  }

  #sourceEnded(fault: unknown, signal: AbortSignal): void {
    if (signal.aborted) return;
    const message = fault instanceof Error ? fault.message : String(fault);
    this.#options.log('error', `the policy source ended, rules stay as they are: ${message}`);
  }

  #tell(): void {
    this.#options.onStatus?.(this.status);
  }

  async #sleep(until: number): Promise<void> {
    const { clock, monotonic } = this.#options;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        cancel();
        this.#wake = undefined;
        resolve();
      };
      const cancel = clock.after(Math.min(until - monotonic(), minute), done);
      this.#wake = done;
    });
  }
}

const withoutRules = ({ origin, policy, revision, own }: Charge): Omit<Charge, 'canonical'> => ({
  origin,
  ...(policy && { policy }),
  ...(revision !== undefined && { revision }),
  ...(own !== undefined && { own }),
});

const keptOf = ({ policy, revision }: Charge, { name, neighbourDiscovery }: Driver): KeptPolicy | undefined =>
  policy && { policy, revision: revision ?? 0, interface: name, neighbourDiscovery };

function sentence(note: Note): string {
  switch (note.kind) {
    case 'renamed':
      return `the driver interface was renamed from ${note.from} to ${note.to}; the policy follows it`;
    case 'replaced':
      return `the given name is on another interface now; the policy leaves ${note.now}`;
    case 'several':
      return `the pattern finds several interfaces; the policy binds ${note.chosen}, not ${note.others.join(', ')}`;
    case 'gone':
      return `the interface ${note.name} is gone; its rules stay for when it comes back`;
    default:
      return note satisfies never;
  }
}
