/** Owns the agent's configuration: the meaning of its options together, and which options exclude each other. */
import { parseOrganizationId, type DeviceId, type OrganizationId } from '../policy/ids.ts';
import type { Selector } from './host/driver-interface.ts';
import type { LogLevel } from './host/log.ts';
import type { UntilFirstPolicy } from './loop/starting-policy.ts';
import { stateOf, type AgentValues, type OptionSurroundings } from './options.ts';
import { endpointOf, shareOnePort } from './source/server-endpoint.ts';

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
  /** URLs without a slash at the end. */
  readonly servers: readonly string[];
  readonly organization: OrganizationId;
  readonly selector: Selector;
  readonly proof: Proof;
  readonly state: string;
  /** Go on with an identity that was made on another machine. */
  readonly adopt: boolean;
  readonly untilFirstPolicy: UntilFirstPolicy;
  readonly keepEstablished: boolean;
  readonly serverAccess: boolean;
  readonly checkedApply: boolean;
  readonly containers: 'guard' | 'ignore';
  readonly tlsCa: string | undefined;
  readonly metricsFile: string | undefined;
  readonly logLevel: LogLevel;
}

/** Thrown where options are missing or contradict each other: one line for a person. */
export class WrongOptions extends Error {
  readonly code = 'wrong_options';
}

/** The whole configuration. Throws `WrongOptions`. */
export function agentConfig(values: AgentValues, around: OptionSurroundings): AgentConfig {
  const { server: servers, interface: selector, untilFirstPolicy = 'closed', keepEstablished = false } = values;
  const organization = values.organization ?? organizationOf(around.env);
  const missing = [
    ...(servers === undefined ? ['--server'] : []),
    ...(organization === undefined ? ['--organization'] : []),
    ...(selector === undefined ? ['--interface'] : []),
  ];
  if (servers === undefined || organization === undefined || selector === undefined) {
    throw new WrongOptions(`the agent needs ${missing.join(' and ')} (see \`ringfence agent --help\`)`);
  }
  if (values.serverAccess !== false && !shareOnePort(servers.map(endpointOf))) {
    throw new WrongOptions(
      'all servers must use the same port, because the rules keep one port open for the agent (or use --no-server-access)',
    );
  }
  return {
    servers,
    organization,
    selector,
    proof: proofOf(values, around.env),
    state: stateOf(values, around),
    adopt: values.adopt ?? false,
    untilFirstPolicy,
    keepEstablished,
    serverAccess: values.serverAccess !== false,
    checkedApply: values.checkedApply !== false,
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
    throw new WrongOptions('RINGFENCE_ORG is not an id; the agent needs the id of its organization');
  }
}

function proofOf({ device, tokenFile, enroll, enrollFile, publicKey }: AgentValues, env: NodeJS.ProcessEnv): Proof {
  const file = enrollFile === undefined ? undefined : { file: enrollFile };
  const key = enroll === undefined ? file : { text: enroll };
  if (enroll !== undefined && enrollFile !== undefined) throw new WrongOptions('use either --enroll or --enroll-file');
  if (key !== undefined && device !== undefined) {
    throw new WrongOptions('use either --device with --token-file, or --enroll: an enrolled device gets its own id');
  }
  if (key !== undefined) return { kind: 'enroll', key, publicKey };
  const given = env['RINGFENCE_TOKEN']?.trim() ?? '';
  const token = tokenFile === undefined ? (given === '' ? undefined : { text: given }) : { file: tokenFile };
  // A token in the environment may be meant for the client commands: alone it says nothing about this device.
  if (device === undefined && tokenFile === undefined) return { kind: 'enrolled' };
  if (device === undefined) throw new WrongOptions('--token-file needs --device: give the id of this device');
  if (token === undefined) throw new WrongOptions('--device needs a token: use --token-file or RINGFENCE_TOKEN');
  return { kind: 'token', device, token };
}
