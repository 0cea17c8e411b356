/**
 * Owns what the kernel enforces: applies a policy without a gap, detects changes by other programs, and repairs them.
 */
import { setImmediate } from 'node:timers/promises';
import {
  basesOf,
  hookPriority,
  rulesOfTable,
  tableNames,
  type Command,
  type Ruleset,
  type TableName,
  type TableRules,
} from '../../nft/ast.ts';
import { compile, forwardPolicy, type CompileOptions } from '../../nft/compile/compile.ts';
import { decompile, type Decompiled } from '../../nft/read/decompile.ts';
import type { Installed, InstalledTables } from '../../nft/read/listing.ts';
import type { Finding } from '../../nft/read/read-chain.ts';
import { isSmall, plan, rebuild, remove, resetBases, stageBatches, type Update } from '../../nft/plan/plan.ts';
import { isLarge } from '../../nft/plan/transactions.ts';
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import { sameDigest } from '../../policy/digest/digest.ts';
import { samePolicy } from '../../policy/same-policy.ts';
import { sameServerAccess } from '../../policy/server-access.ts';
import { holding, memberUpdate, type Membership } from './member-update.ts';
import type { RecordingTable } from './flow-recorder.ts';
import { NftError, type Nft } from './nft.ts';
import { outcomeOf } from './table-model.ts';
import { foreignParts, otherRules, surplus, tableGone, type TableChange } from './drift.ts';

/** What is to be enforced, and where. */
export interface Target extends Omit<CompileOptions, 'salt'> {
  /** By addresses. */
  readonly policy: CanonicalPolicy;
  /**
   * The same policy with peers by name: then members of maps are added and removed in place, and chains change only
   * with the rules. Absent where the policy names no peer, or is to be enforced by addresses.
   */
  readonly named?: CanonicalPolicy | undefined;
  /** Who is named; targets of one form that differ in this alone are turned into each other by what changed. */
  readonly membership?: Membership | undefined;
}

const compileTarget = (target: Target, salt: string): Ruleset => {
  const { policy, named, membership: _, ...options } = target;
  return compile(named ?? policy, { ...options, salt });
};

/** What is done before the kernel turns to a target, each once an attempt; where it fails, so does the update. */
export interface BeforeSwitch {
  /** The new parts are on their way to the kernel. The answer is called when it has taken them, before it turns to them. */
  readonly whileStaging: () => () => Promise<void>;
  /** New parts and the turn to them are about to go to the kernel as one: nothing is there to wait beside. */
  readonly atOnce: () => void;
}

/** The steps of an update; a test may stop the world at each. An update that is made at once has none that is `staged`. */
export type Failpoint = 'before-stage' | 'staged' | 'flipped' | 'before-collect' | 'collected';

export interface EnforcerOptions {
  readonly nft: Nft;
  readonly random: () => number;
  readonly failpoint?: (at: Failpoint) => void | Promise<void>;
}

export interface Inspection {
  /** What was not as we left it. Empty means that the kernel holds what it should. */
  readonly findings: readonly Finding[];
}

export interface Verification extends Inspection {
  /** The policy as read back from the kernel; absent where nothing is in force. */
  readonly policy?: CanonicalPolicy;
}

/** Thrown where the kernel holds our rules to the letter, and they read as another policy than was asked for. */
class ReadBackMismatch extends Error {
  readonly code = 'unfaithful';
}

/** So many commands are worked out in less time than it takes to turn to them. */
const fewCommands = 64;

/** How often an update is planned anew because what was believed to be installed was not. */
const attempts = 4;

/**
 * Keeps our tables equal to a target. Its calls are made one at a time.
 *
 * It promises that packets always meet the rules of the old target or those of the new one, and that a call that fails
 * leaves one of the two in force.
 */
export class Enforcer {
  readonly #nft: Nft;
  readonly #options: EnforcerOptions;
  #salt = '';
  #inForce: { readonly target: Target; readonly ruleset: Ruleset } | undefined;
  /** What the kernel holds as far as we know; absent when somebody else may have changed it. */
  #known: InstalledTables | undefined;
  /** Whether what is known was compared with what is in force, and is the same. */
  #agrees = false;
  /** How often somebody was seen at our tables, and how many of these are dealt with. */
  readonly #touched = { seen: 0, settled: 0 };

  constructor(options: EnforcerOptions) {
    this.#nft = options.nft;
    this.#options = options;
  }

  /** What was put in force last. */
  get target(): Target | undefined {
    return this.#inForce?.target;
  }

