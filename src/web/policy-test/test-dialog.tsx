/** Owns the form of one policy test: its fields, their problems, and what the test says of the policy as it is now. */
import { NativeSelect, SegmentedControl, Textarea, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import type { PolicyTest, TestProtocol } from '../../policy/policy-test/policy-test.ts';
import { FormDialog } from '../components/dialog.tsx';
import { FarEndInput } from '../group/far-end-input.tsx';
import { readTest, type TestDraft, type TestField } from './test-draft.ts';
import { useDeviceNames } from '../state/fleet.ts';
import { useLive } from '../state/organization.ts';
import { useEditTests } from '../state/policy-tests.ts';
import { useSession } from '../state/session.ts';
import { useWrite } from '../state/write.ts';
import { TestFailure } from './test-results.tsx';

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

export function TestDialog({
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
