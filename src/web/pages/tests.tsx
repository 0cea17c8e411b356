/** Owns the page of policy tests: what must be allowed or refused, whether it is, and what would fix it. */
import { ActionIcon, Button, NativeSelect, SegmentedControl, Textarea, TextInput } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import type { PolicyTestResult } from '../../api/policy-tests/policy-test.ts';
import { testInWords } from '../../policy/policy-test/words.ts';
import { EditIcon, PlusIcon, TestIcon, TrashIcon } from '../components/icons.tsx';
import { List, ListRow } from '../components/list.tsx';
import { Empty } from '../components/placeholders.tsx';
import { Ago, Page } from '../components/page.tsx';
import { notify, useWrite } from '../state/write.tsx';
import { fixDraft } from '../model/draft.ts';
import { plural } from '../../client/words/number.ts';
import { emptyTest, testDraft, readTest, type TestDraft, type TestField } from '../policy-test/test-draft.ts';
import { TestFailure, TestStateTag } from '../policy-test/test-results.tsx';
import { useDeviceNames, useRights, useSnapshot, useLive } from '../state/organization.ts';
import { useEditTests, usePolicyTests, withoutResult, type TestRun } from '../state/policy-tests.ts';
import { useQuery } from '@tanstack/react-query';
import type { PolicyTest, TestProtocol } from '../../policy/policy-test/policy-test.ts';
import { FormDialog } from '../components/dialog.tsx';
import { FarEndInput } from '../group/far-end-input.tsx';
import { useSession } from '../state/session.ts';

/** The way to the rule: a draft where one is missing, the group where one decides. */
function Fix({ result }: { readonly result: PolicyTestResult }): ReactNode {
  const { id: org } = useLive();
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
  edit,
  remove,
}: {
  readonly result: PolicyTestResult;
  /** Absent where the reader may change nothing. */
  readonly edit: (() => void) | undefined;
  readonly remove: (() => void) | undefined;
}): ReactNode {
  const names = useDeviceNames();
  return (
    <ListRow
      mark={<TestStateTag state={result.state} />}
      name={result.name}
      about={testInWords(result, names.nameOf)}
      actions={
        edit &&
        remove && (
          <>
            <ActionIcon size="lg" aria-label={`Edit ${result.name}`} onClick={edit}>
              <EditIcon size={16} />
            </ActionIcon>
            <ActionIcon size="lg" aria-label={`Remove ${result.name}`} onClick={remove}>
              <TrashIcon size={16} />
            </ActionIcon>
          </>
        )
      }
    >
      {result.state === 'failing' ? (
        <p className="small fault">
          <TestFailure result={result} />
        </p>
      ) : null}
      {result.state === 'vacuous' ? <p className="small">No pair of devices matches, so nothing is checked.</p> : null}
      {result.note === undefined ? null : <p className="small">{result.note}</p>}
      <Fix result={result} />
    </ListRow>
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
        <List
          query={query}
          loading="Running the tests…"
          entries={results?.toSorted((a, b) => order[a.state] - order[b.state])}
          empty={
            <Empty icon={<TestIcon size={40} />} title="No policy tests yet">
              {governs
                ? 'Add one here, or choose “Keep it this way” on the reachability page.'
                : 'Owners add them. A test keeps a connection allowed or refused, whoever changes the rules.'}
            </Empty>
          }
          row={(result) => (
            <TestRow
              key={result.name}
              result={result}
              edit={governs ? () => setForm({ draft: testDraft(result, names), replaces: result.name }) : undefined}
              remove={governs ? () => remove(result) : undefined}
            />
          )}
        />
      </section>
      {results === undefined || results.length === 0 ? null : (
        <p className="small dimmed">
          {plural(results.length, 'test')}. A vacuous test matches no pair of devices: it is no proof of anything.
        </p>
      )}
    </Page>
  );
}

