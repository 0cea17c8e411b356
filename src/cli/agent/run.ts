/**
 * Owns how a command line that runs the agent reaches it: the agent parses it itself, as it does when bin/ringfence
 * starts it directly.
 */
import { runsAgent } from '../../agent/options.ts';

/** Runs the agent if that is what the command line says; false where it says anything else. */
export async function runIfAgent([command, ...args]: readonly string[]): Promise<boolean> {
  if (command !== 'agent' || !runsAgent(args)) return false;
  const { startAgent } = await import('../../agent/start.ts');
  return startAgent(args);
}
