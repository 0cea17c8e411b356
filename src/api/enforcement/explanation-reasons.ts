/** Owns why a policy decides as it does, in words of the wire. */
export const explanationReasons = [
  'rule',
  'forbid',
  'require',
  'open',
  'no-rule',
  'isolated',
  'far-end-isolated',
  'isolation-allows',
  'discovery',
  'server',
  'connection',
  'forwarded',
] as const;
