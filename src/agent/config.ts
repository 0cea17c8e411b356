/** Owns the agent's configuration: the meaning of its options together, and which options exclude each other. */
import { isUuid, parseOrganizationId, type DeviceId, type OrganizationId } from '../policy/ids.ts';
import type { Destination, TextSource } from './destination.ts';
import type { Selector } from './host/driver-interface.ts';
import type { LogLevel } from './host/log.ts';
import type { UntilFirstPolicy } from './loop/starting-policy.ts';
import { stateOf, type AgentValues, type OptionSurroundings } from './options.ts';
import { defaultMegabytes } from './source/budget.ts';
import { endpointOf, shareOnePort } from './source/server-endpoint.ts';

/** How the agent shows who it is. */
export type Proof =
  /** A device that is registered already, and a token of it or of its user. */
  | { readonly kind: 'token'; readonly device: DeviceId; readonly token: TextSource }
  | { readonly kind: 'enroll'; readonly key: TextSource; readonly publicKey: string | undefined }
  /** Nothing was said: what an earlier enrollment left must do. */
  | { readonly kind: 'enrolled' };

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
  /** Megabytes for what the server sends. */
  readonly maxMemory: number;
  readonly tlsCa: string | undefined;
  readonly metricsFile: string | undefined;
  readonly logLevel: LogLevel;
  /** What a person should know about these options; logged at the start. */
  readonly notices: readonly string[];
}

/** Thrown where options are missing or contradict each other: one line for a person. */
export class WrongOptions extends Error {
  readonly code = 'wrong_options';
}

/** The enrollment key in the options, if there is one. Throws `WrongOptions`. */
export function keyOf({ enroll, enrollFile }: AgentValues): TextSource | undefined {
  if (enroll !== undefined && enrollFile !== undefined) throw new WrongOptions('use either --enroll or --enroll-file');
  if (enroll !== undefined) return { text: enroll };
  return enrollFile === undefined ? undefined : { file: enrollFile };
}

/** The whole configuration: the options, and for what they leave out, the enrollment key or the saved identity. Throws `WrongOptions`. */
export function agentConfig(values: AgentValues, around: OptionSurroundings, known?: Destination): AgentConfig {
  const { interface: selector, untilFirstPolicy = 'closed', keepEstablished = false } = values;
  const given = { servers: values.server, organization: organizationOf(values, around) };
  const servers = given.servers ?? known?.servers;
  const organization = given.organization ?? known?.organization;
  if (organization === undefined && (around.env['RINGFENCE_ORG'] ?? '') !== '')
    throw new WrongOptions(
      'RINGFENCE_ORG is not an id; the agent needs the id of its organization, which an enrollment key carries: use --enroll, or --organization with the id',
    );
  const missing = [
    ...(servers === undefined ? ['--server'] : []),
    ...(organization === undefined ? ['--organization'] : []),
    ...(selector === undefined ? ['--interface'] : []),
  ];
  if (servers === undefined || organization === undefined || selector === undefined) {
    const why = selector === undefined || known?.fault === undefined ? '' : `: ${known.fault}`;
    throw new WrongOptions(`the agent needs ${missing.join(' and ')}${why} (see \`ringfence agent --help\`)`);
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
    maxMemory: values.maxMemory ?? defaultMegabytes,
    tlsCa: values.tlsCa,
    metricsFile: values.metricsFile,
    logLevel: values.logLevel ?? 'info',
    notices: known === undefined ? [] : overridden(given, known),
  };
}

/** An option that was given wins over the enrollment key and the saved identity. Where they differ, a person should know. */
function overridden(
  given: { readonly servers: readonly string[] | undefined; readonly organization: OrganizationId | undefined },
  { servers, organization, source, unused }: Destination,
): readonly string[] {
  const differs = <T extends string>(one: T | undefined, other: T | undefined): boolean =>
    one !== undefined && other !== undefined && one !== other;
  return [
    ...(differs(given.servers?.join(), servers?.join())
      ? [`using --server ${given.servers?.join()}, although ${source} names ${servers?.join()}`]
      : []),
    ...(differs(given.organization, organization)
      ? [`using --organization ${given.organization}, although ${source} names ${organization}`]
      : []),
    ...(given.servers === undefined && unused !== undefined
      ? [
          `using ${servers?.join()}, where this device is enrolled, although the enrollment key names ${unused.join()}; --server changes it`,
        ]
      : []),
  ];
}

/** The organization in the options, if it is there. `RINGFENCE_ORG` may name one for the client commands, which says nothing to the agent. */
export function organizationOf({ organization }: AgentValues, { env }: OptionSurroundings): OrganizationId | undefined {
  if (organization !== undefined) return organization;
  const text = env['RINGFENCE_ORG'] ?? '';
  return isUuid(text) ? parseOrganizationId(text) : undefined;
}

function proofOf(values: AgentValues, env: NodeJS.ProcessEnv): Proof {
  const { device, tokenFile, publicKey } = values;
  const key = keyOf(values);
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
