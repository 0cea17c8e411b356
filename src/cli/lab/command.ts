/** Owns the lab's commands: a fleet in network namespaces on this machine, for trying and testing. */
import { Option, type Command } from 'commander';
import { addExamples, addNoun } from '../command-line/client-command.ts';
import type { TryOptions, UpOptions } from './run.ts';

/** The lab itself is loaded only where one is asked for. */
type Work = typeof import('./run.ts');

async function perform(act: (work: Work) => Promise<void>): Promise<void> {
  const work = await import('./run.ts');
  await work.perform(() => act(work));
}

const nameOption = (): Option =>
  new Option('--name <name>', 'the name of the lab, if several labs run').env('RINGFENCE_LAB_NAME');

export function addLabCommands(program: Command): void {
  const lab = addNoun(program, 'lab', 'try Ringfence on this machine: a server and devices in network namespaces');

  const up = describe(lab.command('up'), 'start a lab and keep it running until Ctrl-C', [
    'sudo ringfence lab up',
    'sudo ringfence lab up --devices 5 --tunnel wireguard',
    'sudo ringfence lab up --detach',
  ])
    .addOption(new Option('--devices <count>', 'how many devices').default('3').env('RINGFENCE_LAB_DEVICES'))
    .addOption(
      new Option('--tunnel <kind>', 'what the driver interfaces are')
        .choices(['veth', 'wireguard'])
        .default('veth')
        .env('RINGFENCE_LAB_TUNNEL'),
    )
    .addOption(new Option('--name <name>', "the lab's name").default('lab').env('RINGFENCE_LAB_NAME'))
    .addOption(
      new Option('--listen <address:port>', 'where its server listens (default: a free port of 127.0.0.1)').env(
        'RINGFENCE_LAB_LISTEN',
      ),
    )
    .addOption(
      new Option('--phase <phase>', 'the phase of its server').choices(['1', '2', '3']).env('RINGFENCE_LAB_PHASE'),
    )
    .addOption(
      new Option('--bare', 'only the server and the devices: no organization, no agents').env('RINGFENCE_LAB_BARE'),
    )
    .addOption(
      new Option('-d, --detach', 'return as soon as it is up; `ringfence lab down` stops it').env(
        'RINGFENCE_LAB_DETACH',
      ),
    );
  up.action(() => perform((work) => work.up(up.opts<UpOptions>())));

  const down = describe(lab.command('down [names...]'), 'stop labs, and clean up labs that died', [
    'sudo ringfence lab down',
  ]);
  down.action((names: readonly string[]) => perform((work) => work.down(names)));

  describe(lab.command('status'), 'show the labs on this machine', ['sudo ringfence lab status']).action(() =>
    perform((work) => work.showLabs()),
  );

  const attempt = describe(
    lab.command('try <from> <to> <protocol> [port]'),
    'send real packets from one device to another and show whether they arrive',
    ['sudo ringfence lab try device-1 device-2 tcp 22', 'sudo ringfence lab try device-1 device-2 icmp --ipv6'],
  )
    .addOption(nameOption())
    .addOption(new Option('-6, --ipv6', "to the device's IPv6 address").env('RINGFENCE_LAB_IPV6'));
  attempt.action(() =>
    perform((work) => work.tryPackets(attempt.processedArgs.filter(isText), attempt.opts<TryOptions>())),
  );

  const run = describe(lab.command('run <device> <command...>'), 'run a command inside a device', [
    'sudo ringfence lab run device-1 -- nft list ruleset',
    'sudo ringfence lab run device-2 -- ping -c 1 100.64.0.1',
  ]).addOption(nameOption());
  run.action((device: string, command: readonly string[]) =>
    perform((work) => work.run([device, ...command], run.opts<TryOptions>())),
  );

  lab
    .command('traffic', { hidden: true })
    .description('Listen and connect as commands on stdin request.')
    .action(async () => (await import('./traffic.ts')).serveTraffic());
}

function describe(command: Command, summary: string, examples: readonly string[]): Command {
  command.summary(summary).description(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`);
  addExamples(command, examples);
  return command;
}

const isText = (value: unknown): value is string => typeof value === 'string';
