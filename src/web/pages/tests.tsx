/** Owns the page of policy tests: what must be allowed or refused, whether it is, and what would fix it. */
import { ActionIcon, Button } from '@mantine/core';
import { Link, useParams } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import type { PolicyTestResult } from '../../api/policy-tests/policy-test.ts';
import { testInWords } from '../../policy/policy-test/words.ts';
import { EditIcon, PlusIcon, TestIcon, TrashIcon } from '../components/icons.tsx';
import { Empty, ListState } from '../components/placeholders.tsx';
import { Ago } from '../components/time.tsx';
import { notify } from '../components/toast.tsx';
import { Page } from '../components/page.tsx';
import { fixDraft } from '../model/allow-draft.ts';
import { plural } from '../model/rule-text.ts';
import { emptyTest, testDraft, type TestDraft } from '../policy-test/test-draft.ts';
import { TestDialog } from '../policy-test/test-dialog.tsx';
import { TestFailure, TestStateTag } from '../policy-test/test-results.tsx';
import { useDeviceNames } from '../state/fleet.ts';
import { useRights, useSnapshot } from '../state/organization.ts';
import { useEditTests, usePolicyTests, withoutResult, type TestRun } from '../state/policy-tests.ts';
import { useWrite } from '../state/write.ts';

/** The way to the rule: a draft where one is missing, the group where one decides. */
function Fix({ result, org }: { readonly result: PolicyTestResult; readonly org: string }): ReactNode {
  const { groupById } = useSnapshot();
  const { failure } = result;
  const id = failure?.fix?.group_id ?? failure?.group_id;
  const group = id === undefined ? undefined : groupById.get(id);
  if (failure === undefined || group === undefined) return null;
  const allow = failure.fix && fixDraft(failure.fix);
  return (
    <Link
      className="link small"
      to="/o/$org/groups/$group"
      params={{ org, group: group.id }}
      search={allow === undefined ? {} : { allow }}
    >
      {allow === undefined ? `Open ${group.group_name}` : `Draft this rule in ${group.group_name}`}
    </Link>
  );
}

function TestRow({
  result,
  org,
  edit,
  remove,
}: {
  readonly result: PolicyTestResult;
  readonly org: string;
  /** Absent where the reader may change nothing. */
  readonly edit: (() => void) | undefined;
  readonly remove: (() => void) | undefined;
}): ReactNode {
  const names = useDeviceNames();
  return (
    <li className="test">
      <TestStateTag state={result.state} />
      <div className="grow stack tight">
        <p>
          <strong>{result.name}</strong>
        </p>
        <p className="small dimmed">{testInWords(result, names.nameOf)}</p>
        {result.state === 'failing' ? (
          <p className="small fault">
            <TestFailure result={result} />
          </p>
        ) : null}
        {result.state === 'vacuous' ? (
          <p className="small">No pair of devices matches, so nothing is checked.</p>
        ) : null}
        {result.note === undefined ? null : <p className="small">{result.note}</p>}
        <Fix result={result} org={org} />
      </div>
      {edit === undefined || remove === undefined ? null : (
        <span className="row test-actions">
          <ActionIcon size="lg" aria-label={`Edit ${result.name}`} onClick={edit}>
            <EditIcon size={16} />
          </ActionIcon>
          <ActionIcon size="lg" aria-label={`Remove ${result.name}`} onClick={remove}>
            <TrashIcon size={16} />
          </ActionIcon>
        </span>
      )}
    </li>
  );
}

const order = { failing: 0, vacuous: 1, passing: 2 } as const;
const countOf = (results: readonly PolicyTestResult[], wanted: PolicyTestResult['state']): number =>
  results.filter(({ state }) => state === wanted).length;

/** `3 passing, 1 failing`, and how long the run took. */
function Summary({ run: { results, took }, at }: { readonly run: TestRun; readonly at: number }): ReactNode {
  const counts = (['failing', 'vacuous', 'passing'] as const)
    .map((state) => [countOf(results, state), state] as const)
    .filter(([count]) => count > 0)
    .map(([count, state]) => `${count} ${state}`);
  return (
    <p className="dimmed" role="status">
      {counts.join(', ')}. Run <Ago at={at} />, in {Math.max(1, Math.round(took))} ms.
    </p>
  );
}

export function TestsPage(): ReactNode {
  const { org } = useParams({ from: '/o/$org/tests' });
  const { governs } = useRights();
  const names = useDeviceNames();
  const query = usePolicyTests();
  const editTests = useEditTests();
  const [form, setForm] = useState<{ readonly draft: TestDraft; readonly replaces?: string }>();
  const results = query.data?.results;
  const { start: remove } = useWrite(async (gone: PolicyTestResult) => {
    const test = withoutResult(gone);
    await editTests((tests) => tests.filter(({ name }) => name !== gone.name));
    notify(`${gone.name} is removed.`, () => editTests((tests) => [...tests, test]));
  }, 'The test stays');
  const taken = new Set(results?.map(({ name }) => name).filter((name) => name !== form?.replaces));
  return (
    <Page
      title="Policy tests"
      about="What must be allowed or refused. A change that breaks a test is not saved, unless an owner insists."
      actions={
        <>
          <Button variant="default" loading={query.isFetching} onClick={() => void query.refetch()}>
            Run again
          </Button>
          {governs ? (
            <Button leftSection={<PlusIcon size={16} />} onClick={() => setForm({ draft: emptyTest })}>
              New test
            </Button>
          ) : null}
        </>
      }
    >
      {form === undefined ? null : (
        <TestDialog initial={form.draft} replaces={form.replaces} taken={taken} close={() => setForm(undefined)} />
      )}
      {query.data === undefined || results?.length === 0 ? null : <Summary run={query.data} at={query.dataUpdatedAt} />}
      <section className="card" aria-label="Policy tests">
        {results === undefined ? (
          <ListState query={query} loading="Running the tests…" />
        ) : results.length === 0 ? (
          <Empty icon={<TestIcon size={40} />} title="No policy tests yet">
            {governs
              ? 'Add one here, or choose “Keep it this way” on the reachability page.'
              : 'Owners add them. A test keeps a connection allowed or refused, whoever changes the rules.'}
          </Empty>
        ) : (
          <ul className="tests">
            {results
              .toSorted((a, b) => order[a.state] - order[b.state])
              .map((result) => (
                <TestRow
                  key={result.name}
                  result={result}
                  org={org}
                  edit={governs ? () => setForm({ draft: testDraft(result, names), replaces: result.name }) : undefined}
                  remove={governs ? () => remove(result) : undefined}
                />
              ))}
          </ul>
        )}
      </section>
      {results === undefined || results.length === 0 ? null : (
        <p className="small dimmed">
          {plural(results.length, 'test')}. A vacuous test matches no pair of devices: it is no proof of anything.
        </p>
      )}
    </Page>
  );
}
