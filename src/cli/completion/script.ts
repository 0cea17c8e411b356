/** Owns the completion scripts for shells, generated from the current commands. */
import { flatten, type CommandNode, type OptionNode } from '../command-line/tree.ts';
import { candidatesOf, candidatesOfOption, isFileArgument, isFileOption } from './candidates.ts';

type Shell = 'bash' | 'zsh' | 'fish';

export function completionScript(shell: Shell, root: CommandNode): string {
  const nodes = flatten(root);
  switch (shell) {
    case 'bash':
      return bash(nodes);
    case 'zsh':
      return zsh(nodes);
    case 'fish':
      return fish(nodes);
    default:
      return shell satisfies never;
  }
}

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
const firstLine = (text: string): string => text.split('\n')[0] ?? '';
const flagsOf = ({ long, short }: OptionNode): readonly string[] => [long, ...(short === undefined ? [] : [short])];

/** Walks the words before the cursor: a word that leads to a command goes there, any other is an argument. */
const pathCases = (nodes: readonly CommandNode[]): string =>
  nodes
    .filter(({ path }) => path !== '')
    .map(({ path }) => quote(` ${path}`))
    .join('|');

/** What may be typed for a command, by its other names, and the command that it is. */
const aliasPaths = (nodes: readonly CommandNode[]): readonly (readonly [typed: string, path: string])[] =>
  nodes.flatMap(({ path, name, aliases }) =>
    aliases.map((alias) => [`${path.slice(0, -name.length)}${alias}`, path] as const),
  );
const aliasCases = (nodes: readonly CommandNode[], variable: string): string =>
  aliasPaths(nodes)
    .map(([typed, path]) => `    ${quote(` ${typed}`)}) ${variable}=${quote(` ${path}`)} ;;`)
    .join('\n');

/** Options whose value is one of a few words. */
function choiceCases(nodes: readonly CommandNode[]): readonly (readonly [flags: string, choices: readonly string[]])[] {
  const found = new Map<string, readonly string[]>();
  for (const option of nodes.flatMap(({ options }) => options)) {
    if (option.choices.length > 0) found.set(flagsOf(option).join('|'), option.choices);
  }
  return [...found];
}

/** Commands after which a name or a known word comes; the program is asked for them. */
const asking = (nodes: readonly CommandNode[]): readonly string[] =>
  nodes
    .filter(({ path, arguments: all }) => all.some((one) => candidatesOf(path, one) !== undefined))
    .map(({ path }) => path);

/** Whether the program is asked for the option's value. */
const isAsked = (option: OptionNode): boolean =>
  option.choices.length === 0 && candidatesOfOption(option) !== undefined;

const fileFlags = (nodes: readonly CommandNode[]): readonly string[] => [
  ...new Set(nodes.flatMap(({ options }) => options.filter(isFileOption).flatMap(flagsOf))),
];

/** Commands that take files. */
const filePaths = (nodes: readonly CommandNode[]): readonly string[] =>
  nodes.filter(({ arguments: all }) => all.some(isFileArgument)).map(({ path }) => path);

/** Options whose value is such a name. */
const askingFlags = (nodes: readonly CommandNode[]): readonly string[] => {
  const named = nodes.flatMap(({ options }) => options.filter(isAsked).flatMap(flagsOf));
  return [...new Set(named)];
};

function bash(nodes: readonly CommandNode[]): string {
  const words = nodes.map(({ path, children, options }) => {
    const known = [...children.map(({ name }) => name), ...options.map(({ long }) => long)];
    return `    ${quote(path === '' ? '' : ` ${path}`)}) words=${quote(known.join(' '))} ;;`;
  });
  const choices = choiceCases(nodes).map(([flags, all]) => `    ${flags}) words=${quote(all.join(' '))} ;;`);
  const values = new Set(
    nodes.flatMap(({ options }) => options.filter(({ takesValue }) => takesValue).flatMap(flagsOf)),
  );
  return `# bash completion for ringfence; load it with: source <(ringfence completion bash)
_ringfence() {
  local path='' word words='' ask='' files='' current prefix index last
  local -a line=()
  COMPREPLY=()
  # bash splits words at colons; \`label:app\` is one word here.
  for word in "\${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    if ((\${#line[@]})) && [[ $word == : || \${line[\${#line[@]}-1]} == *: ]]; then line[\${#line[@]}-1]+=$word; else line+=("$word"); fi
  done
  last=$((\${#line[@]} - 1))
  current="\${line[last]}"
  for ((index = 1; index < last; index++)); do
    case "$path \${line[index]}" in
    ${pathCases(nodes)}) path="$path \${line[index]}" ;;
${aliasCases(nodes, 'path')}
    esac
  done
  case "$path" in
${words.join('\n')}
  esac
  case "$path" in
    ${asking(nodes)
      .map((path) => quote(` ${path}`))
      .join('|')}) ask=yes ;;
  esac
  case "$path" in
    ${filePaths(nodes)
      .map((path) => quote(` ${path}`))
      .join('|')}) files=yes ;;
  esac
  case "\${line[last - 1]}" in
${choices.join('\n')}
    ${askingFlags(nodes).join('|')}) words=''; ask=yes; files='' ;;
    ${fileFlags(nodes).join('|')}) words=''; ask=''; files=yes ;;
    ${[...values].join('|')}) return ;;
  esac
  if [[ $files && $current != -* ]]; then
    compopt -o filenames 2> /dev/null
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
  fi
  if [[ $ask && $current != -* ]]; then
    while IFS= read -r word; do
      [[ $word == "$current"* ]] && COMPREPLY+=("$(printf %q "$word")")
    done < <(ringfence names -- "\${line[@]:1:last-1}" 2> /dev/null)
  fi
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$words" -- "$current")
  # What bash takes for the word begins after the last colon.
  if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
    prefix="\${current%"\${current##*:}"}"
    COMPREPLY=("\${COMPREPLY[@]#"$prefix"}")
  fi
}
complete -F _ringfence ringfence
`;
}