  /** The sets that rules in force record into. */
  get recording(): readonly RecordingTable[] {
    const ruleset = this.#inForce?.ruleset;
    return tableNames.flatMap((table) => {
      const sets = (ruleset && rulesOfTable(ruleset, table))?.sets;
      return sets === undefined ? [] : [{ table, sets }];
    });
  }

  /** Reads what the kernel enforces, independent of what this enforcer wrote. */
  async read(): Promise<Decompiled | undefined> {
    const { service } = await this.#list();
    return service && decompile(service);
  }

  /** The table as it was last read; absent where it is not there, or nobody has read it. */
  get installed(): Installed | undefined {
    return this.#known?.service;
  }

  /**
   * Puts the target in force: stages what is new, then turns to it at one instant, or does both at once where that is
   * little. Leaves the old parts to `collect`. Answers whether the kernel was changed. Throws `NftError`, and then what was in force still is; only after
   * `interrupted` or `timed_out` may the target be in force already.
   */
  async apply(target: Target, before?: BeforeSwitch): Promise<boolean> {
    const changed = await this.#changeMembers(target);
    if (changed !== undefined) return changed;
    for (let attempt = 1; ; attempt++) {
      const fresh = this.#known === undefined;
      const { installed, compiled } = await this.#prepare(target);
      const { ruleset, update } = this.#plan(installed, target, compiled);
      try {
        await this.#options.failpoint?.('before-stage');
        for (const batch of update.members ?? []) await this.#run(batch);
        if (isSmall(update)) {
          before?.atOnce();
          await this.#run([...update.stage, ...update.flip]);
        } else {
          const staging = this.#run(update.stage, stageBatches(update.stage));
          const beforeFlip = before?.whileStaging();
          await staging;
          await this.#options.failpoint?.('staged');
          await beforeFlip?.();
          await this.#run(update.flip);
        }
        this.#inForce = { target, ruleset };
        this.#agrees = this.#known !== undefined;
        await this.#options.failpoint?.('flipped');
        return update.members !== undefined || update.stage.length > 0 || update.flip.length > 0;
      } catch (error) {
        this.#known = undefined;
        const stale = error instanceof NftError && error.code === 'refused' && !fresh;
        // Once at once; a program that is ended again and again, or takes too long, is left to a caller who waits.
        const cut = error instanceof NftError && error.code === 'interrupted' && attempt === 1;
        if (attempt >= attempts || !(stale || cut)) throw error;
      }
    }
  }

  /** Takes away what nothing refers to any more. Not at once after an update: a packet may still be on its way there. */
  async collect(): Promise<void> {
    if (this.#inForce === undefined) return;
    const update = planFrom(this.#known ?? (await this.#list()), this.#inForce.ruleset);
    if (update.kind === 'tampered' || update.collect.length === 0) return;
    await this.#options.failpoint?.('before-collect');
    await this.#run(update.collect).catch((error: unknown) => {
      this.#known = undefined;
      throw error;
    });
    await this.#options.failpoint?.('collected');
  }

