/** Owns the lean start of the agent: a plain `ringfence agent …` is read and run without loading anything of the other commands. */
import { isOff } from '../node/environment.ts';
import { programVersion } from '../node/version.ts';
import { runAgent } from './main.ts';
import { agentOptions, type AgentOption, type AgentValues } from './options.ts';

const table = Object.entries(agentOptions as Readonly<Record<string, AgentOption>>).map(([name, option]) => {
  const [long = '', value] = option.flags.split(' ');
  return { name, option, long, takesValue: value !== undefined };
});

/**
 * The values of a command line that is right and asks for nothing but running the agent. For any other there is no answer:
 * the whole program reads it again, and says what is wrong or what was asked for.
 */
export function readPlainly(args: readonly string[], env: NodeJS.ProcessEnv): AgentValues | undefined {
  const texts = new Map<string, string>();
  for (const { name, option, takesValue } of table) {
    const text = env[option.env] ?? '';
    if (text !== '' && (takesValue || !isOff(text))) texts.set(name, text);
  }
  for (let at = 0; at < args.length; at++) {
    const [, long = '', given] = /^(--[a-z-]+)(?:=([\s\S]*))?$/.exec(args[at] ?? '') ?? [];
    const known = table.find((each) => each.long === long);
    if (known === undefined || (given !== undefined && !known.takesValue)) return undefined;
    const text = known.takesValue && given === undefined ? args[++at] : (given ?? '');
    // What begins with a dash may be a forgotten value: the whole program judges it.
    if (text === undefined || (given === undefined && text.startsWith('-'))) return undefined;
    texts.set(known.name, text);
  }
  try {
    return Object.fromEntries([...texts].map(([name, text]) => [name, valueOf(name, text)]));
  } catch {
    return undefined;
  }
}

function valueOf(name: string, text: string): unknown {
  const { option, long = '' } = table.find((each) => each.name === name) ?? {};
  return option?.read === undefined ? !long.startsWith('--no-') : option.read(text);
}

/** Runs the agent if that is what the command line says; false where it says anything else. */
export async function startAgent(args: readonly string[]): Promise<boolean> {
  const values = readPlainly(args, process.env);
  if (values === undefined) return false;
  process.exitCode = await runAgent(values, { version: programVersion });
  return true;
}