/** What the test says of the policy as it is now, before it is saved. */
function Outcome({ test }: { readonly test: PolicyTest }): ReactNode {
  const { client } = useSession();
  const { id } = useLive();
  const { data } = useQuery({
    queryKey: ['test outcome', id, JSON.stringify(test)],
    queryFn: ({ signal }) => client.simulate(id, { policy_tests: [test] }, { limit: 1, signal }),
    placeholderData: (before) => before,
  });
  const [result] = data?.tests ?? [];
  if (result === undefined) return null;
  if (result.state === 'vacuous')
    return (
      <p className="note note-warn" role="status">
        No pair of devices matches now, so the test checks nothing yet.
      </p>
    );
  if (result.state === 'passing')
    return (
      <p className="note note-plain" role="status">
        It passes now.
      </p>
    );
  return (
    <p className="note note-bad" role="status">
      {result.until === undefined ? 'It fails now: ' : null}
      <TestFailure result={result} />
    </p>
  );
}

function TestDialog({
  initial,
  replaces,
  taken,
  close,
}: {
  readonly initial: TestDraft;
  /** The name of the test that is edited; undefined for a new one. */
  readonly replaces?: string | undefined;
  /** Names of the other tests. */
  readonly taken: ReadonlySet<string>;
  readonly close: () => void;
}): ReactNode {
  const names = useDeviceNames();
  const edit = useEditTests();
  const [draft, setDraft] = useState(initial);
  const [isSubmitted, setSubmitted] = useState(false);
  const { problems, test } = readTest(draft, names, taken);
  const change = (fields: Partial<TestDraft>): void => setDraft({ ...draft, ...fields });
  const faultOf = (field: TestField): string | undefined =>
    isSubmitted || (field !== 'note' && draft[field] !== initial[field] && draft[field] !== '')
      ? problems[field]
      : undefined;
  const { start, busy, fault } = useWrite(async (wanted: PolicyTest) => {
    await edit((tests) =>
      replaces === undefined
        ? [...tests, wanted]
        : tests.some(({ name }) => name === replaces)
          ? tests.map((one) => (one.name === replaces ? wanted : one))
          : [...tests, wanted],
    );
    close();
  });
  const submit = (event: { preventDefault(): void }): void => {
    event.preventDefault();
    setSubmitted(true);
    if (test !== undefined) start(test);
  };
  const end = (field: 'from' | 'to', label: string): ReactNode => (
    <FarEndInput
      label={label}
      placeholder="label:app, device:web-1 or an address"
      suggest="all"
      chips={draft[field] === '' ? [] : [draft[field]]}
      onChange={(chips) => change({ [field]: chips.at(-1) ?? '' })}
      error={faultOf(field)}
    />
  );
  return (
    <FormDialog
      title={replaces === undefined ? 'New policy test' : `Edit ${replaces}`}
      size="lg"
      close={close}
      write={{ submit, busy, fault }}
      action={replaces === undefined ? 'Add the test' : 'Save the test'}
    >
      <TextInput
        label="Name"
        value={draft.name}
        onChange={(event) => change({ name: event.currentTarget.value })}
        error={faultOf('name')}
        data-autofocus
      />
      {end('from', 'From')}
      {end('to', 'To')}
      <div className="row">
        <NativeSelect
          label="Protocol"
          data={[
            { value: 'tcp', label: 'TCP' },
            { value: 'udp', label: 'UDP' },
            { value: 'icmp', label: 'Ping' },
          ]}
          value={draft.protocol}
          onChange={(event) => change({ protocol: event.currentTarget.value as TestProtocol })}
        />
        {draft.protocol === 'icmp' ? null : (
          <TextInput
            label="Port"
            inputMode="numeric"
            value={draft.port}
            onChange={(event) => change({ port: event.currentTarget.value })}
            error={faultOf('port')}
          />
        )}
      </div>
      <div className="stack tight">
        <span>These connections must be</span>
        <SegmentedControl
          aria-label="These connections must be"
          value={draft.expect}
          onChange={(expect) => change({ expect })}
          data={[
            { value: 'allow', label: 'Allowed, for every pair' },
            { value: 'refuse', label: 'Refused, for every pair' },
          ]}
        />
      </div>
      <Textarea
        label="Note"
        description="Why it must be so, for people."
        value={draft.note}
        onChange={(event) => change({ note: event.currentTarget.value })}
        error={faultOf('note')}
        autosize
        minRows={1}
      />
      {test === undefined ? null : <Outcome test={test} />}
    </FormDialog>
  );
}
