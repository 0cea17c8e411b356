/** Proves the verdict table by the oracle. */
import { describe, expect, test } from 'vitest';
import { decide } from '../../src/policy/decide.ts';
import { chapters, policyOfGroups } from './table.ts';

describe.each(chapters)('the oracle on $title', ({ groups, neighbourDiscovery = false, rows }) => {
  const policy = policyOfGroups(groups);

  test.each(rows)('%s', (_, packet, verdict) => {
    expect(decide(policy, packet, { neighbourDiscovery }).verdict).toBe(verdict);
  });
});
