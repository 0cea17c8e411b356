/** Owns what a device status says about enforcement. Reading one never fails, even if the device sent nonsense. */
import { isObject } from '../../policy/json.ts';
import type { DeviceStatus } from '../store/data/records.ts';

export interface Receipt {
  readonly state: 'starting' | 'applied' | 'failed' | 'reverted';
  /** The revision that its rules reflect. */
  readonly revision: number | undefined;
  /** The newest that it has dealt with, where that did not work. */
  readonly observed: number | undefined;
  /** The digest of the policy in its kernel. */
  readonly digest: string | undefined;
  /** How the digest was made; agents of earlier versions do not say it, and theirs is 1. */
  readonly digestForm: number;
  readonly code: string | undefined;
  readonly detail: string | undefined;
  readonly reported_at: string;
  readonly status: unknown;
}

const integerOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) ? value : undefined;
const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

export function readReceipt({ status, reported_at }: Pick<DeviceStatus, 'status' | 'reported_at'>): Receipt {
  const said = isObject(status) ? status : {};
  const { state, revision } = said;
  return {
    state: state === 'applied' || state === 'failed' || state === 'reverted' ? state : 'starting',
    revision: integerOf(revision),
    observed: integerOf(said['observed_revision']),
    digest: textOf(said['policy_digest'])?.toLowerCase(),
    digestForm: integerOf(said['policy_digest_form']) ?? 1,
    code: textOf(said['code']),
    detail: textOf(said['detail']),
    reported_at,
    status,
  };
}
