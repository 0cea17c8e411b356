/**
 * Proves that no regular expression of the product can run away: each takes time in proportion to the text, whatever the text is. A new
 * one is found here by itself. The few that are not linear are listed with the reason why their text is short or our own.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { check } from 'recheck';
import { parseSync } from 'vite';
import { describe, expect, it } from 'vitest';
import { isThorough } from './lib/thorough.ts';

interface Pattern {
  readonly file: string;
  readonly source: string;
  readonly flags: string;
}

/** Not linear, and why that is harmless. */
const listed: Readonly<Record<string, string>> = {
  '/\\/+$/': 'an address that its owner typed or stored',
  '/\\s*\\n\\s*/g': "our own words about a person's own command line",
  '/\\s*-\\s*/g': 'a rule that a person typed at its own terminal',
};

/**
 * Linear, as `npm run test:thorough` proves again. The checker takes longest for these: nine tenths of its time.
 * A pattern that changes is another one, and judged in every run.
 */
const judgedBefore: ReadonlySet<string> = new Set([
  '/^([0-9a-z]{1,9})\\.[\\w-]{43}\\.([\\w-]{0,1400})$/',
  '/^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?(\\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)*$/',
  '/^:([^@]*)@([\\x21-\\x7e]{1,4096})$/',
  '/^0+(?=\\d)/',
  '/^(inbound|outbound) ([a-z0-9]{1,8}) (\\d{1,5}) ([0-9a-f-]{36}|all-devices|label:[a-z0-9._/+-]{1,511}|[0-9a-f.:/]{2,43})$/',
  '/^(\\d{13,15})\\.(\\d{1,19})\\.(\\d{1,5})$/',
  '/^::ffff:(?=\\d+\\.)/',
  '/^s([0-9a-f-]{36})\\/(\\d{1,15})\\/(\\d{1,15})(?: |$)/',
  '/^Max open files\\s+(\\d+)/m',
  '/^(?:nft> )*(?:\\S+:\\d+:\\d+(?:-\\d+)?: )?(?:netlink: )?Error: (.*)$/',
  '/^Max open files\\s+(\\d+|unlimited)/m',
  '/^[\\x21-\\x3f\\x41-\\x7e]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,188}[A-Za-z0-9])?$/',
  '/^# new generation (\\d+)(?: by process (\\d+) \\((.*)\\))?/',
  '/^(?:\\[([^\\]]+)\\]|([^:[\\]]+)):(\\d{1,5})$/',
  '/(?:^|\\s)(src|dst|sport|dport|type|code|id)=(\\S+)/g',
  '/^\\/\\d+\\/(view|token)$/',
  '/\\{(\\w+)\\}/g',
  '/rf_(user|device|enroll|session)_[A-Za-z0-9_-]*/g',
  '/^\\d+\\.\\d+\\.|^[0-9a-f]*:[0-9a-f]*:/i',
  '/^(localhost|127(\\.\\d+){3}|\\[::1\\])$/',
  '/^\\s*\\d{1,9}\\s*$/',
  '/^\\s*(in|inbound|out|outbound)\\s+/i',
  '/^device:\\s*(\\S+)$/i',
  '/^postgres(?:ql)?:\\/\\/(?:([^/?#]*)@)?([^@/?#]*)(?:\\/([^?#]*))?(?:\\?([^#]*))?$/',
  '/\\(PostgreSQL\\) (\\d+)/',
  '/at position (\\d+)/',
  '/^(?:"(\\d{1,16})"|(\\d{1,16}))$/',
  '/^(localhost|127(\\.\\d+){3}|::1)$/',
  '/^([^-\\s]+)[ \\t]*-[ \\t]*([^-\\s]+)$/',
]);

/** `new RegExp(…)` of something that is no literal: what it is made of. */
const computed: Readonly<Record<string, string>> = {
  'agent/host/driver-interface.ts': "the operator's own --interface, matched with names of at most 15 characters",
  'agent/kernel/monitor-events.ts': 'put together of literals, matched with lines of the kernel',
  'cli/terminal/screen.ts': 'one class of characters, put together of literals',
  'policy/names/printable.ts': 'one class of characters, put together of literals',
};

const top = fileURLToPath(new URL('../src/', import.meta.url));

type Node = { readonly type?: string } & Readonly<Record<string, unknown>>;

function nodesOf(tree: unknown, found: Node[] = []): readonly Node[] {
  if (typeof tree !== 'object' || tree === null) return found;
  if ('type' in tree) found.push(tree as Node);
  for (const inner of Object.values(tree)) nodesOf(inner, found);
  return found;
}

/** Every regular expression in a text, and the number of those that are built dynamically. */
export function patternsOf(
  file: string,
  text: string,
): { readonly patterns: readonly Pattern[]; readonly computed: number } {
  const patterns: Pattern[] = [];
  let made = 0;
  for (const node of nodesOf(parseSync(file, text).program)) {
    const regex = node['regex'] as { readonly pattern: string; readonly flags: string } | undefined;
    if (node.type === 'Literal' && regex !== undefined) {
      patterns.push({ file, source: regex.pattern, flags: regex.flags });
    }
    const callee = node['callee'] as { readonly name?: string } | undefined;
    if ((node.type === 'NewExpression' || node.type === 'CallExpression') && callee?.name === 'RegExp') made += 1;
  }
  return { patterns, computed: made };
}

