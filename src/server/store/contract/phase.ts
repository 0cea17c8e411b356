/** Owns the phases of the security group design (reference 1.1). */

/** 1 = the default group only; 2 = one group a device; 3 = a list of up to 64 groups a device. */
export type Phase = 1 | 2 | 3;
