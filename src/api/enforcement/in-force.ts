/** Owns the words for whether a policy is in force on a device: the same for server, command line and web UI (reference 2.11). */

/** `yes` first, then by how much they ask of a person. */
export const inForceWords = ['yes', 'behind', 'failed', 'reverted', 'offline', 'never_seen', 'not_understood'] as const;
export type InForce = (typeof inForceWords)[number];

/** How each word is shown to people. */
export const inForceTitles: { readonly [Word in InForce]: string } = {
  yes: 'in force',
  behind: 'behind',
  failed: 'failed',
  reverted: 'reverted',
  offline: 'offline',
  never_seen: 'never seen',
  not_understood: 'not understood',
};

/** What each word means, as the end of a sentence about a device. */
export const inForceMeanings: { readonly [Word in InForce]: string } = {
  yes: 'enforces the policy as it should',
  behind: 'is connected and has not reported this change yet',
  failed: 'could not put the policy in force, or enforces another one',
  reverted: 'put the policy before back in force',
  offline: 'is offline and has not confirmed this change',
  never_seen: 'has never reported',
  not_understood: 'holds its last policy, because its agent does not understand the new one',
};

/** What to do about it. */
export const inForceAdvice: { readonly [Word in InForce]: string | undefined } = {
  yes: undefined,
  behind: 'wait a moment; if the state does not change, run `ringfence agent status` on the device',
  failed: 'run `ringfence agent status` on the device',
  reverted: 'the change disconnected the device from the server: correct the policy',
  offline: 'start the device or its agent, or check its connection to the server',
  never_seen: 'install the agent on the device, or delete the device',
  not_understood: 'update the agent on the device',
};

/** The order in which exceptions are shown: what is wrong before what is only missing. */
export const mostUrgentFirst: readonly InForce[] = [
  'failed',
  'reverted',
  'not_understood',
  'behind',
  'offline',
  'never_seen',
  'yes',
];

/**
 * Why what the policy says of a device is not what its packets meet, as the end of "allowed by policy, but …"; undefined where it is.
 * `ago`: when it was last seen, in words.
 */
export function shortcoming(name: string, in_force: InForce, ago: string | undefined): string | undefined {
  switch (in_force) {
    case 'yes':
      return undefined;
    case 'behind':
      return `${name} has not reported this change yet`;
    case 'failed':
      return `${name} failed to put its policy in force`;
    case 'reverted':
      return `${name} put the policy before back in force`;
    case 'offline':
      return `${name} was last seen ${ago ?? 'long ago'} and lacks this change`;
    case 'never_seen':
      return `${name} has never reported`;
    case 'not_understood':
      return `${name} holds its last policy, because its agent does not understand the new one`;
    default:
      return in_force satisfies never;
  }
}
