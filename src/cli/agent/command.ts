/** Owns the commands of the agent: the help of the command that runs it, and the commands that query a running one. */
import { Option, type Command } from 'commander';
import { agentOptions, type AgentValues } from '../../agent/options.ts';
import { addExamples } from '../command-line/client-command.ts';
import { toOption } from '../command-line/options.ts';
import { outputs, type Output } from '../terminal/output.ts';

export function addAgentCommands(program: Command): void {
  const agent = program
    .command('agent')
    .summary('enforce the policy of this device in its firewall')
    .description(
      'Enforce the policy of this device in its firewall, on the driver interface only.\n\nThe agent runs until you stop it. The rules stay in place when it stops, and when it loses the server.',
    )
    // Options after `status` belong to `status`.
    .enablePositionalOptions();
  // For help and completion: a command line that runs the agent never comes here, the agent reads it itself.
  for (const spec of Object.values(agentOptions)) agent.addOption(toOption(spec));
  addExamples(agent, [
    'ringfence agent --interface wg0 --enroll-file /etc/ringfence/key',
    'ringfence agent --server https://ringfence.example --organization ID --interface wg0 --device ID --token-file /etc/ringfence/token',
    'ringfence agent --remove',
  ]);
  const status = agent
    .command('status')
    .summary('show the status of the agent on this device')
    .description(
      'Show whether the policy is in force on this device, and the status of its agent: problems first, then policy, interface, stream and repairs. Exits with 1 if no agent runs.',
    )
    .addOption(toOption(agentOptions.state))
    .addOption(
      new Option('-o, --output <format>', 'output format').choices(outputs).default('table').env('RINGFENCE_OUTPUT'),
    )
    .addOption(new Option('--no-color', 'no colors (same as NO_COLOR; output to a pipe never has colors)'));
  addExamples(status, ['ringfence agent status', 'ringfence agent status --output json']);
  status.action(async ({ state, output, color }: { state?: string; output: Output; color: boolean }) => {
    const { runStatus } = await import('./status.ts');
    // Before the word `status` it means the same.
    const given = state ?? agent.opts<AgentValues>().state;
    await runStatus({ output, color }, given);
  });
}
