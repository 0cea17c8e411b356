/** Owns "Allow this": a refused flow becomes a rule in a group that the person chooses and a policy test, previewed and written as one change set. */
import { Button, Checkbox, Select } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useMemo, useState, type ReactNode } from 'react';
import type { ChangeSetBody, WrittenChangeSet } from '../../api/change/change-set.ts';
import type { Device } from '../../api/device.ts';
import type { Flow } from '../../api/flows/flow.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { RingfenceError } from '../../client/error.ts';
import { devicesOf } from '../../organization/of-records.ts';
import { flowDirection, flowTraffic } from '../../client/words/flow.ts';
import { ruleWords, sameRule } from '../../client/words/rule.ts';
import type { PolicyTest } from '../../policy/policy-test/policy-test.ts';
import { testInWords } from '../../policy/policy-test/words.ts';
import type { StoredRule } from '../../policy/rule.ts';
import { RadioList } from '../components/radio-list.tsx';
import { notify, writeOrAsk, useWrite } from '../state/write.tsx';
import { Preview } from '../group/preview.tsx';
import { groupsOn, type GroupOn } from '../model/device-policy.ts';
import { contentOf, emptyContent, type Content } from '../model/draft.ts';
import { plural } from '../../client/words/number.ts';
import { freeName, testOf } from '../policy-test/test-draft.ts';
import { useDeviceNames, deviceName, useLive, useRights, useSnapshot } from '../state/organization.ts';
import { usePolicyTests, withoutResult, type TestRun } from '../state/policy-tests.ts';
import { useSession } from '../state/session.ts';
import { TryDialog, type TrialQuery } from '../trial/try-dialog.tsx';
import { draftedRule, draftedTest, farEndChoices, usualChoice } from './flow-draft.ts';

const newGroup = 'new';

/** The groups that apply to the device. */
function useGroupsOn(device: Device): readonly GroupOn[] {
  const { groups, groupById } = useSnapshot();
  return groupsOn(device, { groups, groupById });
}

/** A rule in a group, and the group and device records that it takes. */
interface DraftedChange {
  readonly before: Content;
  readonly after: Content;
  readonly change: ChangeSetBody;
}

function changeOf(
  rule: StoredRule,
  flow: Flow,
  {
    group,
    device,
    fresh,
  }: { readonly group: SecurityGroup | undefined; readonly device: Device; readonly fresh: FreshGroup },
): DraftedChange {
  const field = `${flowDirection(flow)}_rules` as const;
  if (group !== undefined) {
    const before = contentOf(group);
    const after = { ...before, [field]: [...before[field], rule] };
    return {
      before,
      after,
      change: { security_groups: [{ id: group.id, revision: group.revision, [field]: after[field] }] },
    };
  }
  const { id, user_id } = fresh;
  const after = { ...emptyContent, group_name: fresh.name, [field]: [rule] };
  return {
    before: emptyContent,
    after,
    change: {
      security_groups: [{ id, group_name: fresh.name, [field]: [rule], ...(user_id !== undefined && { user_id }) }],
      devices: [{ id: device.id, revision: device.revision, security_groups: [...(device.security_groups ?? []), id] }],
    },
  };
}

/** The tests with one more, under a name that is free. */
const testsWith = ({ results, revision }: TestRun, test: PolicyTest): Partial<ChangeSetBody> => ({
  policy_tests: [
    ...results.map(withoutResult),
    { ...test, name: freeName(test.name, new Set(results.map(({ name }) => name))) },
  ],
  ...(revision !== undefined && { policy_tests_revision: revision }),
});

interface FreshGroup {
  readonly id: string;
  readonly name: string;
  /** Of a member: its own group. */
  readonly user_id?: string;
}

