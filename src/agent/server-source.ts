/** Owns the assembly of the agent's policy source: the identity of this device, its credential, and the stream. */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { limits } from '../api/limits.ts';
import { systemClock } from '../client/clock.ts';
import { Client } from '../client/http.ts';
import type { Fetch } from '../client/request.ts';
import { withConnectionHint } from '../node/connection-hint.ts';
import { createNodeFetch, type NodeFetchOptions } from '../node/fetch.ts';
import type { DeviceId } from '../policy/ids.ts';
import { enrollmentSecret } from '../policy/names/enrollment-key.ts';
import type { AgentConfig } from './config.ts';
import { readText, type TextSource } from './destination.ts';
import { keepCompiled } from './host/compile-cache.ts';
import type { Log } from './host/log.ts';
import { commandRunner } from './host/run-command.ts';
import { notifyReady } from './host/systemd-notify.ts';
import { tunnelAddresses } from './host/tunnel-address.ts';
import { budgetOf } from './source/budget.ts';
import { enroll } from './source/enrollment.ts';
import { IdentifiedSource } from './source/identified-policy-source.ts';
import { BadIdentity, type Identity, type IdentityFolder } from './source/identity.ts';
import { mintDeviceToken, TokenRenewal } from './source/token-renewal.ts';
import { InformerSource } from './source/informer-policy-source.ts';
import { connectionsThrough } from './source/open-server-access.ts';
import type { AllServerAddresses } from './source/all-server-addresses.ts';
import { choosingFetch } from './source/server-choice.ts';

/** Milliseconds for a connection to the server: a device whose network comes back follows again soon after. */
const connectTimeout = 5_000;
/**
 * An agent that records traffic reports it every minute, and keeps the connection from one report to the next: a TLS handshake costs the server more than the
 * rest of the report (docs/decisions/agent.md).
 */
const reportKeepAliveMs = 90_000;

/** Until a server has answered, a failure says what may be wrong with its URL. */
function withHints(fetch: Fetch): Fetch {
  let isReached = false;
  return async (url, init) => {
    try {
      const answer = await fetch(url, init);
      isReached = true;
      return answer;
    } catch (error) {
      init.signal.throwIfAborted();
      throw isReached ? error : await withConnectionHint(url, error);
    }
  };
}

export interface ServerSourceOptions {
  readonly config: AgentConfig;
  readonly folder: IdentityFolder;
  readonly log: Log;
  readonly version: string;
  /** This machine, where it has an id. */
  readonly machine: string | undefined;
  /** The driver interface, once it is known. */
  readonly driver: () => string | undefined;
  /** Somebody waits until what is in force reflects this revision. */
  readonly onAwaited: (revision: number) => void;
  /** Absent: connections find the server by themselves. */
  readonly serverAccess: AllServerAddresses | undefined;
  /** The server has answered, and its clock showed this, in milliseconds since the epoch. */
  readonly onServerTime: (time: number) => void;
}

interface IdentifiedDevice {
  readonly device: DeviceId;
  readonly client: Client;
  /** For reports that go out every minute. */
  readonly reports: Client;
  /** Absent where the operator gave the token: it is theirs to renew. */
  readonly renewal?: TokenRenewal;
}

export interface ServerSource {
  readonly source: IdentifiedSource<IdentifiedDevice>;
  /** Devices of the organization, as far as known. */
  readonly devices: () => number;
}

