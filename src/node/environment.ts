/** Owns the reading of environment variables for options that take no value. */

/** Whether a variable says no: `RINGFENCE_REMOVE=0` must not remove anything. */
export const isOff = (text: string): boolean => /^(?:0|false|no|off)$/i.test(text.trim());