function Allow({
  flow,
  device,
  close,
}: {
  readonly flow: Flow;
  readonly device: Device;
  readonly close: () => void;
}): ReactNode {
  const { client } = useSession();
  const { id: org } = useLive();
  const queries = useQueryClient();
  const { devices, groups } = useSnapshot();
  const { governs, editDevice, editGroup, me } = useRights();
  const names = useDeviceNames();
  const present = useGroupsOn(device);
  const editable = present.flatMap(({ group: one }) =>
    one !== undefined && editGroup(one) && one.trial === undefined ? [one] : [],
  );
  const tests = usePolicyTests(governs).data;
  const name = deviceName(device);
  const direction = flowDirection(flow);
  const choices = useMemo(() => farEndChoices(flow, devices, names), [flow, devices, names]);
  const [chip, setChip] = useState<string>();
  const choice = choices.find((one) => one.chip === chip) ?? usualChoice(choices);
  const nearest = editable.find(({ id }) => id === flow.decision?.nearest?.group_id);
  const mayAttach = editDevice(device) && device.trial === undefined;
  const [place, setPlace] = useState<string>((nearest ?? editable[0])?.id ?? newGroup);
  const [id] = useState(() => crypto.randomUUID());
  const [wantsTest, setWantsTest] = useState(true);
  const [isTrying, setTrying] = useState(false);
  const group = editable.find((one) => one.id === place);
  const rule = choice && draftedRule(flow, choice, names);
  const test = draftedTest(flow, names);
  const existing = tests && testOf(tests.results, test);
  const isTested = governs && wantsTest && tests !== undefined && existing === undefined;
  const fresh: FreshGroup = { id, name: `${name} ${flowTraffic(flow)}`, ...(!governs && { user_id: me.id }) };
  const drafted = rule && changeOf(rule, flow, { group, device, fresh });
  /** With its test. A trial is of the rule alone: tests cannot be tried. */
  const whole: ChangeSetBody = {
    ...drafted?.change,
    ...(isTested && testsWith(tests, test)),
  };
  const write = async (body: ChangeSetBody, trial?: TrialQuery): Promise<WrittenChangeSet> => {
    try {
      return await writeOrAsk((agreed) => client.changes.apply(org, body, { ...trial, ...agreed }));
    } catch (error) {
      if (!(error instanceof RingfenceError) || error.code !== 'precondition_failed') throw error;
      await queries.invalidateQueries({ queryKey: ['policy tests', org] });
      throw new Error('Someone else changed it meanwhile. Look at the preview again, then allow it.', { cause: error });
    }
  };
  const { start, busy, fault } = useWrite(async () => {
    const { change_id } = await write(whole);
    await queries.invalidateQueries({ queryKey: ['flows', org] });
    notify(`${flowTraffic(flow)} is allowed${isTested ? ', and a policy test keeps it so' : ''}.`, () =>
      writeOrAsk((agreed) => client.changes.revert(org, change_id, agreed), { opened: new Set([device.id]) }),
    );
    close();
  });
  if (drafted === undefined || rule === undefined || choice === undefined) return null;
  // While it is written, the group has it already.
  const isThere = !busy && drafted.before[`${direction}_rules`].some((known) => sameRule(known, rule));
  const places = [
    ...editable.map((one) => {
      const count = devicesOf(one.id, devices, groups).length;
      return { value: one.id, label: `${one.group_name}, on ${plural(count, 'device')}` };
    }),
    ...(mayAttach ? [{ value: newGroup, label: `A new group on ${name} only: ${fresh.name}` }] : []),
  ];
  const replacesDefault = group === undefined && present.some(({ by }) => by === 'default');
  return (
    <>
      <Preview
        close={close}
        title={`Allow ${flowTraffic(flow)} on ${name}`}
        closeLabel="Cancel"
        before={drafted.before}
        after={drafted.after}
        change={whole}
        choices={
          <>
            <RadioList
              label={direction === 'inbound' ? 'From' : 'To'}
              value={choice.chip}
              onChange={setChip}
              choices={choices.map((one) => ({
                value: one.chip,
                label: <span className="mono">{one.chip}</span>,
                about: one.chip.startsWith('label:')
                  ? `${plural(one.devices.length, 'device')} now, and each that gets ${one.chip.includes('+') ? 'these labels' : 'the label'} later. Only owners give labels.`
                  : one.chip.startsWith('device:')
                    ? 'This device, with the addresses that it has or gets. It trusts its user with them.'
                    : 'This address, whoever has it.',
              }))}
            />
            <Select
              label="In the group"
              data={places}
              value={group?.id ?? newGroup}
              onChange={(next) => setPlace(next ?? newGroup)}
              allowDeselect={false}
            />
            {replacesDefault ? (
              <p className="note note-warn">
                Only the default group applies to {name} now. A group of its own takes the place of the default group:
                see below what {name} loses by that.
              </p>
            ) : null}
            {isThere ? (
              <p className="note note-warn" role="status">
                {group?.group_name} already has this {direction} rule:{' '}
                <strong className="mono">{ruleWords(direction, rule, names)}</strong>
              </p>
            ) : (
              <p className="note note-plain">
                The new {direction} rule: <strong className="mono">{ruleWords(direction, rule, names)}</strong>
              </p>
            )}
            {!governs ? (
              <p className="small dimmed">Only owners add policy tests.</p>
            ) : existing === undefined ? (
              <Checkbox
                label={`Add a policy test: ${testInWords(test, names.nameOf)}`}
                checked={wantsTest}
                onChange={(event) => setWantsTest(event.currentTarget.checked)}
              />
            ) : (
              <p className="small dimmed">
                The policy test “{existing.name}” is about this connection already and demands that it is{' '}
                {existing.expect === 'allow' ? 'allowed' : 'refused'}.
              </p>
            )}
            {fault === undefined ? null : (
              <p className="fault" role="alert">
                {fault}
              </p>
            )}
          </>
        }
      >
        <Button variant="default" onClick={() => setTrying(true)} disabled={isThere}>
          Try it first
        </Button>
        <Button onClick={() => start()} loading={busy} disabled={isThere || (governs && tests === undefined)}>
          Allow it
        </Button>
      </Preview>
      {isTrying ? (
        <TryDialog
          title={`Try ${flowTraffic(flow)} on ${name}`}
          of={group === undefined ? [device] : devicesOf(group.id, devices, groups)}
          close={() => setTrying(false)}
          start={async (trial) => {
            await write(drafted.change, trial);
            if (isTested) notify('The trial is of the rule alone. Add the policy test once you keep it.');
            close();
          }}
        />
      ) : null}
    </>
  );
}

/** Nothing where the device is gone meanwhile. */
export function AllowDialog({ flow, close }: { readonly flow: Flow; readonly close: () => void }): ReactNode {
  const device = useSnapshot().deviceById.get(flow.device_id);
  return device === undefined ? null : <Allow flow={flow} device={device} close={close} />;
}