  /** How much there is for `collect`, in chains and objects. */
  get garbage(): number {
    const [known, ruleset] = [this.#known, this.#inForce?.ruleset];
    if (known === undefined || ruleset === undefined) return 0;
    return tableNames.reduce((sum, table) => sum + surplus(known[table], rulesOfTable(ruleset, table)), 0);
  }

  /** Reads the kernel, compares, and puts right what differs. */
  async inspect(): Promise<Inspection> {
    const { seen } = this.#touched;
    const inspection = await this.#inspect();
    this.#touched.settled = seen;
    return inspection;
  }

  async #inspect(): Promise<Inspection> {
    const before = this.#known;
    const installed = await this.#list();
    if (this.#inForce === undefined) return { findings: [] };
    const { target, ruleset } = this.#inForce;
    const update = planFrom(installed, ruleset);
    const isInForce = update.kind === 'update' && update.members === undefined;
    if (isInForce && update.stage.length === 0 && update.flip.length === 0) {
      this.#agrees = true;
      const findings = tableNames.flatMap((table) => {
        const rules = rulesOfTable(ruleset, table);
        return rules === undefined ? [] : foreignParts(installed[table], rules, before?.[table]);
      });
      if (findings.length > 0) await this.collect();
      return { findings };
    }
    const findings = findingsIn(installed, ruleset);
    await this.apply(target);
    return { findings: findings.length > 0 ? findings : [otherRules] };
  }

  /** Like `inspect`, and reads the policy back out of the rules: it must be the one that was to be put in force. */
  async verify(): Promise<Verification> {
    const inspection = await this.inspect();
    const [installed, inForce] = [this.#known, this.#inForce];
    if (inForce === undefined || installed?.service === undefined) return inspection;
    const policy = readBack(installed, inForce.target);
    if (policy !== undefined) return { ...inspection, policy };
    const why = findingsIn(installed, inForce.ruleset).map(({ detail }) => detail);
    throw new ReadBackMismatch(`the rules in the kernel do not match the policy: ${why.join('; ') || 'they differ'}`);
  }

  /**
   * Undoes at once what somebody else may have done, without reading the kernel first: turns the base chains that were changed to the
   * rules that should be in force. An `inspect` must follow; it finds what this could not see.
   */
  async repair(change: TableChange): Promise<void> {
    this.#known = undefined;
    if (this.#inForce === undefined) return;
    const { target, ruleset } = this.#inForce;
    const helpers = [...ruleset.helpers, ...(ruleset.forward?.helpers ?? [])];
    const whole = change.tables.size > 0;
    if (!whole && helpers.some(({ name }) => change.chains.has(name))) {
      // What hangs below a base chain was changed in place: new chains take their place, under new names.
      this.#reSalt();
      const renamed = compileTarget(target, this.#salt);
      if (await this.#attempt(withNewHelpers(renamed))) this.#inForce = { target, ruleset: renamed };
      return;
    }
    if (!whole && (await this.#attempt({ stage: [], flip: resetBases(ruleset, change.chains) }))) return;
    // A table that was deleted may be there again: an inspection can come before the monitor's word. To add to it would double its rules.
    const anew = whole ? rebuild(ruleset, change.tables) : undefined;
    // So much is loaded in parts. To learn what is there takes little time where the table is gone.
    if (anew !== undefined && isLarge(anew)) return void (await this.apply(target));
    if (anew !== undefined && (await this.#attempt({ stage: [], flip: anew }))) return;
    await this.#nft.run(rebuild(ruleset));
  }

  /** Somebody else may have changed our tables: the next step reads the kernel before it trusts. */
  distrust(): void {
    this.#known = undefined;
  }

  /** Somebody else was seen at our tables. */
  noteChange(): void {
    this.distrust();
    this.#touched.seen += 1;
  }

  /** Nobody was seen at our tables since they were compared with what is in force. */
  get isTrusted(): boolean {
    return this.#touched.settled === this.#touched.seen;
  }

  /** Takes our tables away. */
  async remove(): Promise<void> {
    this.#inForce = undefined;
    this.#known = undefined;
    await this.#nft.run([...remove(), { kind: 'removeEndedTable' }]);
  }

  /**
   * The short way where only those that rules name differ: what changed of them, and nothing is read or compared whole. Answers whether
   * the kernel was changed; nothing where there is no such way, or the kernel does not take it, and then the long one helps.
   */
  async #changeMembers(target: Target): Promise<boolean | undefined> {
    const [known, inForce] = [this.#known, this.#inForce];
    if (known === undefined || inForce === undefined || !this.#agrees) return undefined;
    const update = memberUpdate(inForce, target);
    if (update === undefined) return undefined;
    const { failpoint } = this.#options;
    try {
      if (failpoint !== undefined) await failpoint('before-stage');
      for (const batch of update.batches) await this.#nft.run(batch);
    } catch (error) {
      this.#known = undefined;
      if (error instanceof NftError) return undefined;
      throw error;
    }
    this.#inForce = { target, ruleset: update.ruleset };
    // Somebody may have been seen at it meanwhile.
    if (this.#known !== undefined) this.#known = holding(known, update.ruleset);
    if (failpoint !== undefined) await failpoint('flipped');
    return update.batches.length > 0;
  }

  async #list(): Promise<InstalledTables> {
    this.#known = undefined;
    this.#agrees = false;
    const ruleset = this.#inForce?.ruleset;
    const list = (table: TableName): Promise<Installed | undefined> =>
      this.#nft.list(table, ruleset && rulesOfTable(ruleset, table));
    const [service, forward] = [await list('service'), await list('service-forward')];
    this.#known = { service, 'service-forward': forward };
    return this.#known;
  }

  /** What is installed, and the target's rules: made while the kernel is read, where it has to be. */
  async #prepare(target: Target): Promise<{ readonly installed: InstalledTables; readonly compiled: Ruleset }> {
    if (this.#known !== undefined) return { installed: this.#known, compiled: compileTarget(target, this.#salt) };
    const compiling = setImmediate().then(() => compileTarget(target, this.#salt));
    const [installed, compiled] = await Promise.all([this.#list(), compiling]);
    return { installed, compiled };
  }

  #plan(
    installed: InstalledTables,
    target: Target,
    compiled: Ruleset,
  ): { ruleset: Ruleset; update: Omit<Update, 'kind'> } {
    for (let ruleset = compiled; ; ruleset = compileTarget(target, this.#salt)) {
      const update = planFrom(installed, ruleset);
      if (update.kind === 'update') return { ruleset, update };
      this.#reSalt();
    }
  }

  #reSalt(): void {
    this.#salt = Math.floor(this.#options.random() * 2 ** 52).toString(36);
  }

  /** Runs the commands. Default: as one transaction. */
  async #run(commands: readonly Command[], batches: readonly (readonly Command[])[] = [commands]): Promise<void> {
    if (commands.length === 0) return;
    const before = this.#known;
    // What a long batch leaves is worked out while the kernel takes it.
    const early = before !== undefined && commands.length > fewCommands;
    const after = early ? setImmediate().then(() => outcomeOf(before, commands)) : undefined;
    const inOrder = async (): Promise<void> => {
      for (const batch of batches) await this.#nft.run(batch);
    };
    await Promise.all([inOrder(), after]);
    // Somebody may have been seen at it meanwhile.
    if (before === undefined || this.#known === undefined) return;
    this.#known = after === undefined ? outcomeOf(before, commands) : await after;
  }

  /** Runs the transactions; false when the kernel refuses one. */
  async #attempt({ stage, flip }: Pick<Update, 'stage' | 'flip'>): Promise<boolean> {
    try {
      for (const batch of stageBatches(stage)) await this.#nft.run(batch);
      await this.#nft.run(flip);
      return true;
    } catch (error) {
      if (error instanceof NftError && error.code === 'refused') return false;
      throw error;
    }
  }
}

const callsForRepair = ({ code }: Finding): boolean => code !== 'unused_chain';

const planFrom = (installed: InstalledTables, ruleset: Ruleset): ReturnType<typeof plan> =>
  plan(installed.service, ruleset, installed['service-forward']);

/** What in our tables calls for a repair. */
function findingsIn(installed: InstalledTables, ruleset: Ruleset): readonly Finding[] {
  return tableNames.flatMap((table) => {
    const found = installed[table];
    if (found === undefined) return rulesOfTable(ruleset, table) === undefined ? [] : [tableGone];
    return decompile(found, table).findings.filter(callsForRepair);
  });
}

/** What the kernel holds, where it reads as the target. */
function readBack(
  installed: InstalledTables,
  { policy, named, serverAccess, forwarding }: Target,
): CanonicalPolicy | undefined {
  // By names, addresses are cut otherwise into shares and ports; what is matched is the same.
  const same = named === undefined ? samePolicy : sameDigest;
  const read = tableNames.map((table) => {
    const found = installed[table];
    return found === undefined ? undefined : decompile(found, table).enforced;
  });
  const [own, forward] = read;
  if (own === undefined || !same(own.policy, policy)) return undefined;
  if (own.serverAccess !== undefined && !sameServerAccess(own.serverAccess, serverAccess)) return undefined;
  const judged = forwarding === undefined ? undefined : forwardPolicy(named ?? policy, forwarding, policy);
  const isSame =
    judged === undefined || forward === undefined
      ? installed['service-forward'] === undefined
      : same(forward.policy, judged);
  return isSame ? own.policy : undefined;
}

/** The update that helps whatever the chains hold, as long as the counters are there: the names of the helpers are new. */
function withNewHelpers(ruleset: Ruleset): Pick<Update, 'stage' | 'flip'> {
  const suspect = (rules: TableRules): Installed => {
    const bases = basesOf(rules).map(({ name, hook }) => ({
      name,
      attachment: { type: 'filter', hook, priority: hookPriority[hook], policy: 'unknown' },
      rules: [{ kind: 'foreign' as const, json: 'unknown' }],
    }));
    const chains = new Map(bases.map((chain) => [chain.name as string, chain]));
    return { flagged: true, chains, objects: rules.counters.map((name) => ({ object: 'counter', name })) };
  };
  const update = plan(suspect(ruleset), ruleset, ruleset.forward && suspect(ruleset.forward));
  if (update.kind === 'tampered') throw new Error('chains of our own making cannot differ from themselves');
  return update;
}
