/** Owns the policy tests as pages know them: their results now, how long the run took, and writes that lose no one else's test. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import type { PolicyTestResult } from '../../api/policy-tests/policy-test.ts';
import { RingfenceError } from '../../client/error.ts';
import { revisionOf } from '../../client/headers.ts';
import type { Client } from '../../client/http.ts';
import type { PolicyTest } from '../../policy/policy-test/policy-test.ts';
import { useLive } from './organization.ts';
import { useAskedOnChange } from './overview.ts';
import { writeOrAsk } from './write.tsx';
import { useSession } from './session.ts';

/** Rules expire and devices join without an event that the page could wait for. */
const everyMs = 30_000;

export interface TestRun {
  readonly results: readonly PolicyTestResult[];
  /** How long the answer took, in milliseconds. */
  readonly took: number;
  /** The revision of the list. */
  readonly revision: number | undefined;
}

const question = 'policy tests';

/** The results of all tests; they run again when something changes. */
export function usePolicyTests(enabled = true) {
  const { client } = useSession();
  const { id } = useLive();
  useAskedOnChange(question);
  return useQuery({
    queryKey: [question, id],
    queryFn: async ({ signal }): Promise<TestRun> => {
      const start = performance.now();
      const { value, etag } = await client.request('listPolicyTests', { params: { org_id: id }, signal });
      return { results: value, took: performance.now() - start, revision: revisionOf(etag) };
    },
    refetchInterval: everyMs,
    enabled,
  });
}

type Edit = (tests: readonly PolicyTest[]) => readonly PolicyTest[];

export const withoutResult = ({
  state: _state,
  failure: _failure,
  until: _until,
  ...test
}: PolicyTestResult): PolicyTest => test;

/** Someone else may write the list at the same time: then the edit is made again on top of theirs. */
const mostConflicts = 5;

async function replaceTests(client: Client, org: string, edit: Edit): Promise<readonly PolicyTestResult[]> {
  for (let conflicts = 0; ; conflicts += 1) {
    const { value, etag } = await client.request('listPolicyTests', { params: { org_id: org } });
    const next = edit(value.map(withoutResult));
    try {
      return await writeOrAsk((asked) =>
        client.policyTests.replace(org, next, { ...(etag !== undefined && { ifMatch: etag }), ...asked }),
      );
    } catch (error) {
      const isConflict = error instanceof RingfenceError && error.code === 'precondition_failed';
      if (!isConflict || conflicts >= mostConflicts) throw error;
    }
  }
}

/** Changes the list of tests and shows the results at once. */
export function useEditTests(): (edit: Edit) => Promise<readonly PolicyTestResult[]> {
  const { client } = useSession();
  const { id } = useLive();
  const queries = useQueryClient();
  return async (edit) => {
    const results = await replaceTests(client, id, edit);
    await queries.invalidateQueries({ queryKey: [question, id] });
    return results;
  };
}
