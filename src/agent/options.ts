/** Owns the options of the agent: names, environment variables, defaults and what a value must look like. */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseDeviceId, parseOrganizationId } from '../policy/ids.ts';
import { outline, type OptionSpec } from '../node/command-line.ts';
import type { UntilFirstPolicy } from './loop/starting-policy.ts';
import { parseSelector } from './host/driver-interface.ts';
import type { LogLevel } from './host/log.ts';

function readUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw new Error('It must be an address like https://ringfence.example or http://127.0.0.1:8080.');
  }
  if (url.username !== '' || url.password !== '') throw new Error('It must hold no user and no password.');
  return text.replace(/\/+$/, '');
}

/** The parser's own message, as the end of a sentence about the value. */
const through =
  <T>(parse: (text: string) => T) =>
  (text: string): T => {
    try {
      return parse(text);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      throw new Error(`${message.charAt(0).toUpperCase()}${message.slice(1)}.`, { cause: error });
    }
  };

function oneOf<T extends string>(choices: readonly T[]): (text: string) => T {
  return (text) => {
    const choice = choices.find((known) => known === text);
    if (choice === undefined) throw new Error(`It must be one of ${choices.join(', ')}.`);
    return choice;
  };
}

const path = (text: string): string => resolve(text);

function readSecret(text: string): string {
  if (!/^[\x21-\x7e]{8,4096}$/.test(text.trim()))
    throw new Error('It must be visible ASCII characters without spaces.');
  return text.trim();
}

function readPublicKey(text: string): string {
  const key = text.trim();
  if (key.length === 0 || key.length > 255) throw new Error('It must have 1 to 255 characters.');
  return key;
}

const logLevels = ['error', 'warn', 'info', 'debug'] as const satisfies readonly LogLevel[];

/** Where the system keeps what its services remember, or where a person's programs keep theirs. */
export function defaultState(env: NodeJS.ProcessEnv, isRoot: boolean): string {
  if (isRoot) return '/var/lib/ringfence-agent';
  return join(env['XDG_STATE_HOME'] ?? join(homedir(), '.local', 'state'), 'ringfence-agent');
}

export const agentOptions = {
  server: {
    flags: '--server <url>',
    env: 'RINGFENCE_SERVER',
    help: 'the server to follow',
    read: readUrl,
  },
  organization: {
    flags: '--organization <id>',
    env: 'RINGFENCE_ORGANIZATION',
    help: "the device's organization (RINGFENCE_ORG works too)",
    read: through(parseOrganizationId),
  },
  interface: {
    flags: '--interface <name|pattern>',
    env: 'RINGFENCE_INTERFACE',
    help: 'the driver interface, to which alone the policy applies; it may come later. A pattern like wg* finds it',
    read: through(parseSelector),
  },
  device: {
    flags: '--device <id>',
    env: 'RINGFENCE_DEVICE',
    help: 'the device that this is, with --token-file; an enrolled agent knows it',
    read: through(parseDeviceId),
  },
  tokenFile: {
    flags: '--token-file <file>',
    env: 'RINGFENCE_TOKEN_FILE',
    help: "read the device's or its user's token from a file, at every connection (RINGFENCE_TOKEN holds one itself)",
    read: path,
  },
  enroll: {
    flags: '--enroll <key>',
    env: 'RINGFENCE_ENROLL',
    help: 'register this device with an enrollment key, once; the state directory keeps what comes of it',
    read: readSecret,
    secret: true,
  },
  enrollFile: {
    flags: '--enroll-file <file>',
    env: 'RINGFENCE_ENROLL_FILE',
    help: 'like --enroll, with the key in a file, where no list of processes shows it',
    read: path,
  },
  adopt: {
    flags: '--adopt',
    env: 'RINGFENCE_ADOPT',
    help: 'go on as the device in the state directory although it was enrolled on another machine',
    fallback: false,
  },
  publicKey: {
    flags: '--public-key <key>',
    env: 'RINGFENCE_PUBLIC_KEY',
    help: "the device's tunnel key, to register it with; one is made unless given",
    read: readPublicKey,
  },
  state: {
    flags: '--state <dir>',
    env: 'RINGFENCE_STATE',
    help: 'directory for what must outlive a restart (default: /var/lib/ringfence-agent as root, else ~/.local/state/ringfence-agent)',
    read: path,
  },
  untilFirstPolicy: {
    flags: '--until-first-policy <closed|open>',
    env: 'RINGFENCE_UNTIL_FIRST_POLICY',
    help: 'what holds for inbound traffic on the driver interface before any policy is known',
    fallback: 'closed',
    read: oneOf<UntilFirstPolicy>(['closed', 'open']),
  },
  keepEstablished: {
    flags: '--keep-established',
    env: 'RINGFENCE_KEEP_ESTABLISHED',
    help: 'let connections live on whose rule was withdrawn',
    fallback: false,
  },
  // Command lines with `--no-` before a name say that it is false.
  serverAccess: {
    flags: '--no-server-access',
    env: 'RINGFENCE_NO_SERVER_ACCESS',
    help: "judge the agent's own way to its server by the rules too: one outbound rule can then cut the device off",
  },
  containers: {
    flags: '--containers <guard|ignore>',
    env: 'RINGFENCE_CONTAINERS',
    help: 'whether the rules also judge connections that the device redirects or translates for containers',
    fallback: 'guard',
    read: oneOf<'guard' | 'ignore'>(['guard', 'ignore']),
  },
  tlsCa: {
    flags: '--tls-ca <file>',
    env: 'RINGFENCE_TLS_CA',
    help: "believe these authorities (PEM) for the server's certificate, instead of the well-known ones",
    read: path,
  },
  metricsFile: {
    flags: '--metrics-file <file>',
    env: 'RINGFENCE_METRICS_FILE',
    help: "write the agent's metrics to this file, for the textfile collector of Prometheus' node exporter",
    read: path,
  },
  logLevel: {
    flags: '--log-level <level>',
    env: 'RINGFENCE_LOG_LEVEL',
    help: `least level that is logged: ${logLevels.join(', ')}`,
    fallback: 'info',
    read: oneOf<LogLevel>(logLevels),
  },
  remove: {
    flags: '--remove',
    env: 'RINGFENCE_REMOVE',
    help: 'take the rules away and stop; no agent may be running. What is saved in the state directory stays',
    fallback: false,
  },
} as const satisfies Readonly<Record<string, OptionSpec>>;

type ValueOf<O> = O extends { readonly read: (text: string) => infer V } ? V : boolean;

/** The options as read: what was said, or the fallback. */
export type AgentValues = { readonly [K in keyof typeof agentOptions]?: ValueOf<(typeof agentOptions)[K]> };

export interface OptionSurroundings {
  readonly env: NodeJS.ProcessEnv;
  readonly isRoot: boolean;
}

export const stateOf = ({ state }: Pick<AgentValues, 'state'>, { env, isRoot }: OptionSurroundings): string =>
  state ?? defaultState(env, isRoot);

/** Whether the command line runs the agent; it may also ask for help, or for another command such as `status`. */
export function runsAgent(args: readonly string[]): boolean {
  const { word, help } = outline(agentOptions, args);
  return !help && word !== 'status' && word !== 'help';
}
