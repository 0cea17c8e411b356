/** Owns the list of all server options and the types of their values. */
import { boundOptions } from './bounds.ts';
import { connectionOptions } from './connections.ts';
import type { ServerOption } from './option.ts';
import { quotaOptions } from './quotas.ts';
import { serviceOptions } from './service.ts';
import { signInOptions } from './sign-in.ts';
import { streamOptions } from './streams.ts';

/** In the order of `--help`. */
export const serverOptions = {
  ...serviceOptions,
  ...boundOptions,
  ...connectionOptions,
  ...quotaOptions,
  ...streamOptions,
  ...signInOptions,
} as const satisfies Readonly<Record<string, ServerOption>>;

export type ValueOf<O> = O extends { readonly read: (text: string) => infer V }
  ? O extends { readonly fallback: unknown }
    ? V
    : V | undefined
  : boolean;

/** The parsed options: given values or defaults. */
export type ServerValues = { readonly [K in keyof typeof serverOptions]?: ValueOf<(typeof serverOptions)[K]> };
