/** Owns the commands as data, from which completion and the reference are generated. */

export interface CommandNode {
  /** Without the program's own name: `group allow`; empty for the program itself. */
  readonly path: string;
  readonly name: string;
  /** Other words that mean the same. */
  readonly aliases: readonly string[];
  readonly summary: string;
  readonly description: string;
  /** As help shows it after the name: `[options] <group> <rule...>`. */
  readonly usage: string;
  readonly options: readonly OptionNode[];
  readonly arguments: readonly ArgumentNode[];
  readonly children: readonly CommandNode[];
  readonly examples: readonly string[];
}

export interface ArgumentNode {
  readonly name: string;
  /** Takes every word that is left. */
  readonly isMany: boolean;
  readonly choices: readonly string[];
}

export interface OptionNode {
  readonly flags: string;
  readonly long: string;
  readonly short: string | undefined;
  readonly help: string;
  readonly takesValue: boolean;
  readonly choices: readonly string[];
  readonly env: string | undefined;
  readonly fallback: string | undefined;
  /** The heading under which help shows it; none: its own. */
  readonly heading: string | undefined;
}

/** The node and everything below it, parents first. */
export const flatten = (node: CommandNode): readonly CommandNode[] => [node, ...node.children.flatMap(flatten)];
