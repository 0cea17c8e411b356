/** Owns the commands of the lab: a fleet in network namespaces on this machine, for trying and testing. */
import { Command, CommanderError, Option } from 'commander';
import { fileURLToPath } from 'node:url';
import { addExamples } from '../../src/cli/command-line/client-command.ts';
import { down, perform, run, showLabs, tryPackets, up, type TryOptions, type UpOptions } from './run.ts';

const nameOption = (): Option =>
  new Option('--name <name>', 'the name of the lab, if several labs run').env('RINGFENCE_LAB_NAME');

const lab = new Command('lab')
  .description('Try Ringfence on this machine: a server and devices in network namespaces.')
  .helpCommand(false)
  // Options after a device belong to the command that runs inside it.
  .enablePositionalOptions()
  .exitOverride()
  .configureOutput({
    outputError: (text, write) =>
      write(
        `lab: ${text
          .replace(/^error: /, '')
          .trim()
          .replaceAll('\n', ' ')}\n`,
      ),
  });

function add(usage: string, summary: string, examples: readonly string[], options: readonly Option[] = []): Command {
  const command = lab.command(usage).summary(summary);
  command.description(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`);
  for (const option of options) command.addOption(option);
  addExamples(command, examples);
  return command;
}

add(
  'up',
  'start a lab and keep it running until Ctrl-C',
  ['sudo npm run lab', 'sudo lab up --devices 5 --tunnel wireguard', 'sudo lab up --detach'],
  [
    new Option('--devices <count>', 'how many devices').default('3'),
    new Option('--tunnel <kind>', 'what the driver interfaces are').choices(['veth', 'wireguard']).default('veth'),
    new Option('--name <name>', "the lab's name").default('lab').env('RINGFENCE_LAB_NAME'),
    new Option('--listen <address:port>', 'where its server listens (default: a free port of 127.0.0.1)'),
    new Option('--phase <phase>', 'the phase of its server').choices(['1', '2', '3']),
    new Option('--bare', 'only the server and the devices: no organization, no agents'),
    new Option('-d, --detach', 'return as soon as it is up; `lab down` stops it'),
    new Option('--program <file>', 'the ringfence that it runs')
      .default(fileURLToPath(new URL('../../bin/ringfence', import.meta.url)), "this checkout's own")
      .env('RINGFENCE_LAB_PROGRAM'),
  ],
).action((options: UpOptions) => perform(() => up(options)));

add('down [names...]', 'stop labs, and clean up labs that died', ['sudo lab down']).action((names: readonly string[]) =>
  perform(() => down(names)),
);

add('status', 'show the labs on this machine', ['sudo lab status']).action(() => perform(showLabs));

add(
  'try <from> <to> <protocol> [port]',
  'send real packets from one device to another and show whether they arrive',
  ['sudo lab try device-1 device-2 tcp 22', 'sudo lab try device-1 device-2 icmp --ipv6'],
  [nameOption(), new Option('-6, --ipv6', "to the device's IPv6 address")],
).action((from: string, to: string, protocol: string, port: string | undefined, options: TryOptions) =>
  perform(() => tryPackets({ from, to, protocol, port }, options)),
);

add(
  'run <device> <command...>',
  'run a command inside a device',
  ['sudo lab run device-1 -- nft list ruleset', 'sudo lab run device-2 -- ping -c 1 100.64.0.1'],
  [nameOption()],
).action((device: string, command: readonly string[], options: TryOptions) =>
  perform(() => run([device, ...command], options)),
);

try {
  await lab.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  process.exitCode = error.exitCode === 0 ? 0 : 2;
}