const files = readdirSync(top, { recursive: true, encoding: 'utf8' }).filter(
  (path) => /\.tsx?$/.test(path) && !/\.(test|fixture|contract)\.tsx?$/.test(path),
);
const read = files.map((path) => ({ path, ...patternsOf(path, readFileSync(`${top}${path}`, 'utf8')) }));

/** The checker stops an attack that takes a second, and calls it a success: a busy machine would make patterns vulnerable. Its limits on steps stay. */
const byStepsAlone = {
  timeout: 120_000,
  seedingTimeout: null,
  incubationTimeout: null,
  attackTimeout: null,
  randomSeed: 0,
} as const;

/**
 * Begins at the start of the text and repeats nothing, or one character in one place: then there are no more ways to match than the text is
 * long, times the few that optional parts make. Such patterns need no checker, which takes seconds for long counts.
 */
export function repeatsOneCharacterAtMost({ source, flags }: Pick<Pattern, 'source' | 'flags'>): boolean {
  // A class or an escaped character is one character; what else an escape can be is for the checker.
  const plain = source.replaceAll(/\[(?:\\.|[^\]\\])*\]|\\[^1-9kbBpPuxc]/g, 'C');
  if (!plain.startsWith('^') || flags.includes('m') || /[|\\]|\(\?[^:]/.test(plain)) return false;
  return !/\)[*+{]/.test(plain) && (plain.match(/[*+]|\{\d+,/g) ?? []).length <= 1;
}

/** What the checker says of a pattern: linear, or how it can be attacked. */
async function judge({ source, flags }: Pick<Pattern, 'source' | 'flags'>): Promise<string> {
  // Nothing to repeat, nothing to run away with.
  if (!/[*+]|\{\d+,/.test(source) || repeatsOneCharacterAtMost({ source, flags })) return 'linear';
  // In a program of its own where there is one for the machine, which takes a quarter of the processor time; else in JavaScript.
  const found = await check(source, flags, byStepsAlone);
  if (found.status === 'safe') return 'linear';
  return found.status === 'vulnerable' ? found.complexity.type : `unknown: ${found.error.kind}`;
}

describe('the regular expressions of the product', () => {
  it('are found, also those that stand in templates and arguments', () => {
    const { patterns, computed: made } = patternsOf(
      'x.ts',
      'f(/a+/g, `${b.replace(/c/u, "")}`); new RegExp(d); RegExp(e);',
    );
    expect(patterns.map(({ source, flags }) => `${source} ${flags}`)).toEqual(['a+ g', 'c u']);
    expect(made).toBe(2);
    expect(read.flatMap(({ patterns: found }) => found).length).toBeGreaterThan(100);
  });

  it('are made of literals, but for those that are listed', () => {
    const made = read.filter((file) => file.computed > 0).map(({ path }) => path);
    expect(made.toSorted()).toEqual(Object.keys(computed).toSorted());
  });

  it('are linear, but for those that are listed', async () => {
    const unique = new Map(
      read.flatMap(({ patterns }) => patterns).map((pattern) => [`/${pattern.source}/${pattern.flags}`, pattern]),
    );
    const found: string[] = [];
    expect(
      [...judgedBefore].filter((text) => !unique.has(text)),
      'known, and not there any more',
    ).toEqual([]);
    for (const [text, pattern] of unique) {
      if (!isThorough && judgedBefore.has(text)) continue;
      const isKnown = !isThorough && text in listed;
      const verdict = isKnown ? 'listed' : await judge(pattern);
      if (verdict !== 'linear') found.push(`${pattern.file} ${text}: ${verdict}`);
    }
    const unlisted = found.filter((line) => !Object.keys(listed).some((known) => line.includes(` ${known}: `)));
    expect(unlisted).toEqual([]);
    const outdated = Object.keys(listed).filter((known) => !found.some((line) => line.includes(` ${known}: `)));
    expect(outdated, 'listed, and not there or linear by now').toEqual([]);
  });

  it('need no checker where they repeat one character in one place, and only there', () => {
    const without = ['^[\\x21-\\x7e]{8,4096}$', '^batch-\\d+\\.nft(?:\\.[0-9a-f]{16}\\.new)?$', '^(\\d+)$', '^a[+*]b+'];
    const others = [
      'a+$',
      '^a+b+$',
      '^(a+)+$',
      '^(a)+$',
      '^(a+){9}$',
      '^a|b+c$',
      '^(?=a+)',
      '^(a)\\1+$',
      '^(?:a?){9}b+$',
    ];
    const plain = (source: string, flags = '') => repeatsOneCharacterAtMost({ source, flags });
    expect(without.filter((source) => !plain(source))).toEqual([]);
    expect(others.filter((source) => plain(source))).toEqual([]);
    expect(plain('^a+$', 'm')).toBe(false);
  });

  it('would be found if one ran away: the pattern that once blocked the log', async () => {
    expect(await judge({ source: 'eyJ[\\w-]*\\.[\\w-]+\\.[\\w-]*', flags: 'g' })).toContain('polynomial');
    expect(await judge({ source: '(a+)+$', flags: '' })).toContain('exponential');
  });
});
