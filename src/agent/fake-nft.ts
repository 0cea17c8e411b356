/** Owns a packet filter in memory that answers as the kernel does: tests of the agent run on it without any rights. */
import { targets, type Command, type Rule } from '../nft/ast.ts';
import { isAttachedTo, type Attachment, type Installed, type InstalledRule } from '../nft/listing.ts';
import { NftError, type Nft, type NftErrorCode } from './nft.ts';

interface Chain {
  readonly name: string;
  readonly attachment?: Attachment;
  readonly rules: readonly InstalledRule[];
}

/** Every change makes a new table, so a batch works on a copy at no cost and the old one stays for a rollback. */
interface Table {
  readonly flagged: boolean;
  readonly chains: ReadonlyMap<string, Chain>;
  readonly objects: Installed['objects'];
}

type State = Table | undefined;
type Handlers = { readonly [K in Command['kind']]: (state: State, command: Extract<Command, { kind: K }>) => State };

const refuse = (why: string): never => {
  throw new NftError('refused', `nft refused the batch: Could not process rule: ${why}`);
};
const noSuchFile = 'No such file or directory';

const present = (state: State): Table => state ?? refuse(noSuchFile);
const chainOf = (table: Table, name: string): Chain => table.chains.get(name) ?? refuse(noSuchFile);
const withChain = (table: Table, chain: Chain): Table => ({
  ...table,
  chains: new Map(table.chains).set(chain.name, chain),
});

const rulesOf = ({ rules }: Chain): Rule[] => rules.flatMap((each) => (each.kind === 'known' ? [each.rule] : []));
const isUsed = (table: Table, name: string): boolean =>
  [...table.chains.values()].some((chain) => rulesOf(chain).some((rule) => targets(rule).some((t) => t === name)));

/** The kernel follows the jumps of a base chain this deep. */
const deepest = 16;

/** The kernel looks for loops from where packets come in. */
function refuseLoops(table: Table, name: string, above: readonly string[]): void {
  if (above.includes(name) || above.length > deepest) refuse('Too many links');
  const chain = table.chains.get(name);
  for (const target of new Set(chain === undefined ? [] : rulesOf(chain).flatMap(targets))) {
    refuseLoops(table, target, [...above, name]);
  }
}

const handlers: Handlers = {
  addTable: (state) => ({ chains: new Map(), objects: [], ...state, flagged: false }),
  deleteTable: (state) => {
    present(state);
    return undefined;
  },
  addBaseChain: (state, { name, hook }) => {
    const table = present(state);
    const old = table.chains.get(name);
    if (old !== undefined && !isAttachedTo(old, hook)) refuse('Operation not supported');
    const attachment = { type: 'filter', hook, priority: 0, policy: 'accept' };
    return withChain(table, { name, attachment, rules: old?.rules ?? [] });
  },
  addChain: (state, { name }) => {
    const table = present(state);
    return table.chains.has(name) ? table : withChain(table, { name, rules: [] });
  },
  flushChain: (state, { name }) => {
    const table = present(state);
    return withChain(table, { ...chainOf(table, name), rules: [] });
  },
  deleteChain: (state, { name }) => {
    const table = present(state);
    chainOf(table, name);
    const chains = new Map(table.chains);
    chains.delete(name);
    const rest = { ...table, chains };
    if (isUsed(rest, name)) refuse('Device or resource busy');
    return rest;
  },
  addRule: (state, { chain: name, rule }) => {
    const table = present(state);
    const chain = chainOf(table, name);
    for (const target of targets(rule)) {
      if (chainOf(table, target).attachment !== undefined) refuse('Operation not supported');
    }
    return withChain(table, { ...chain, rules: [...chain.rules, { kind: 'known', rule }] });
  },
  deleteObject: (state, { object, name }) => {
    const table = present(state);
    const objects = table.objects.filter((each) => each.object !== object || each.name !== name);
    if (objects.length === table.objects.length) refuse(noSuchFile);
    return { ...table, objects };
  },
};

function applyBatch(state: State, commands: readonly Command[]): State {
  let next = state;
  for (const command of commands) {
    const handler = handlers[command.kind] as (state: State, command: Command) => State;
    next = handler(next, command);
  }
  for (const { name, attachment } of next?.chains.values() ?? []) {
    if (next !== undefined && attachment !== undefined) refuseLoops(next, name, []);
  }
  return next;
}

export class FakeNft implements Nft {
  /** What is written in tests as the author of a change that this port made. */
  readonly pid = 1;
  #state: State;
  #closed = false;
  #failure: { readonly code: NftErrorCode; readonly effect: 'none' | 'done' } | undefined;
  #transactions = 0;

  /** How many batches were taken so far. */
  get transactions(): number {
    return this.#transactions;
  }

  async run(commands: readonly Command[]): Promise<void> {
    await this.#turn();
    if (commands.length === 0) return;
    const next = applyBatch(this.#state, commands);
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure?.effect !== 'none') {
      this.#state = next;
      this.#transactions++;
    }
    if (failure !== undefined) throw new NftError(failure.code, `a test wants nft to be ${failure.code}`);
  }

  async list(): Promise<Installed | undefined> {
    await this.#turn();
    return this.#state;
  }

  owns(process: number): boolean {
    return process === this.pid;
  }

  async close(): Promise<void> {
    await this.#turn();
    this.#closed = true;
  }

  /** Somebody else's hand: changes the table past the port. */
  tamper(change: (table: Installed | undefined) => Installed | undefined): void {
    this.#state = change(this.#state);
  }

  /** The next batch fails so, with its effect or without. */
  failNext(code: NftErrorCode, effect: 'none' | 'done' = 'none'): void {
    this.#failure = { code, effect };
  }

  async #turn(): Promise<void> {
    await Promise.resolve();
    if (this.#closed) throw new NftError('closed', 'the packet filter is closed');
  }
}
