/** Owns the commands about evidence: making a signed file about a device, checking one, and the keys. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf, repeated } from '../command-line/client-command.ts';
import type { EvidenceOptions, KeyOptions, VerifyOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addEvidenceCommands(program: Command): void {
  const evidence = addNoun(
    program,
    'evidence',
    'signed files about a device at a past time: who could reach it, by which rules, and who wrote them',
  );
  addCommand<EvidenceOptions>(
    evidence,
    {
      usage: 'create <device>',
      isDefault: true,
      summary: 'make a signed file about a device at a past time (owners only)',
      about:
        'This is what `ringfence evidence DEVICE` does. The file is one signed JSON document: who could connect to the device and whom it could connect to, the rules and who wrote them, what was refused, the policy tests, and what is not known. ' +
        'With --to, it has every state in between and the change that made it. The organization signs it with its own key. To read it, open it at /ui/evidence of a server.',
      options: [
        new Option(
          '--at <time>',
          'the moment: 2026-11-09, 2026-11-09T10:00 (local time), or 90d, 12h, 30m ago',
        ).makeOptionMandatory(),
        new Option('--to <time>', 'the end of a span that begins with --at; `now` is a time too'),
        new Option('--out <file>', 'where to write it, or - for stdout (default: evidence-DEVICE-DAY.json)'),
      ],
      dryRun: true,
      examples: [
        'ringfence evidence create db-1 --at 2026-11-09',
        'ringfence evidence create db-1 --at 2026-11-01 --to 2026-12-01 --out november.json',
      ],
    },
    (run, session, { args: [device = ''], options }) => run.create(session, device, options),
  );
  addCommand<VerifyOptions>(
    evidence,
    {
      usage: 'verify <file>',
      summary: 'check a file without a server: that nothing is altered, and that a key you name signed it',
      about:
        'Get the key from the organization once, by another way than the file: its members see it with `ringfence evidence key`. ' +
        'The command exits with 0 only if a key that you name signed the file, and with 1 otherwise.',
      options: [
        repeated('--key <key>', 'a key that you trust, such as ed25519:…'),
        new Option('--key-file <file>', 'a file with keys that you trust, one on each line'),
      ],
      examples: [
        'ringfence evidence verify evidence-db-1-2026-11-09.json --key-file acme.key',
        'ringfence evidence verify november.json --key ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo -o json',
      ],
    },
    (run, session, { args: [file = ''], options }) => run.verify(session, file, options),
  );
  addCommand<KeyOptions>(
    evidence,
    {
      usage: 'key',
      summary: 'show the keys that sign the evidence of the organization, the present one first',
      about:
        'Give the present key to your auditor. Files by a key that was replaced can still be verified with it. Replace the key if somebody got a copy of the database or of a backup.',
      options: [new Option('--rotate', 'replace the present key (owners only)')],
      destructive: true,
      dryRun: true,
      examples: ['ringfence evidence key', 'ringfence evidence key -q > acme.key', 'ringfence evidence key --rotate'],
    },
    (run, session, { options }) => run.showKeys(session, options),
  );
}
