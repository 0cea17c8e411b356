/** Owns the commands of the agent: the one that runs it, and those that ask a running one. */
import { Option, type Command } from 'commander';
import { agentOptions, type AgentValues } from '../../agent/options.ts';
import { addExamples } from '../command-line/client-command.ts';
import { toOption } from '../command-line/options.ts';
import { outputs, type Output } from '../terminal/output.ts';
import { programVersion } from '../../node/version.ts';

export function addAgentCommands(program: Command): void {
  const agent = program
    .command('agent')
    .summary("keep this device's firewall equal to its policy")
    .description(
      "Keep this device's firewall equal to its policy, at the driver interface and nowhere else.\n\nRuns until it is told to stop, and leaves the rules in place. Losing the server changes nothing on the device.",
    )
    // What stands behind `status` belongs to it.
    .enablePositionalOptions();
  for (const spec of Object.values(agentOptions)) agent.addOption(toOption(spec));
  addExamples(agent, [
    'ringfence agent --server https://ringfence.example --organization ID --interface wg0 --enroll-file /etc/ringfence/key',
    'ringfence agent --server https://ringfence.example --organization ID --interface wg0 --device ID --token-file /etc/ringfence/token',
    'ringfence agent --remove',
  ]);
  agent.action(async (values: AgentValues) => {
    const { runAgent } = await import('../../agent/main.ts');
    process.exitCode = await runAgent(values, { version: programVersion });
  });
  const status = agent
    .command('status')
    .summary('tell how the agent on this device stands')
    .description(
      'Tell how the agent on this device stands: policy, interface, stream, repairs, troubles. Ends with 1 where none runs.',
    )
    .addOption(toOption(agentOptions.state))
    .addOption(
      new Option('-o, --output <format>', 'output format').choices(outputs).default('table').env('RINGFENCE_OUTPUT'),
    )
    .addOption(new Option('--no-color', 'no colours (like NO_COLOR; pipes never get colours)'));
  addExamples(status, ['ringfence agent status', 'ringfence agent status --output json']);
  status.action(async ({ state, output, color }: { state?: string; output: Output; color: boolean }) => {
    const { runStatus } = await import('./status.ts');
    // Before the word `status` it means the same.
    const given = state ?? agent.opts<AgentValues>().state;
    await runStatus({ output, color }, given);
  });
}
