/** Owns the start of the agent: it reads the command line here, without loading the other commands. */
import { readCommandLine, WrongCommandLine } from '../node/command-line.ts';
import { printable } from '../policy/names/printable.ts';
import { programVersion } from '../node/version.ts';
import { tuneRuntime } from './host/runtime.ts';
import { runAgentCommand } from './main.ts';
import { agentOptions, runsAgent, type AgentValues } from './options.ts';

const wrongUsage = 2;

export const readAgentValues = (args: readonly string[], env: NodeJS.ProcessEnv): AgentValues =>
  readCommandLine(agentOptions, args, env);

/** Runs the agent if that is what the command line says; false where it says anything else. */
export async function startAgent(args: readonly string[]): Promise<boolean> {
  if (!runsAgent(args)) return false;
  tuneRuntime();
  try {
    process.exitCode = await runAgentCommand(readAgentValues(args, process.env), { version: programVersion });
  } catch (error) {
    if (!(error instanceof WrongCommandLine)) throw error;
    process.stderr.write(`ringfence: ${printable(error.message)}\n`);
    process.exitCode = wrongUsage;
  }
  return true;
}