const described = (name: string, help: string): string => quote(`${name.replaceAll(':', '\\:')}:${firstLine(help)}`);

function zsh(nodes: readonly CommandNode[]): string {
  const lists = nodes.map(({ path, children, options }) => {
    const commands = children.map(({ name, summary }) => described(name, summary));
    const flags = options.map(({ long, help }) => described(long, help));
    return `    ${quote(path === '' ? '' : ` ${path}`)})
      commands=(${commands.join(' ')})
      flags=(${flags.join(' ')}) ;;`;
  });
  const choices = choiceCases(nodes).map(
    ([flags, all]) => `    ${flags}) commands=(${all.map(quote).join(' ')}); flags=() ;;`,
  );
  return `#compdef ringfence
# zsh completion for ringfence; load it with: source <(ringfence completion zsh)
_ringfence() {
  local at='' word ask='' files=''
  local -a commands flags names
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$at $word" in
    ${pathCases(nodes)}) at="$at $word" ;;
${aliasCases(nodes, 'at')}
    esac
  done
  case "$at" in
${lists.join('\n')}
  esac
  case "$at" in
    ${asking(nodes)
      .map((path) => quote(` ${path}`))
      .join('|')}) ask=yes ;;
  esac
  case "$at" in
    ${filePaths(nodes)
      .map((path) => quote(` ${path}`))
      .join('|')}) files=yes ;;
  esac
  case "\${words[CURRENT-1]}" in
${choices.join('\n')}
    ${askingFlags(nodes).join('|')}) commands=(); flags=(); ask=yes; files='' ;;
    ${fileFlags(nodes).join('|')}) commands=(); flags=(); ask=''; files=yes ;;
  esac
  if [[ -n $ask && \${words[CURRENT]} != -* ]]; then
    names=(\${(f)"$(ringfence names -- "\${(@)words[2,CURRENT-1]}" 2> /dev/null)"})
    names=("\${(@)names//:/\\\\:}")
    (( \${#names} )) && _describe 'name' names && return
  fi
  (( \${#commands} )) && _describe 'command' commands
  (( \${#flags} )) && _describe -o 'option' flags
  [[ -z $files ]] || _files
}
(( \${+functions[compdef]} )) && compdef _ringfence ringfence
`;
}

function fish(nodes: readonly CommandNode[]): string {
  const asked = new Set(asking(nodes));
  const files = new Set(filePaths(nodes));
  const lines = nodes.flatMap(({ path, children, options }) => {
    const here = `-n ${quote(`__ringfence_at ${quote(path)}`)}`;
    return [
      ...(files.has(path) ? [`complete -c ringfence -F ${here}`] : []),
      ...(asked.has(path) ? [`complete -c ringfence -f ${here} -a '(__ringfence_names)'`] : []),
      ...children.map(
        ({ name, summary }) => `complete -c ringfence -f ${here} -a ${quote(name)} -d ${quote(firstLine(summary))}`,
      ),
      ...options.map((option) => {
        const short = option.short === undefined ? '' : ` -s ${option.short.slice(1)}`;
        const value =
          option.choices.length > 0
            ? ` -x -a ${quote(option.choices.join(' '))}`
            : isAsked(option)
              ? ` -x -a '(__ringfence_names)'`
              : isFileOption(option)
                ? ' -r -F'
                : option.takesValue
                  ? ' -x'
                  : '';
        return `complete -c ringfence ${here} -l ${option.long.slice(2)}${short}${value} -d ${quote(firstLine(option.help))}`;
      }),
    ];
  });
  return `# fish completion for ringfence; load it with: ringfence completion fish | source
function __ringfence_at
  set -l at
  for word in (commandline -opc)[2..-1]
    set -l next (string trim -- "$at $word")
    contains -- "$next" ${nodes
      .filter(({ path }) => path !== '')
      .map(({ path }) => quote(path))
      .join(' ')}
    and set at $next
    switch $next
${aliasPaths(nodes)
  .map(([typed, path]) => `      case ${quote(typed)}\n        set at ${quote(path)}`)
  .join('\n')}
    end
  end
  test "$at" = "$argv[1]"
end
function __ringfence_names
  ringfence names -- (commandline -opc)[2..-1] 2> /dev/null
end
complete -c ringfence -f
${lines.join('\n')}
`;
}
