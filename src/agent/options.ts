/** Owns the options of the agent: names, environment variables, defaults, what a value must look like, and what goes together. */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseDeviceId, parseOrganizationId, type DeviceId, type OrganizationId } from '../policy/ids.ts';
import type { UntilFirstPolicy } from './loop/starting-policy.ts';
import { parseSelector, type Selector } from './host/driver-interface.ts';
import type { LogLevel } from './host/log.ts';

/** One option, for any program that reads command lines. `read` throws an error whose message ends a sentence about the value. */
export interface AgentOption {
  readonly flags: string;
  readonly env: string;
  readonly help: string;
  readonly fallback?: string | boolean;
  readonly read?: (text: string) => unknown;
}

function readUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw new Error('It must be an address like https://ringfence.example or http://127.0.0.1:8080.');
  }
  if (url.username !== '' || url.password !== '') throw new Error('It must hold no user and no password.');
  return text.replace(/\/+$/, '');
}

/** The door's own message, as the end of a sentence about the value. */
const through =
  <T>(door: (text: string) => T) =>
  (text: string): T => {
    try {
      return door(text);
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

export const logLevels = ['error', 'warn', 'info', 'debug'] as const satisfies readonly LogLevel[];

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
  },
  enrollFile: {
    flags: '--enroll-file <file>',
    env: 'RINGFENCE_ENROLL_FILE',
    help: 'like --enroll, with the key in a file, where no list of processes shows it',
    read: path,
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
    help: "keep the agent's figures in this file, for the textfile collector of Prometheus' node exporter",
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
} as const satisfies Readonly<Record<string, AgentOption>>;

type ValueOf<O> = O extends { readonly read: (text: string) => infer V } ? V : boolean;

/** The options as read: what was said, or the fallback. */
export type AgentValues = { readonly [K in keyof typeof agentOptions]?: ValueOf<(typeof agentOptions)[K]> };

/** How the agent shows who it is. */
export type Proof =
  /** A device that is registered already, and a token of it or of its user. */
  | { readonly kind: 'token'; readonly device: DeviceId; readonly token: TextSource }
  | { readonly kind: 'enroll'; readonly key: TextSource; readonly publicKey: string | undefined }
  /** Nothing was said: what an earlier enrollment left must do. */
  | { readonly kind: 'enrolled' };

/** A secret as given, or the file that holds it. */
export type TextSource = { readonly text: string } | { readonly file: string };

export interface AgentConfig {
  readonly server: string;
  readonly organization: OrganizationId;
  readonly selector: Selector;
  readonly proof: Proof;
  readonly state: string;
  readonly untilFirstPolicy: UntilFirstPolicy;
  readonly keepEstablished: boolean;
  readonly serverAccess: boolean;
  readonly containers: 'guard' | 'ignore';
  readonly tlsCa: string | undefined;
  readonly metricsFile: string | undefined;
  readonly logLevel: LogLevel;
}

/** Thrown where options are missing or contradict each other: one line for a person. */
export class WrongOptions extends Error {
  readonly code = 'wrong_options';
}

export interface OptionSurroundings {
  readonly env: NodeJS.ProcessEnv;
  readonly isRoot: boolean;
}

export const stateOf = ({ state }: Pick<AgentValues, 'state'>, { env, isRoot }: OptionSurroundings): string =>
  state ?? defaultState(env, isRoot);

/** The whole configuration. Throws `WrongOptions`. */
export function agentConfig(values: AgentValues, around: OptionSurroundings): AgentConfig {
  const { server, interface: selector, untilFirstPolicy = 'closed', keepEstablished = false } = values;
  const organization = values.organization ?? organizationOf(around.env);
  const missing = [
    ...(server === undefined ? ['--server'] : []),
    ...(organization === undefined ? ['--organization'] : []),
    ...(selector === undefined ? ['--interface'] : []),
  ];
  if (server === undefined || organization === undefined || selector === undefined) {
    throw new WrongOptions(`the agent needs ${missing.join(' and ')} (\`ringfence agent --help\` says more)`);
  }
  return {
    server,
    organization,
    selector,
    proof: proofOf(values, around.env),
    state: stateOf(values, around),
    untilFirstPolicy,
    keepEstablished,
    serverAccess: values.serverAccess !== false,
    containers: values.containers ?? 'guard',
    tlsCa: values.tlsCa,
    metricsFile: values.metricsFile,
    logLevel: values.logLevel ?? 'info',
  };
}

function organizationOf(env: NodeJS.ProcessEnv): OrganizationId | undefined {
  const text = env['RINGFENCE_ORG'] ?? '';
  if (text === '') return undefined;
  try {
    return parseOrganizationId(text);
  } catch {
    throw new WrongOptions('RINGFENCE_ORG holds no id; the agent needs the id of its organization');
  }
}

function proofOf({ device, tokenFile, enroll, enrollFile, publicKey }: AgentValues, env: NodeJS.ProcessEnv): Proof {
  const file = enrollFile === undefined ? undefined : { file: enrollFile };
  const key = enroll === undefined ? file : { text: enroll };
  if (enroll !== undefined && enrollFile !== undefined)
    throw new WrongOptions('give --enroll or --enroll-file, not both');
  if (key !== undefined && device !== undefined) {
    throw new WrongOptions(
      'give --device with --token-file, or --enroll, not both: an enrolled device gets its own id',
    );
  }
  if (key !== undefined) return { kind: 'enroll', key, publicKey };
  const given = env['RINGFENCE_TOKEN']?.trim() ?? '';
  const token = tokenFile === undefined ? (given === '' ? undefined : { text: given }) : { file: tokenFile };
  // A token in the environment may be meant for the client commands: alone it says nothing about this device.
  if (device === undefined && tokenFile === undefined) return { kind: 'enrolled' };
  if (device === undefined) throw new WrongOptions('say which device this is: --device goes with --token-file');
  if (token === undefined) throw new WrongOptions('--device needs its token: --token-file, or RINGFENCE_TOKEN');
  return { kind: 'token', device, token };
}
