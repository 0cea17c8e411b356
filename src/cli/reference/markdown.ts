/** Owns the reference of the commands, generated from the commands themselves. */
import { exitCodes } from '../terminal/exit.ts';
import { flatten, type CommandNode, type OptionNode } from '../command-line/tree.ts';

const exitWords: { readonly [Name in keyof typeof exitCodes]: string } = {
  done: 'done',
  failed: 'failed',
  usage: 'wrong usage: an unknown option, an impossible value, an invalid rule',
  notFound: 'not found, or not visible to you',
  notAllowed: 'not allowed: no token, an invalid one, or one without the permission',
  conflict: 'conflict: a name is taken, a group is in use, or someone else changed it in the meantime',
  timeOver: 'timeout: `--wait` ended before the change was in force',
  interrupted: 'interrupted by Ctrl-C',
};

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

function optionTable(options: readonly OptionNode[]): string {
  const rows = options.map(({ flags, help, env, fallback, choices }) => {
    const notes = [
      help,
      ...(choices.length > 0 ? [`one of ${choices.map((choice) => `\`${choice}\``).join(', ')}`] : []),
      ...(fallback === undefined ? [] : [`default \`${fallback}\``]),
    ];
    return `| \`${cell(flags)}\` | ${cell(notes.join('; '))} | ${env === undefined ? '' : `\`${env}\``} |`;
  });
  return ['| Option | Meaning | Variable |', '| --- | --- | --- |', ...rows].join('\n');
}

const isCommon = ({ heading }: OptionNode): boolean => heading !== undefined;
const isHelp = ({ long }: OptionNode): boolean => long === '--help';

function section(node: CommandNode): string {
  const { examples } = node;
  const own = node.options.filter((option) => !isCommon(option) && !isHelp(option));
  const parts = [
    `### ringfence ${node.path}`,
    node.description,
    `\`\`\`\nringfence ${node.path} ${node.usage}\n\`\`\``,
  ];
  if (node.aliases.length > 0) parts.push(`Also ${node.aliases.map((alias) => `\`${alias}\``).join(', ')}.`);
  if (node.options.some((option) => option.long === '--yes' && isCommon(option)))
    parts.push('Asks for confirmation; `--yes` skips the question.');
  if (own.length > 0) parts.push(optionTable(own));
  if (examples.length > 0) parts.push(['```sh', ...examples, '```'].join('\n'));
  return parts.join('\n\n');
}

export function writeReference(root: CommandNode): string {
  const nodes = flatten(root).filter(({ path }) => path !== '');
  // A word with commands below it may be a command itself.
  const leaves = nodes.filter(({ children, examples }) => children.length === 0 || examples.length > 0);
  const common = leaves.flatMap(({ options }) => options.filter(isCommon));
  const once = [...new Map(common.map((option) => [option.long, option])).values()];
  const index = leaves.map(
    ({ path, summary }) => `- [\`${path}\`](#ringfence-${path.replaceAll(' ', '-')}): ${summary.replace(/\.$/, '')}`,
  );
  const exits = (Object.keys(exitCodes) as (keyof typeof exitCodes)[]).map(
    (name) => `| ${exitCodes[name]} | ${exitWords[name]} |`,
  );
  return `${[
    '# The command line',
    'Every command of `ringfence`, its options and examples. `ringfence reference` prints this page.',
    index.join('\n'),
    '## Options of every client command',
    optionTable(once),
    'The token comes from `--token-file`, from the variable `RINGFENCE_TOKEN`, or from the profile that `ringfence login` stored\nin `$XDG_CONFIG_HOME/ringfence/profiles.json`. The command line sends the token of a profile only to the server of the profile.\n\nWith Node 22 or newer, the program caches compiled code in `$XDG_CACHE_HOME/ringfence/compile-cache` (by default below `~/.cache`), where only you can\nwrite. To turn this off, set `NODE_DISABLE_COMPILE_CACHE=1`.\n\nName things by name or id. If several things have the same name, the command fails and lists them.',
    '## Exit codes',
    ['| Code | Meaning |', '| --- | --- |', ...exits].join('\n'),
    '## Commands',
    ...leaves.map(section),
  ].join('\n\n')}\n`;
}
