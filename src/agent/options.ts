/** Owns the options of the agent: names, environment variables, defaults and the format of each value. */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseDeviceId, parseOrganizationId } from '../policy/ids.ts';
import { outline, type OptionSpec } from '../node/command-line.ts';
import type { UntilFirstPolicy } from './loop/starting-policy.ts';
import { defaultMegabytes } from './source/budget.ts';
import { parseSelector } from './host/driver-interface.ts';
import type { LogLevel } from './host/log.ts';

function readUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw new Error('It must be an address like https://ringfence.example or http://127.0.0.1:8080.');
  }
  if (url.username !== '' || url.password !== '') throw new Error('It must not contain a user or a password.');
  return text.replace(/\/+$/, '');
}

/** Most servers of one agent: each is a hole in a closed device. */
const mostServers = 16;

/** Server URLs, separated by commas; each is returned once. */
export function readUrls(text: string): readonly string[] {
  const urls = [...new Set(text.split(',').map((url) => readUrl(url.trim())))];
  if (urls.length > mostServers) throw new Error(`There must be at most ${mostServers} of them.`);
  return urls;
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
    throw new Error('It must contain only visible ASCII characters, without spaces.');
  return text.trim();
}

function readMegabytes(text: string): number {
  const megabytes = Number(text);
  if (!/^\d{1,6}$/.test(text) || megabytes < 16) throw new Error('It must be a whole number, at least 16.');
  return megabytes;
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
    help: 'URL of the server. With several URLs, separated by commas or in several --server, the agent picks one at random and leaves it if it cannot work',
    joined: true,
    read: readUrls,
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
    help: 'the driver interface; the policy applies only there. The interface may appear later. A pattern such as wg* works too',
    read: through(parseSelector),
  },
  device: {
    flags: '--device <id>',
    env: 'RINGFENCE_DEVICE',
    help: 'the id of this device, for --token-file; an enrolled agent knows its id',
    read: through(parseDeviceId),
  },
  tokenFile: {
    flags: '--token-file <file>',
    env: 'RINGFENCE_TOKEN_FILE',
    help: "read the device's or its user's token from a file, before every connection (or set RINGFENCE_TOKEN to the token)",
    read: path,
  },
  enroll: {
    flags: '--enroll <key>',
    env: 'RINGFENCE_ENROLL',
    help: 'register this device with an enrollment key, once; the agent saves its identity in the state directory. The key carries server and organization, unless --server and --organization say otherwise',
    read: readSecret,
    secret: true,
  },
  enrollFile: {
    flags: '--enroll-file <file>',
    env: 'RINGFENCE_ENROLL_FILE',
    help: 'like --enroll, but read the key from a file, so that it does not appear in process lists',
    read: path,
  },
  adopt: {
    flags: '--adopt',
    env: 'RINGFENCE_ADOPT',
    help: 'use the identity in the state directory even if it was enrolled on another machine',
    fallback: false,
  },
  publicKey: {
    flags: '--public-key <key>',
    env: 'RINGFENCE_PUBLIC_KEY',
    help: 'the tunnel public key to register the device with (default: the agent creates one)',
    read: readPublicKey,
  },
  state: {
    flags: '--state <dir>',
    env: 'RINGFENCE_STATE',
    help: 'directory for persistent state (default: /var/lib/ringfence-agent as root, else ~/.local/state/ringfence-agent)',
    read: path,
  },
  untilFirstPolicy: {
    flags: '--until-first-policy <closed|open>',
    env: 'RINGFENCE_UNTIL_FIRST_POLICY',
    help: 'whether inbound traffic on the driver interface is open or closed before the first policy arrives',
    fallback: 'closed',
    read: oneOf<UntilFirstPolicy>(['closed', 'open']),
  },
  keepEstablished: {
    flags: '--keep-established',
    env: 'RINGFENCE_KEEP_ESTABLISHED',
    help: 'keep established connections after their rule is removed',
    fallback: false,
  },
  // Command lines with `--no-` before a name say that it is false.
  serverAccess: {
    flags: '--no-server-access',
    env: 'RINGFENCE_NO_SERVER_ACCESS',
    help: 'apply the rules also to the traffic between the agent and its server; an outbound rule can then disconnect the device',
  },
  checkedApply: {
    flags: '--no-checked-apply',
    env: 'RINGFENCE_NO_CHECKED_APPLY',
    help: 'keep a new policy even if the agent cannot reach the server under it for 90 seconds',
  },
  containers: {
    flags: '--containers <guard|ignore>',
    env: 'RINGFENCE_CONTAINERS',
    help: 'whether the rules also apply to connections that the device redirects or translates for containers',
    fallback: 'guard',
    read: oneOf<'guard' | 'ignore'>(['guard', 'ignore']),
  },
  maxMemory: {
    flags: '--max-memory <megabytes>',
    env: 'RINGFENCE_MAX_MEMORY',
    help: 'about how much memory the policy and the records that the server sends may take; beyond it, the policy in force stays (too_large). A megabyte is room for 400 address ranges',
    fallback: String(defaultMegabytes),
    read: readMegabytes,
  },
  tlsCa: {
    flags: '--tls-ca <file>',
    env: 'RINGFENCE_TLS_CA',
    help: 'trust only these certificate authorities (PEM) for the server, instead of the system ones',
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
    help: `minimum log level: ${logLevels.join(', ')}`,
    fallback: 'info',
    read: oneOf<LogLevel>(logLevels),
  },
  remove: {
    flags: '--remove',
    env: 'RINGFENCE_REMOVE',
    help: 'remove the rules and exit; stop the agent first. The state directory stays',
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