export function createServerSource(options: ServerSourceOptions): ServerSource {
  const { config, folder, log, version, serverAccess, onAwaited } = options;
  const { servers, organization, proof, tlsCa } = config;
  const [server = ''] = servers;
  const toServer: NodeFetchOptions = {
    connectTimeout,
    ...(tlsCa !== undefined && { authorities: () => readFile(tlsCa, 'utf8') }),
    ...(serverAccess && connectionsThrough(serverAccess)),
    // Besides its stream the agent reads no list: a group that is on trial is the largest of what it asks for.
    largestAnswer: 2 * limits.body,
  };
  const fetchWith = (more: NodeFetchOptions): Fetch => {
    const choice = { servers, random: Math.random, ...(serverAccess && { addresses: serverAccess }) };
    const send = choosingFetch(withHints(createNodeFetch({ ...toServer, ...more })), choice);
    return async (url, init) => {
      const answer = await send(url, init);
      const time = Date.parse(answer.headers.get('date') ?? '');
      if (!Number.isNaN(time)) options.onServerTime(time);
      return answer;
    };
  };
  const fetch = fetchWith({});
  const reportFetch = fetchWith({ keepAliveMs: reportKeepAliveMs });
  const clientWith = (token: TextSource, secretIn = (text: string): string => text, by = fetch): Client =>
    new Client({
      url: server,
      token: async () => secretIn(await readText(token)),
      headers: { 'user-agent': `ringfence-agent/${version}` },
      fetch: by,
    });
  const identified = (device: DeviceId, token: TextSource): IdentifiedDevice => ({
    device,
    client: clientWith(token),
    reports: clientWith(token, undefined, reportFetch),
  });
  /** The device's own token: requests take the one of that moment, and say which one was refused. */
  const renewing = (identity: Identity): IdentifiedDevice => {
    const renewal = new TokenRenewal({ identity, folder, mint: mintDeviceToken, log });
    const watched =
      (by: Fetch): Fetch =>
      async (url, init) => {
        const used = renewal.token;
        const answer = await by(url, init);
        if (answer.status === 401) renewal.refused(used);
        return answer;
      };
    const clientBy = (by: Fetch): Client =>
      new Client({
        url: server,
        token: () => Promise.resolve(renewal.token),
        headers: { 'user-agent': `ringfence-agent/${version}` },
        fetch: watched(by),
      });
    return { device: identity.device, client: clientBy(fetch), reports: clientBy(reportFetch), renewal };
  };
  let ready: Promise<void> | undefined;
  const identify = async (signal: AbortSignal): Promise<IdentifiedDevice> => {
    // The agent asks for the network when what it knows is in force, or has failed to be.
    await (ready ??= notifyReady(process.env).then(() => keepCompiled()));
    if (proof.kind === 'token') return identified(proof.device, proof.token);
    const identity =
      proof.kind === 'enrolled'
        ? await folder.identity()
        : await enrollDevice(options, clientWith(proof.key, enrollmentSecret), proof.publicKey, signal);
    if (identity === undefined) throw new BadIdentity(`${folder.path('identity')} no longer exists`);
    return renewing(identity);
  };
  const onFault = (fault: unknown): void => log('error', `internal error in the agent: ${String(fault)}`);
  let informer: InformerSource | undefined;
  const source = new IdentifiedSource({
    identify,
    open: ({ device, client }) => {
      const budget = budgetOf(config.maxMemory);
      return (informer = new InformerSource({ client, organization, device, budget, onAwaited, onFault }));
    },
    clock: systemClock,
    random: Math.random,
  });
  return { source, devices: () => informer?.devices ?? 0 };
}

function enrollDevice(
  { config: { organization, servers }, folder, log, machine, driver }: ServerSourceOptions,
  client: Client,
  publicKey: string | undefined,
  signal: AbortSignal,
): Promise<Identity> {
  return enroll(
    {
      organization,
      servers,
      folder,
      publicKey,
      // Not a tunnel key: a unique name for the device in the shape of a WireGuard key.
      makeKey: () => randomBytes(32).toString('base64'),
      hostname: hostname().slice(0, 255),
      ...(machine !== undefined && { machine }),
      tunnelAddresses: () => tunnelAddresses(commandRunner([]), driver()),
      makeRequestKey: randomUUID,
      // Another body, as after a change of the host name, is another request.
      register: (body, requestKey, within) =>
        client.devices.create(organization, body, {
          signal: within,
          idempotencyKey: createHash('sha256')
            .update(`${requestKey} ${JSON.stringify(body)}`)
            .digest('hex'),
        }),
      clock: systemClock,
      log,
    },
    signal,
  );
}
