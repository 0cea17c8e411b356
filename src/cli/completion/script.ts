/** Owns the completion script of each shell: all of them ask `ringfence complete`, so that they know nothing that could become old. */

/** Each passes the words up to the cursor, and splits what comes at the first tab: a word, and what it means. */
export const completionScripts = {
  bash: `# bash completion for ringfence; load it with: source <(ringfence completion bash)
_ringfence() {
  local word current prefix
  local -a line=()
  COMPREPLY=()
  # bash splits words at colons; \`label:app\` is one word here.
  for word in "\${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    if ((\${#line[@]})) && [[ $word == : || \${line[\${#line[@]}-1]} == *: ]]; then line[\${#line[@]}-1]+=$word; else line+=("$word"); fi
  done
  current="\${line[\${#line[@]}-1]}"
  while IFS=$'\\t' read -r word _; do
    if [[ $word == -files ]]; then
      compopt -o filenames 2> /dev/null
      while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
    else
      COMPREPLY+=("$(printf %q "$word")")
    fi
  done < <(ringfence complete -- "\${line[@]:1}" 2> /dev/null)
  # What bash takes for the word begins after the last colon.
  if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
    prefix="\${current%"\${current##*:}"}"
    COMPREPLY=("\${COMPREPLY[@]#"$prefix"}")
  fi
}
complete -F _ringfence ringfence
`,
  zsh: `#compdef ringfence
# zsh completion for ringfence; load it with: source <(ringfence completion zsh)
_ringfence() {
  local word help
  local -a offered
  while IFS=$'\\t' read -r word help; do
    if [[ $word == -files ]]; then _files; else offered+=("\${word//:/\\\\:}\${help:+:$help}"); fi
  done < <(ringfence complete -- "\${(@)words[2,CURRENT]}" 2> /dev/null)
  (( \${#offered} )) && _describe 'ringfence' offered
}
(( \${+functions[compdef]} )) && compdef _ringfence ringfence
`,
  fish: `# fish completion for ringfence; load it with: ringfence completion fish | source
function __ringfence_complete
  set -l current (commandline -ct)
  set -l offered (ringfence complete -- (commandline -opc)[2..-1] "$current" 2> /dev/null)
  if test "$offered[1]" = -files
    __fish_complete_path "$current"
  else
    printf '%s\\n' $offered
  end
end
complete -c ringfence -f -a '(__ringfence_complete)'
`,
} as const;
