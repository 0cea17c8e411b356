/** Owns the live view: every change of devices and groups as it happens, for people or as lines of JSON. */
import { watchKinds, type WatchKind } from '../../api/kinds.ts';
import type { Change } from '../../client/cache.ts';
import { createInformer, type Informer } from '../../client/informer.ts';
import type { ConnectionState } from '../../client/state.ts';
import { usageError } from '../terminal/exit.ts';
import { rulesInWords } from '../group/text.ts';
import { toJson, toYaml } from '../terminal/output.ts';
import type { Session } from '../session/session.ts';
import { closestWord } from '../../client/words/closest-word.ts';
import { printable } from '../../policy/names/printable.ts';

const words: Readonly<Record<string, WatchKind>> = {
  device: 'device',
  devices: 'device',
  'security-groups': 'security-groups',
  'security-group': 'security-groups',
  groups: 'security-groups',
  group: 'security-groups',
};

function readKinds(given: readonly string[]): readonly WatchKind[] {
  if (given.length === 0) return watchKinds;
  const kinds = given.map((word) => {
    const kind = words[word.toLowerCase()];
    if (kind !== undefined) return kind;
    const near = closestWord(word, Object.keys(words));
    throw usageError(
      `\`${word}\` is not a kind of change${near === undefined ? '' : ` (did you mean ${near}?)`}; known: ${watchKinds.join(', ')}`,
    );
  });
  return [...new Set(kinds)];
}

export interface FollowOptions {
  /** False: only what changes from now on. */
  readonly initial: boolean;
}

/** Until Ctrl-C, which is the way to end it: no failure. */
export async function follow(session: Session, given: readonly string[], { initial }: FollowOptions): Promise<void> {
  const { signal, terminal } = session;
  const kinds = readKinds(given);
  const client = await session.client();
  const organization = await session.organization();
  const informer = createInformer({ client, organization, kinds });
  let queue = Promise.resolve();
  informer.onChange((changes) => {
    if (!initial && !informer.synced) return;
    const now = new Date();
    queue = queue.then(async () => {
      for (const change of changes) terminal.out(await render(session, change, now));
    });
  });
  sayStates(session, informer, kinds);
  try {
    await informer.run({ signal });
  } finally {
    await queue;
  }
}

function sayStates(session: Session, informer: Informer, kinds: readonly WatchKind[]): void {
  let before: ConnectionState['phase'] = 'stopped';
  informer.onState(({ phase, lastError, retryAt }) => {
    if (phase === 'live' && before !== 'live') {
      const counts = kinds.map((kind) => {
        const { size } = informer.view(kind);
        return `${size} ${kind === 'device' ? 'device' : 'group'}${size === 1 ? '' : 's'}`;
      });
      session.say(
        `Up to date at revision ${informer.revision}: ${counts.join(', ')}. Waiting for changes. Press Ctrl-C to stop.`,
      );
    }
    if (phase === 'waiting' && before !== 'waiting' && lastError !== undefined) {
      const wait = Math.max(0, (retryAt ?? 0) - Date.now()) / 1_000;
      session.terminal.note(`ringfence: ${lastError.error.message}; trying again in ${wait.toFixed(1)} s`);
    }
    before = phase;
  });
}

async function render(session: Session, change: Change, now: Date): Promise<string> {
  switch (session.values.output) {
    case 'json':
      return toJson(document(change));
    case 'yaml':
      return `---\n${await toYaml(document(change))}`;
    case 'table':
    case 'wide':
      return session.values.quiet === true ? `${change.id}\n` : line(session, change, now);
    default:
      return session.values.output satisfies never;
  }
}

/** In the form of the wire. A resource that was found missing has the revision that it was last seen with. */
function document(change: Change): object {
  const { kind } = change;
  if (change.type !== 'deleted') return { type: 'change', kind, value: change.new };
  return { type: 'delete', kind, value: { ...change.old, revision: change.revision ?? change.old.revision } };
}

const signs = { added: ['+', 'green'], updated: ['~', 'yellow'], deleted: ['-', 'red'] } as const;

function line({ terminal: { paint } }: Session, change: Change, now: Date): string {
  const [sign, style] = signs[change.type];
  const record = change.type === 'deleted' ? change.old : change.new;
  const name = 'group_name' in record ? `group ${record.group_name}` : `device ${record.hostname}`;
  const revision = change.type === 'deleted' ? change.revision : change.new.revision;
  const details = change.type === 'updated' ? differences(change.old, change.new) : [];
  const head = `${paint('dim', now.toTimeString().slice(0, 8))} ${paint(style, `${sign} ${printable(name)}`)} ${record.id}`;
  const tail = [...(revision === undefined ? [] : [`revision ${revision}`]), ...details].map(printable).join(', ');
  return `${head}  ${paint('dim', tail)}\n`;
}

/** What is different, in the fewest words: rules by their words, other fields by their values. */
function differences(old: object, now: object): readonly string[] {
  const [before, after] = [old as Record<string, unknown>, now as Record<string, unknown>];
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names
    .filter((name) => !['revision', 'updated_at'].includes(name))
    .filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
    .flatMap((name) => {
      if (name === 'inbound_rules' || name === 'outbound_rules') return ruleDifferences(name, before, after);
      return [`${name} ${JSON.stringify(before[name] ?? null)} → ${JSON.stringify(after[name] ?? null)}`];
    });
}

function ruleDifferences(
  name: 'inbound_rules' | 'outbound_rules',
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): readonly string[] {
  const direction = name === 'inbound_rules' ? 'inbound' : 'outbound';
  const word = direction === 'inbound' ? 'in' : 'out';
  const read = (record: Readonly<Record<string, unknown>>): readonly string[] =>
    rulesInWords(direction, record[name] as Parameters<typeof rulesInWords>[1]);
  const [was, is] = [read(before), read(after)];
  return [
    ...was.filter((rule) => !is.includes(rule)).map((rule) => `removed ${word} ${rule}`),
    ...is.filter((rule) => !was.includes(rule)).map((rule) => `added ${word} ${rule}`),
  ];
}
