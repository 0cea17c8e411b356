/** Owns the phases of the security group design (reference 1.1). */

/** 1 = the default group only; 2 = one group a device; 3 = a list of up to 64 groups a device. */
export type Phase = 1 | 2 | 3;

/** How many groups a device's list may hold (reference 8). */
export const listLimit: Readonly<Record<Phase, number>> = { 1: 0, 2: 1, 3: 64 };
