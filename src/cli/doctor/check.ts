/** Owns one check of the doctor: its name, its result, and what to do about it. */

export type CheckState = 'ok' | 'warning' | 'failed' | 'skipped';

export interface Check {
  readonly name: string;
  readonly state: CheckState;
  readonly detail: string;
  /** What to do; only where something is wrong. */
  readonly advice?: string;
}

export const ok = (name: string, detail: string): Check => ({ name, state: 'ok', detail });
export const skipped = (name: string, detail: string): Check => ({ name, state: 'skipped', detail });
export const warning = (name: string, detail: string, advice?: string): Check => ({
  name,
  state: 'warning',
  detail,
  ...(advice !== undefined && { advice }),
});
export const failed = (name: string, detail: string, advice?: string): Check => ({
  name,
  state: 'failed',
  detail,
  ...(advice !== undefined && { advice }),
});

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
