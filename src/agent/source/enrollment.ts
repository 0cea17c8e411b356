/**
 * Owns enrollment: it turns an enrollment key into a device once, saves the identity, and survives a crash at any
 * moment.
 */
import type { AddDevice, RegisteredDevice } from '../../api/device.ts';
import { limits } from '../../api/limits.ts';
import { sleep, type Clock } from '../../client/clock.ts';
import { RingfenceError } from '../../client/error.ts';
import { parseDeviceId, type OrganizationId } from '../../policy/ids.ts';
import { deviceToken, type Identity, type IdentityFolder } from './identity.ts';
import type { Log } from '../host/log.ts';

export interface EnrollmentOptions {
  readonly organization: OrganizationId;
  /** Saved with the identity, so that later starts need neither the key nor `--server`. */
  readonly servers?: readonly string[];
  readonly folder: IdentityFolder;
  /** The device's tunnel key, where the operator gave one. */
  readonly publicKey: string | undefined;
  readonly makeKey: () => string;
  readonly makeRequestKey: () => string;
  readonly hostname: string;
  /** This machine, where it has an id. */
  readonly machine?: string;
  /** The device's addresses in the tunnel, as far as it has them already: isolation refuses those that are in its record. */
  readonly tunnelAddresses: () => Promise<readonly string[]>;
  /** Sent again with the same body and request key, it registers the device once and answers as the first time. */
  readonly register: (body: AddDevice, requestKey: string, signal: AbortSignal) => Promise<RegisteredDevice>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Thrown where the server does not take the device; the message is for an operator. */
export class NotEnrolled extends Error {
  readonly code = 'not_enrolled';
}

/**
 * Returns the saved identity of this device, or registers the device. Its key and the key of the request are written to
 * disk before the request is sent: an agent that was interrupted between the server's answer and the disk sends the same
 * again, and gets the same answer. Where the server no longer knows the request, its refusal shows what happened.
 */
export async function enroll(options: EnrollmentOptions, signal: AbortSignal): Promise<Identity> {
  const { organization, folder, log } = options;
  const known = await folder.identity();
  if (known?.organization === organization) return known;
  const before = await folder.application();
  const again = before?.organization === organization ? before.publicKey : undefined;
  const publicKey = options.publicKey ?? again ?? options.makeKey();
  const sameRequest = again === publicKey ? before?.requestKey : undefined;
  const requestKey = sameRequest ?? options.makeRequestKey();
  if (sameRequest === undefined) await folder.apply({ organization, publicKey, requestKey });
  try {
    const [first, ...others] = await options.tunnelAddresses();
    const addresses = others.slice(0, limits.deviceAddresses);
    const device = await options.register(
      {
        public_key: publicKey,
        hostname: options.hostname,
        ...(first !== undefined && { tunnel_ip: first }),
        ...(addresses.length > 0 && { addresses }),
      },
      requestKey,
      signal,
    );
    const { machine, servers } = options;
    const identity = {
      organization,
      ...readAnswer(device),
      publicKey,
      ...(servers !== undefined && { servers }),
      ...(machine !== undefined && { machine }),
    };
    log('info', 'the device is enrolled', { device: identity.device, organization });
    await save(identity, options, signal);
    return identity;
  } catch (error) {
    if (!(error instanceof RingfenceError)) throw error;
    if (error.status === 409 && options.publicKey === undefined && again !== undefined) {
      // An earlier answer was lost with its token: that device can never be run. Another takes its place.
      await folder.apply({ organization, publicKey: options.makeKey(), requestKey: options.makeRequestKey() });
      log(
        'warn',
        'an earlier enrollment was interrupted before the agent saved the answer; registering another device',
        {
          leftover: publicKey,
        },
      );
      return enroll(options, signal);
    }
    throw new NotEnrolled(reasonFor(error, again !== undefined), { cause: error });
  }
}

/** What is saved must be of use at the next start: an answer that is no device is no enrollment. */
function readAnswer(answer: RegisteredDevice): Pick<Identity, 'device' | 'token'> {
  try {
    return { device: parseDeviceId(answer.id), token: deviceToken(answer.device_token) };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new NotEnrolled(`the server's answer to the enrollment is not a device: ${why}`, { cause: error });
  }
}

const saveEvery = 10_000;

/** A disk that is full is no reason to do without a policy, nor to register yet another device: it is tried until it works. */
async function save(identity: Identity, { folder, clock, log }: EnrollmentOptions, signal: AbortSignal): Promise<void> {
  try {
    await folder.save(identity);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    log('error', `cannot save the enrollment yet; after a restart the agent must enroll again: ${message}`);
    void (async () => {
      while (!signal.aborted) {
        await sleep(clock, saveEvery, signal).catch(() => {});
        try {
          if (signal.aborted) return;
          await folder.save(identity);
          log('info', 'the enrollment is saved');
          return;
        } catch {
          // Logged already.
        }
      }
    })();
  }
}

function reasonFor(error: RingfenceError, again: boolean): string {
  const { status, message } = error;
  if (status === 401) {
    const spent = again
      ? ' An earlier attempt may have used it: delete the device from that attempt and create a new key.'
      : '';
    return `the server does not accept the enrollment key: ${message}${spent}`;
  }
  if (status === 409) {
    return `a device with this public key is already registered: delete it, or use it with --device and --token-file`;
  }
  if (status === 404) return `the enrollment key does not belong to this organization: ${message}`;
  return status === undefined
    ? `no answer to the enrollment: ${message}`
    : `the server refuses the enrollment: ${message}`;
}
